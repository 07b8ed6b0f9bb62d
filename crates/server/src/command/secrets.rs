//! Secret arguments: passwords, and the rules of ACL SETUSER. The slow log and MONITOR show `(redacted)` in their
//! place, as Redis does.

use super::call::Args;
use super::spec::{Id, Names};

const REDACTED: &[u8] = b"(redacted)";

/// Options of CONFIG SET whose values Redis hides. This server has only the first.
const OPTIONS: [&str; 5] = ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass"];

/// The arguments of a request, with `(redacted)` in place of secret ones.
pub(crate) fn shown<'a>(args: &Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let args = *args;
    let id = args.get(0).and_then(|name| Names::get().find(name)).map(|spec| spec.id);
    args.from(0).enumerate().map(move |(index, argument)| if is_secret(id, &args, index) { REDACTED } else { argument })
}

/// Whether an argument may be secret. Refused requests are shown too, and their words may be in any order, so any word
/// after `AUTH` or the name of an option counts as a password.
fn is_secret(id: Option<Id>, args: &Args<'_>, index: usize) -> bool {
    match id {
        Some(Id::Auth) => index > 0,
        Some(Id::Hello) => index > 0 && args.len() > 2,
        Some(Id::Acl) => index > 1 && args.is(1, "setuser"),
        Some(Id::Config) => index > 2 && args.is(1, "set") && OPTIONS.iter().any(|option| args.is(index - 1, option)),
        Some(Id::Migrate) => {
            index > 6 && (args.is(index - 1, "auth") || args.is(index - 1, "auth2") || args.is(index - 2, "auth2"))
        }
        _ => false,
    }
}
