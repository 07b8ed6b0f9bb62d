//! ACL: users and their rules; and the check of each request against them.
//!
//! ```text
//! request -> needs (unit, keys, channels) -> User::check (users/) -> nothing, or NOPERM and an entry of ACL LOG
//! ```

use super::call::{Args, NOT_AN_INTEGER, Outcome, Refusal};
use super::categories::{self, unit_index, units};
use super::number::parse_integer;
use super::reply;
use super::spec::{Id, Names, Spec};
use super::state::SessionState;
use super::{client, key_specs};
use crate::blocked::{Waiter, Wanted};
use crate::clients::{Client, Subscription};
use crate::keyspace::now_ms;
use crate::server::Server;
use crate::users::{DEFAULT, Denied, LogEntry, Needs, Selector, User, Users, join_selectors};
use std::path::Path;
use std::sync::Arc;

const HELP: [&str; 22] = [
    "CAT [<category>]",
    "    Lists the categories, or the commands of one.",
    "DELUSER <username> [<username> ...]",
    "    Removes users and closes their connections.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Tests whether a user may run a command.",
    "GENPASS [<bits>]",
    "    Generates a random password.",
    "GETUSER <username>",
    "    Returns the rules of a user.",
    "LIST",
    "    Lists all users in the format of an ACL file.",
    "LOAD | SAVE",
    "    Reads the users from the ACL file, or writes them to it.",
    "LOG [<count> | RESET]",
    "    Lists recently denied requests, or clears the list.",
    "SETUSER <username> [<rule> ...]",
    "    Creates a user, or changes its rules.",
    "USERS",
    "    Lists the names of all users.",
    "WHOAMI",
    "    Returns the user of this connection.",
];

/// The permissions that a request needs from its user's rules.
fn needs<'a>(spec: &'static Spec, args: &Args<'a>) -> Needs<'a> {
    let subcommand = spec.subcommand(args).ok().flatten().map(|(name, _)| name);
    let keys = spec.key_indices(args).enumerate().filter_map(|(ordinal, index)| {
        let access = key_specs::access_of(spec, args, ordinal);
        // A script may ask about a request with too few arguments.
        let key = args.get(index).filter(|_| !access.is_no_key())?;
        Some((key, access.reads(), access.writes()))
    });
    let channels: Vec<(&[u8], bool)> = match spec.id {
        Id::Publish | Id::SPublish => args.get(1).map(|name| (name, false)).into_iter().collect(),
        Id::Subscribe | Id::SSubscribe => args.from(1).map(|name| (name, false)).collect(),
        Id::PSubscribe => args.from(1).map(|name| (name, true)).collect(),
        _ => Vec::new(),
    };
    Needs {
        unit: unit_index(spec, subcommand),
        keys: keys.collect(),
        channels,
        reads_any_key: super::sort::reads_other_keys(spec.id, args),
        is_free: matches!(spec.id, Id::Auth | Id::Hello | Id::Quit | Id::Reset),
    }
}

/// Where a request comes from, for ACL LOG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    TopLevel,
    Multi,
    Lua,
}

/// Fails unless the user's rules now allow the request. A denied request is recorded. Ends the connection if
/// its user was removed.
#[inline]
pub(crate) fn permit(session: &mut SessionState, spec: &'static Spec, args: &Args<'_>, context: Context) -> Outcome {
    session.closing |= !session.refresh_user();
    match session.user.is_unrestricted() {
        true => Ok(()),
        false => check(&session.server, &session.client, &session.user, &needs(spec, args), context),
    }
}

/// Whether the user's rules now allow the request, which may have too few arguments. Nothing is recorded. As in Redis,
/// SORT with patterns counts as allowed, although it needs a user that may read all keys.
pub(super) fn allows(session: &mut SessionState, spec: &'static Spec, args: &Args<'_>) -> bool {
    session.closing |= !session.refresh_user();
    session.user.check(&Needs { reads_any_key: false, ..needs(spec, args) }).is_ok()
}

