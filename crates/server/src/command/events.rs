//! The keyspace events of each command, as Redis names them.

use super::call::Args;
use super::spec::Id;
use crate::keyspace::{Change, Exclusive, Happened};
use crate::notices::{After, Events, Notices};

/// Reports what a command has changed: call it after the command, before the gate opens. `client`: who sent it.
#[inline]
pub(crate) fn report(notices: &Notices, alone: &mut Exclusive<'_>, id: Id, args: &Args<'_>, client: u64) {
    let changes = alone.take_changes();
    if !changes.is_empty() {
        report_changes(notices, alone, changes, id, args, client);
    }
}

/// Reports what a run of a command has changed, each change with this event.
#[inline]
pub(crate) fn report_run(notices: &Notices, alone: &mut Exclusive<'_>, event: &'static str, client: u64) {
    let changes = alone.take_changes();
    if !changes.is_empty() {
        notices.report(alone, &changes, Some(client), |_, _| [Some(event), None]);
    }
}

#[cold]
fn report_changes(
    notices: &Notices,
    alone: &mut Exclusive<'_>,
    mut changes: Vec<Change>,
    id: Id,
    args: &Args<'_>,
    client: u64,
) {
    // A command on one key may change it in several steps, but causes its events once.
    if !matches!(id, Id::MSet | Id::MSetNx | Id::MSetEx) {
        let is_changed = |change: &Change| matches!(change.what, Happened::Changed { .. });
        changes.dedup_by(|next, one| {
            (next.database, &next.key) == (one.database, &one.key) && is_changed(next) && is_changed(one)
        });
    }
    // These remove a value that they replace.
    if matches!(id, Id::Rename | Id::RenameNx | Id::Copy | Id::Restore) {
        for change in changes.iter_mut().filter(|change| matches!(change.what, Happened::Changed { .. })) {
            change.what = Happened::Changed { was_present: false };
        }
    }
    notices.report(alone, &changes, Some(client), |change, after| events_of(id, args, change, after));
}

fn events_of(id: Id, args: &Args<'_>, change: &Change, after: After) -> Events {
    let is_rename = matches!(id, Id::Rename | Id::RenameNx);
    if !after.is_present {
        return [Some(if is_rename { "rename_from" } else { "del" }), None];
    }
    let keeps = || args.from(3).any(|argument| argument.eq_ignore_ascii_case(b"keepttl"));
    let event = match id {
        // Stores its estimate, which is no event.
        Id::PfCount => return [None, None],
        Id::Set | Id::MSetEx | Id::SetEx | Id::PSetEx => {
            return [Some("set"), (after.expires && !keeps()).then_some("expire")];
        }
        Id::Append => "append",
        Id::SetRange => "setrange",
        Id::Incr | Id::Decr | Id::IncrBy | Id::DecrBy => "incrby",
        Id::IncrByFloat => "incrbyfloat",
        Id::SetBit | Id::BitField => "setbit",
        Id::PfAdd | Id::PfMerge => "pfadd",
        Id::Expire | Id::PExpire | Id::ExpireAt | Id::PExpireAt => "expire",
        Id::GetEx => {
            if after.expires {
                "expire"
            } else {
                "persist"
            }
        }
        Id::Persist => "persist",
        Id::Copy => "copy_to",
        Id::Restore => "restore",
        _ if is_rename && args.get(2) == Some(&change.key) => "rename_to",
        _ => "set",
    };
    [Some(event), None]
}