/// Fails unless the rules now allow a waiting client to receive what it waits for.
pub(super) fn permit_waiter(server: &Server, waiter: &Waiter) -> Outcome {
    let users = &server.settings.users;
    if users.version() == 0 {
        return Ok(());
    }
    let access = |key, ordinal| {
        let access = key_specs::access(waiter.spec, ordinal);
        (key, access.reads(), access.writes())
    };
    let mut keys: Vec<(&[u8], bool, bool)> = waiter.keys.iter().map(|key| access(key.as_slice(), 0)).collect();
    if let Wanted::Moved { destination, .. } = &waiter.wanted {
        keys.push(access(destination, 1));
    }
    let needs = Needs { unit: unit_index(waiter.spec, None), keys, ..Needs::default() };
    let name = waiter.client.user();
    let user = users.find(&name).unwrap_or_else(|| Arc::new(User::new(&name)));
    check(server, &waiter.client, &user, &needs, Context::TopLevel)
}

#[cold]
fn check(server: &Server, client: &Client, user: &User, needs: &Needs<'_>, context: Context) -> Outcome {
    let Err(denied) = user.check(needs) else { return Ok(()) };
    let name = units()[needs.unit].name();
    let (reason, object) = match denied {
        Denied::Command => ("command", name.as_bytes()),
        Denied::Key(key) => ("key", key),
        Denied::Channel(channel) => ("channel", channel),
    };
    note((server, client), reason, context, object, &user.name);
    Err(match (context, denied) {
        (Context::Lua, Denied::Command) => {
            "ERR The user executing the script can't run this command or subcommand".into()
        }
        (Context::Lua, Denied::Key(_)) => {
            "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
                .into()
        }
        (Context::Lua, Denied::Channel(_)) => {
            "ERR The user executing the script can't publish to the channel mentioned in the command".into()
        }
        (_, Denied::Command) => format!("NOPERM this user has no permissions to run the '{name}' command").into(),
        (_, Denied::Key(_)) => "NOPERM this user has no permissions to access one of the keys used as arguments".into(),
        (_, Denied::Channel(_)) => {
            "NOPERM this user has no permissions to access one of the channels used as arguments".into()
        }
    })
}

fn note((server, client): (&Server, &Client), reason: &'static str, context: Context, object: &[u8], user: &[u8]) {
    server.settings.users.log.note(LogEntry {
        count: 1,
        reason,
        context: match context {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        },
        object: object.to_vec(),
        user: user.to_vec(),
        at_ms: now_ms(),
        client: client::describe(server, client),
    });
}

/// Authenticates the connection as this user.
///
/// # Errors
/// `WRONGPASS`, which is recorded.
pub(super) fn authenticate(session: &mut SessionState, name: &[u8], password: &[u8]) -> Outcome {
    match session.server.settings.users.find(name).filter(|user| user.admits(password)) {
        Some(user) => {
            session.become_user(user, true);
            Ok(())
        }
        None => {
            note((&session.server, &session.client), "auth", Context::TopLevel, b"AUTH", name);
            Err("WRONGPASS invalid username-password pair or user is disabled.".into())
        }
    }
}

/// ACL subcommand ...
pub(super) fn acl(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let server = session.server.clone();
    let users = &server.settings.users;
    let subcommand = args.at(1).to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"whoami", 2) => reply::bulk(out, &session.user.name),
        (b"users", 2) => texts(out, users.all().iter().map(|user| &user.name)),
        (b"list", 2) => texts(out, users.all().iter().map(|user| user.line())),
        (b"getuser", 3) => get_user(users.find(args.at(2)).as_deref(), out, session.version),
        (b"setuser", 3..) => set_user(session, args, out)?,
        (b"deluser", 3..) => delete_users(session, args, out)?,
        (b"cat", 2) => texts(out, categories::NAMES.iter()),
        (b"cat", 3) => list_category(args, out)?,
        (b"genpass", 2 | 3) => generate_password(session, args, out)?,
        (b"log", 3) if args.is(2, "reset") => {
            users.log.clear();
            reply::ok(out);
        }
        (b"log", 2 | 3) => log(users, args, out, session.version)?,
        (b"dryrun", 4..) => dry_run(users, args, out)?,
        (b"load", 2) => {
            users.load(file_of(users)?).map_err(|what| format!("ERR {what}; the users stay as they were"))?;
            end_denied(session);
            reply::ok(out);
        }
        (b"save", 2) => {
            let path = file_of(users)?;
            users.save(path).map_err(|error| format!("ERR {}: {error}", path.display()))?;
            reply::ok(out);
        }
        (b"help", 2) => reply::help(out, "ACL", &HELP),
        _ => return Err(Refusal::unknown_subcommand(&args, "ACL")),
    }
    Ok(())
}

/// Replies with an array of texts.
fn texts<T: AsRef<[u8]>>(out: &mut Vec<u8>, texts: impl ExactSizeIterator<Item = T>) {
    reply::array(out, texts.len());
    texts.for_each(|text| reply::bulk(out, text.as_ref()));
}

/// The file of ACL LOAD and SAVE.
fn file_of(users: &Users) -> Result<&Path, Refusal> {
    Ok(users.file().ok_or(
        "ERR This server has no ACL file: start it with --acl-file, or give the users' rules with ACL SETUSER",
    )?)
}

/// ACL GETUSER username
fn get_user(user: Option<&User>, out: &mut Vec<u8>, version: reply::Version) {
    let Some(user) = user else { return reply::null(out, version) };
    reply::map(out, 6, version);
    reply::bulk(out, b"flags");
    let flags = user.flags();
    reply::set(out, flags.len(), version);
    flags.iter().for_each(|flag| reply::bulk(out, flag.as_bytes()));
    reply::bulk(out, b"passwords");
    texts(out, user.passwords.iter());
    rules(&user.selectors[0], out);
    reply::bulk(out, b"selectors");
    reply::array(out, user.selectors.len() - 1);
    for selector in &user.selectors[1..] {
        reply::map(out, 3, version);
        rules(selector, out);
    }
}

/// The rules of a selector, as three pairs of a map.
fn rules(selector: &Selector, out: &mut Vec<u8>) {
    reply::bulk(out, b"commands");
    reply::bulk(out, selector.commands_text().as_bytes());
    reply::bulk(out, b"keys");
    reply::bulk(out, &selector.keys_text());
    reply::bulk(out, b"channels");
    reply::bulk(out, &selector.channels_text());
}

/// ACL SETUSER username \[rule ...\]
fn set_user(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let name = args.at(2);
    if name.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        return Err("ERR Usernames can't contain spaces or null characters".into());
    }
    if name.is_empty() {
        return Err("ERR a user needs a name".into()); // a file could not have its line
    }
    let refused = |text: Vec<u8>| Refusal::Text([b"ERR ".as_slice(), &text].concat().into());
    let rules = join_selectors(args.from(3)).map_err(refused)?;
    session.server.settings.users.change(name, &rules).map_err(refused)?;
    end_denied(session);
    reply::ok(out);
    Ok(())
}

/// ACL DELUSER username ...
fn delete_users(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    if args.from(2).any(|name| name == DEFAULT.as_bytes()) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    let removed = args.from(2).filter(|name| session.server.settings.users.remove(name)).count();
    end_denied(session);
    reply::count(out, removed as u64);
    Ok(())
}

/// ACL CAT category
fn list_category(args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let index = std::str::from_utf8(args.at(2)).ok().and_then(categories::index_of);
    let index = index.ok_or_else(|| Refusal::about("ERR Unknown category '", args.at(2), "'"))?;
    let found = units().iter().filter(|unit| unit.categories().has(index));
    let names: Vec<String> = found.map(|unit| unit.name()).collect();
    texts(out, names.iter());
    Ok(())
}

/// ACL GENPASS \[bits\]
fn generate_password(session: &SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    const WRONG: &str = "ERR ACL GENPASS argument must be the number of bits for the output password, a \
                         positive number up to 4096";
    let bits = args.get(2).map_or(Ok(256), |text| parse_integer(text).ok_or(NOT_AN_INTEGER))?;
    let bits = usize::try_from(bits).ok().filter(|bits| (1..=4096).contains(bits)).ok_or(WRONG)?;
    reply::bulk(out, secret_digits(session, bits.div_ceil(4))?.as_bytes());
    Ok(())
}

/// Draws random hexadecimal digits that no client can guess.
fn secret_digits(session: &SessionState, digits: usize) -> Result<String, Refusal> {
    let mut text = String::new();
    while text.len() < digits {
        text.push_str(&format!("{:016x}", session.server.space.new_secret()?));
    }
    text.truncate(digits);
    Ok(text)
}

/// Whether a user may receive what its client gets without a request: messages, and others' commands.
fn may_receive(server: &Server, user: &User, client: &Client) -> bool {
    let has_denied = |kind: Subscription| {
        let names = client.subscribed(kind);
        names.iter().any(|channel| !user.may_subscribe(channel, kind == Subscription::Pattern))
    };
    let may_monitor = || !server.monitors.has(client.id) || user.may_run(&["monitor"]);
    user.is_unrestricted() || may_monitor() && !Subscription::ALL.into_iter().any(has_denied)
}

/// The clients that the rules no longer allow: those whose user was removed, and those that receive what their user may
/// not.
pub(crate) fn denied_clients(server: &Server) -> Vec<Arc<Client>> {
    let mut clients = server.clients.all();
    clients.retain(|client| {
        let user = server.settings.users.find(&client.user());
        !user.is_some_and(|user| may_receive(server, &user, client))
    });
    clients
}

/// Ends the connections of [`denied_clients`].
fn end_denied(session: &mut SessionState) {
    for client in denied_clients(&session.server) {
        client::end(session, &client);
    }
}

/// Ends the connection if rules that changed after the request was permitted deny what the client now receives. The
/// change did not see that client among the receivers.
pub(super) fn settle_receiver(session: &mut SessionState) {
    if session.knows_users() {
        return;
    }
    let is_there = session.refresh_user();
    session.closing |= !is_there || !may_receive(&session.server, &session.user, &session.client);
}

/// ACL DRYRUN username command ...
fn dry_run(users: &Users, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let user = users.find(args.at(2));
    let user = user.ok_or_else(|| Refusal::about("ERR User '", args.at(2), "' not found"))?;
    let spec = Names::get().find(args.at(3));
    let spec = spec.ok_or_else(|| Refusal::about("ERR Command '", args.at(3), "' not found"))?;
    let args = Args { spans: &args.spans[3..], ..args };
    let fits = spec.subcommand(&args)?.is_none_or(|(_, arity)| super::spec::fits(arity, args.len()));
    if !spec.accepts(args.len()) || !fits {
        return Err(format!("ERR wrong number of arguments for '{}' command", spec.name).into());
    }
    let needs = needs(spec, &args);
    let quoted = |before: &str, object: &[u8], after: &str| [before.as_bytes(), object, after.as_bytes()].concat();
    match user.check(&needs) {
        Ok(()) => reply::ok(out),
        Err(Denied::Command) => {
            let name = units()[needs.unit].name();
            reply::bulk(out, format!("This user has no permissions to run the '{name}' command").as_bytes());
        }
        Err(Denied::Key(key)) => {
            reply::bulk(out, &quoted("This user has no permissions to access the '", key, "' key"));
        }
        Err(Denied::Channel(channel)) => {
            reply::bulk(out, &quoted("This user has no permissions to access the '", channel, "' channel"));
        }
    }
    Ok(())
}

/// ACL LOG \[count\]
fn log(users: &Users, args: Args<'_>, out: &mut Vec<u8>, version: reply::Version) -> Outcome {
    const LOG_ENTRIES: i64 = 10;
    let count = args.get(2).map_or(Ok(LOG_ENTRIES), |text| parse_integer(text).ok_or(NOT_AN_INTEGER))?;
    let entries = users.log.newest(usize::try_from(count).unwrap_or(0));
    let now_ms = now_ms();
    reply::array(out, entries.len());
    for entry in entries {
        reply::map(out, 7, version);
        reply::bulk(out, b"count");
        reply::count(out, entry.count);
        for (name, value) in [
            ("reason", entry.reason.as_bytes()),
            ("context", entry.context.as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, value);
        }
        reply::bulk(out, b"age-seconds");
        reply::score(out, now_ms.saturating_sub(entry.at_ms) as f64 / 1000.0, version);
        reply::bulk(out, b"client-info");
        reply::bulk(out, entry.client.as_bytes());
    }
    Ok(())
}
