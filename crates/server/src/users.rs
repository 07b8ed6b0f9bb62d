//! Users, and what each may do: the commands, the keys and the channels that their rules allow (ACL SETUSER).
//!
//! ```text
//! User ── flags, hashed passwords
//!      └─ Selector 1.. ── commands: a bit for each command and subcommand
//!                      ├─ patterns of keys, each for reading, writing or both
//!                      └─ patterns of channels
//! ```
//!
//! A request is allowed if one selector allows all of it. Users are replaced as a whole; a session keeps the user it
//! has, and looks it up again when [`Users::version`] has changed.
//!
//! Not here: the ACL command (`command/acl.rs`), and where requests are checked (`resp/session/`).

use crate::command::categories::{self, find_unit, unit_index, units};
use crate::command::pattern::matches;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use subtle::ConstantTimeEq;

/// The user of connections that did not name one.
pub(crate) const DEFAULT: &str = "default";

const SYNTAX: &str = "Syntax error";
const UNKNOWN: &str = "Unknown command or category name in ACL";
const NO_SUCH_PASSWORD: &str = "The password you are trying to remove from the user does not exist";
const WRONG_HASH: &str =
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";
const ALL_KEYS: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have \
                        any effect. Try 'resetkeys' to start with an empty list of patterns";
const ALL_CHANNELS: &str = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not \
                            have any effect. Try 'resetchannels' to start with an empty list of channels";
const FIRST_ARGUMENT: &str = "Allowing first-arg of a subcommand is not supported";
const TOO_MUCH: &str = "too many or too long rules";

/// The most patterns of keys, patterns of channels and passwords.
const PATTERNS_MAX: usize = 4096;
/// The most rules in parentheses.
const SELECTORS_MAX: usize = 64;
/// The most rules of one command or line.
const RULES_MAX: usize = 10_000;
/// The longest password, in bytes: hashing it holds up other clients.
pub(crate) const PASSWORD_BYTES_MAX: usize = 1 << 20;
/// The most bytes of all users together, as a file has them.
const BYTES_MAX: usize = 16 << 20;
/// The most bytes of a name or key that an entry of ACL LOG keeps.
const LOGGED_BYTES_MAX: usize = 128;

/// A pattern of keys, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Vec<u8>,
    reads: bool,
    writes: bool,
}

impl KeyPattern {
    fn text(&self) -> Vec<u8> {
        let prefix: &[u8] = match (self.reads, self.writes) {
            (true, true) => b"~",
            (true, false) => b"%R~",
            _ => b"%W~",
        };
        [prefix, &self.pattern].concat()
    }
}

/// What one part of a user's rules allows.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    /// A bit for each of [`units`].
    commands: Vec<u64>,
    /// The rules that led to these bits, from the last that named all commands.
    rules: Vec<String>,
    keys: Vec<KeyPattern>,
    /// Whether a rule allowed all keys, so that more patterns would mean nothing.
    has_all_keys: bool,
    channels: Vec<Vec<u8>>,
}

/// Why a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied<'a> {
    Command,
    Key(&'a [u8]),
    Channel(&'a [u8]),
}

impl Denied<'_> {
    /// How far the check of a selector came: the command, then the keys in their order, then the channels.
    fn rank(&self) -> (u8, *const u8) {
        match self {
            Denied::Command => (0, std::ptr::null()),
            Denied::Key(key) => (1, key.as_ptr()),
            Denied::Channel(channel) => (2, channel.as_ptr()),
        }
    }
}

/// What a request needs: its unit, its keys with whether they are read and written, its channels with whether they are
/// patterns.
#[derive(Default)]
pub(crate) struct Needs<'a> {
    pub(crate) unit: usize,
    pub(crate) keys: Vec<(&'a [u8], bool, bool)>,
    pub(crate) channels: Vec<(&'a [u8], bool)>,
    /// Whether it reads keys that only their values name.
    pub(crate) reads_any_key: bool,
    /// Whether any client may send it: AUTH, HELLO, QUIT, RESET.
    pub(crate) is_free: bool,
}

impl Selector {
    /// Allows nothing.
    fn new() -> Selector {
        let words = units().len().div_ceil(64);
        Selector {
            commands: vec![0; words],
            rules: vec!["-@all".into()],
            keys: Vec::new(),
            has_all_keys: false,
            channels: Vec::new(),
        }
    }

    fn set(&mut self, index: usize, is_allowed: bool) {
        let bit = 1u64 << (index % 64);
        let word = &mut self.commands[index / 64];
        *word = if is_allowed { *word | bit } else { *word & !bit };
    }

    fn allows(&self, unit: usize) -> bool {
        self.commands[unit / 64] >> (unit % 64) & 1 == 1
    }

    fn allows_all(&self) -> bool {
        self.has_all_keys
            && self.channels.iter().any(|channel| channel == b"*")
            && (0..units().len()).all(|index| self.allows(index))
    }

    /// Applies one rule.
    fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        let lower = String::from_utf8_lossy(rule).to_ascii_lowercase();
        match lower.as_str() {
            "" => {}
            "allkeys" | "~*" => self.allow_all_keys(),
            "resetkeys" => (self.keys, self.has_all_keys) = (Vec::new(), false),
            "allchannels" | "&*" => self.channels = vec![b"*".to_vec()],
            "resetchannels" => self.channels.clear(),
            "allcommands" | "+@all" => self.all_commands(true),
            "nocommands" | "-@all" => self.all_commands(false),
            _ => match rule {
                [b'~', pattern @ ..] => self.add_keys(pattern, true, true)?,
                [b'%', ..] if self.has_all_keys => return Err(ALL_KEYS),
                [b'%', rest @ ..] => {
                    // As in Redis, `%R` has an empty pattern.
                    let end = rest.iter().position(|byte| *byte == b'~');
                    let pattern = end.map_or(&b""[..], |end| &rest[end + 1..]);
                    let (reads, writes) = match rest[..end.unwrap_or(rest.len())].to_ascii_uppercase().as_slice() {
                        b"R" => (true, false),
                        b"W" => (false, true),
                        b"RW" | b"WR" => (true, true),
                        _ => return Err(SYNTAX),
                    };
                    self.add_keys(pattern, reads, writes)?;
                }
                [b'&', pattern @ ..] => {
                    if self.channels.iter().any(|channel| channel == b"*") {
                        return Err(ALL_CHANNELS);
                    }
                    if has_blanks(pattern) {
                        return Err(SYNTAX);
                    }
                    if !self.channels.iter().any(|channel| channel == pattern) {
                        within(PATTERNS_MAX, self.channels.len())?;
                        self.channels.push(pattern.to_vec());
                    }
                }
                [sign @ (b'+' | b'-'), name @ ..] => self.apply_to_commands(*sign == b'+', name)?,
                _ => return Err(SYNTAX),
            },
        }
        Ok(())
    }

    fn allow_all_keys(&mut self) {
        self.has_all_keys = true;
        self.keys = vec![KeyPattern { pattern: b"*".to_vec(), reads: true, writes: true }];
    }

    fn add_keys(&mut self, pattern: &[u8], reads: bool, writes: bool) -> Result<(), &'static str> {
        if self.has_all_keys {
            return Err(ALL_KEYS);
        }
        if has_blanks(pattern) {
            return Err(SYNTAX);
        }
        match self.keys.iter_mut().find(|key| key.pattern == pattern) {
            Some(key) => (key.reads, key.writes) = (key.reads || reads, key.writes || writes),
            None => {
                within(PATTERNS_MAX, self.keys.len())?;
                self.keys.push(KeyPattern { pattern: pattern.to_vec(), reads, writes });
            }
        }
        Ok(())
    }

    fn all_commands(&mut self, is_allowed: bool) {
        (0..units().len()).for_each(|index| self.set(index, is_allowed));
        self.rules = vec![if is_allowed { "+@all" } else { "-@all" }.into()];
    }

    fn apply_to_commands(&mut self, is_allowed: bool, name: &[u8]) -> Result<(), &'static str> {
        let text = std::str::from_utf8(name).map_err(|_| UNKNOWN)?.to_ascii_lowercase();
        if let Some(category) = text.strip_prefix('@') {
            let category = categories::index_of(category).ok_or(UNKNOWN)?;
            for (index, unit) in units().iter().enumerate() {
                if unit.categories().has(category) {
                    self.set(index, is_allowed);
                }
            }
        } else {
            let is_below_subcommand = || {
                text.rsplit_once('|')
                    .is_some_and(|(rest, _)| rest.contains('|') && find_unit(rest.as_bytes()).is_some())
            };
            let unit = find_unit(text.as_bytes());
            let unit =
                unit.ok_or_else(|| if is_allowed && is_below_subcommand() { FIRST_ARGUMENT } else { UNKNOWN })?;
            self.set(unit_index(unit.spec, unit.subcommand.map(|(name, _)| name)), is_allowed);
            if unit.subcommand.is_none() {
                for (name, _) in unit.spec.subcommands() {
                    self.set(unit_index(unit.spec, Some(name)), is_allowed);
                }
            }
        }
        // A later rule replaces the earlier one about the same; one about a command also those of its subcommands.
        let within = format!("{text}|");
        self.rules.retain(|rule| rule.len() < 2 || rule[1..] != *text && !rule[1..].starts_with(&within));
        self.rules.push(format!("{}{text}", if is_allowed { '+' } else { '-' }));
        Ok(())
    }

    fn check<'a>(&self, needs: &Needs<'a>) -> Result<(), Denied<'a>> {
        if !needs.is_free && !self.allows(needs.unit) {
            return Err(Denied::Command);
        }
        for &(key, reads, writes) in &needs.keys {
            let allows = |pattern: &KeyPattern| {
                (pattern.reads || !reads) && (pattern.writes || !writes) && matches(&pattern.pattern, key)
            };
            if !self.keys.iter().any(allows) {
                return Err(Denied::Key(key));
            }
        }
        for &(channel, is_pattern) in &needs.channels {
            // A pattern is allowed only if the rule is the same pattern, or all.
            let allows =
                |rule: &Vec<u8>| rule == b"*" || if is_pattern { rule == channel } else { matches(rule, channel) };
            if !self.channels.iter().any(allows) {
                return Err(Denied::Channel(channel));
            }
        }
        if needs.reads_any_key && !self.keys.iter().any(|key| key.pattern == b"*" && key.reads) {
            return Err(Denied::Key(b"*"));
        }
        Ok(())
    }

    /// The rules about commands.
    pub(crate) fn commands_text(&self) -> String {
        match self.rules.first().map(String::as_str) {
            Some("+@all" | "-@all") => self.rules.join(" "),
            _ => format!("-@all {}", self.rules.join(" ")),
        }
    }

    /// The patterns of keys.
    pub(crate) fn keys_text(&self) -> Vec<u8> {
        self.keys.iter().map(KeyPattern::text).collect::<Vec<_>>().join(&b' ')
    }

    /// The patterns of channels.
    pub(crate) fn channels_text(&self) -> Vec<u8> {
        self.channels.iter().map(|channel| [b"&", channel.as_slice()].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// Formats all rules as they can be given to ACL SETUSER.
    fn text(&self) -> Vec<u8> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        if !self.keys.is_empty() {
            parts.push(self.keys_text());
        }
        match self.channels.as_slice() {
            [all] if all == b"*" => parts.push(b"&*".to_vec()),
            channels => {
                parts.push(b"resetchannels".to_vec());
                parts.extend((!channels.is_empty()).then(|| self.channels_text()));
            }
        }
        parts.push(self.commands_text().into_bytes());
        parts.join(&b' ')
    }
}

/// Fails if `count` has reached the limit `most`.
fn within(most: usize, count: usize) -> Result<(), &'static str> {
    if count < most { Ok(()) } else { Err(TOO_MUCH) }
}

fn has_blanks(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0)
}

/// A user.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: Vec<u8>,
    pub(crate) is_on: bool,
    /// Whether any password is right.
    pub(crate) needs_no_password: bool,
    /// SHA-256 in hexadecimal digits.
    pub(crate) passwords: Vec<String>,
    /// The first one has the rules that are not in parentheses.
    pub(crate) selectors: Vec<Selector>,
    /// Whether everything is allowed.
    is_unrestricted: bool,
    /// The length of its line.
    bytes: usize,
}

fn hash(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl User {
    /// Creates a user that may do nothing.
    pub(crate) fn new(name: &[u8]) -> User {
        User {
            name: name.to_vec(),
            is_on: false,
            needs_no_password: false,
            passwords: Vec::new(),
            selectors: vec![Selector::new()],
            is_unrestricted: false,
            bytes: 0,
        }
    }

    /// The user `default` before any rule about it: may do everything, without a password.
    fn usual() -> User {
        let mut selector = Selector::new();
        selector.all_commands(true);
        selector.allow_all_keys();
        selector.channels = vec![b"*".to_vec()];
        User {
            is_on: true,
            needs_no_password: true,
            selectors: vec![selector],
            is_unrestricted: true,
            ..User::new(DEFAULT.as_bytes())
        }
    }

    /// Applies rules in order, all or none.
    ///
    /// # Errors
    /// Returns the reply of ACL SETUSER, without `ERR `.
    pub(crate) fn apply_all(&mut self, rules: &[Vec<u8>]) -> Result<(), Vec<u8>> {
        if rules.len() > RULES_MAX {
            return Err(TOO_MUCH.into());
        }
        let mut user = self.clone();
        for rule in rules {
            user.apply(rule).map_err(|what| {
                [b"Error in ACL SETUSER modifier '".as_slice(), rule, b"': ", what.as_bytes()].concat()
            })?;
        }
        user.bytes = user.line().len() + 1;
        *self = user;
        Ok(())
    }

    /// Applies one rule.
    fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        let is_hash = |hash: &[u8]| hash.len() == 64 && hash.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            // RESTORE checks every payload here.
            b"sanitize-payload" | b"skip-sanitize-payload" => {}
            b"reset" => *self = User::new(&self.name),
            b"clearselectors" => self.selectors.truncate(1),
            _ => match rule {
                [b'>', password @ ..] if password.len() > PASSWORD_BYTES_MAX => return Err(TOO_MUCH),
                [b'>', password @ ..] => self.add_password(hash(password))?,
                [b'<', password @ ..] if password.len() > PASSWORD_BYTES_MAX => return Err(NO_SUCH_PASSWORD),
                [b'<', password @ ..] => self.remove_password(&hash(password))?,
                [b'#', hash @ ..] if is_hash(hash) => self.add_password(String::from_utf8_lossy(hash).into_owned())?,
                [b'!', hash @ ..] if is_hash(hash) => self.remove_password(&String::from_utf8_lossy(hash))?,
                [b'#' | b'!', ..] => return Err(WRONG_HASH),
                [b'(', rules @ .., b')'] => {
                    within(SELECTORS_MAX, self.selectors.len())?;
                    let mut selector = Selector::new();
                    let mut rules = rules.split(u8::is_ascii_whitespace).filter(|rule| !rule.is_empty());
                    // In a file, a word that ends so would end the rules in parentheses.
                    rules.try_for_each(|rule| if rule.ends_with(b")") { Err(SYNTAX) } else { selector.apply(rule) })?;
                    self.selectors.push(selector);
                }
                _ => self.selectors[0].apply(rule)?,
            },
        }
        self.is_unrestricted = self.selectors[0].allows_all();
        Ok(())
    }

    fn add_password(&mut self, hash: String) -> Result<(), &'static str> {
        self.needs_no_password = false;
        if !self.passwords.contains(&hash) {
            within(PATTERNS_MAX, self.passwords.len())?;
            self.passwords.push(hash);
        }
        Ok(())
    }

    fn remove_password(&mut self, hash: &str) -> Result<(), &'static str> {
        let before = self.passwords.len();
        self.passwords.retain(|password| password != hash);
        if self.passwords.len() == before { Err(NO_SUCH_PASSWORD) } else { Ok(()) }
    }

    /// Whether a connection may become this user with this password. Takes the same time for each wrong one.
    pub(crate) fn admits(&self, password: &[u8]) -> bool {
        if password.len() > PASSWORD_BYTES_MAX {
            return self.is_on && self.needs_no_password;
        }
        let given = hash(password);
        let is_right = |known: &String| bool::from(known.as_bytes().ct_eq(given.as_bytes()));
        let is_known = self.passwords.iter().fold(false, |found, known| found | is_right(known));
        self.is_on && (self.needs_no_password || is_known)
    }

    /// Whether everything is allowed: then no request needs a check.
    #[inline]
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// Checks a request. The reason is that of the selector that allowed most of it, as in Redis.
    ///
    /// # Errors
    /// Why it is denied.
    pub(crate) fn check<'a>(&self, needs: &Needs<'a>) -> Result<(), Denied<'a>> {
        if self.is_unrestricted {
            return Ok(());
        }
        let mut reason = Denied::Command;
        for selector in &self.selectors {
            match selector.check(needs) {
                Ok(()) => return Ok(()),
                Err(other) if other.rank() > reason.rank() => reason = other,
                Err(_) => {}
            }
        }
        Err(reason)
    }

    /// Whether a client that has subscribed to this channel or pattern still may.
    pub(crate) fn may_subscribe(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.check(&Needs { channels: vec![(channel, is_pattern)], is_free: true, ..Needs::default() }).is_ok()
    }

    /// Whether the commands and subcommands of these names are allowed, if their keys are.
    pub(crate) fn may_run(&self, names: &[&str]) -> bool {
        let units = names.iter().filter_map(|name| find_unit(name.as_bytes()));
        units.into_iter().all(|unit| {
            let unit = unit_index(unit.spec, unit.subcommand.map(|(name, _)| name));
            self.check(&Needs { unit, ..Needs::default() }).is_ok()
        })
    }

    /// Returns the names of the flags, as ACL GETUSER shows them.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.needs_no_password.then_some("nopass"));
        flags
    }

    /// Formats the line that ACL LIST and an ACL file have.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut parts = vec![b"user".to_vec(), self.name.clone()];
        parts.extend(self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()));
        parts.extend(self.passwords.iter().map(|hash| format!("#{hash}").into_bytes()));
        parts.push(self.selectors[0].text());
        parts.extend(self.selectors[1..].iter().map(|selector| [b"(".as_slice(), &selector.text(), b")"].concat()));
        parts.join(&b' ')
    }
}

/// Joins the words of rules in parentheses to one rule each.
///
/// # Errors
/// Returns the reply of ACL SETUSER, without `ERR `.
pub(crate) fn join_selectors<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    // A rule that is not complete yet, and its first word.
    let mut rules: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(Vec<u8>, &[u8])> = None;
    for word in words {
        let (rule, first) = match open.take() {
            Some((before, first)) => ([&before, b" ".as_slice(), word].concat(), first),
            None => (word.to_vec(), word),
        };
        if rule.starts_with(b"(") && !rule.ends_with(b")") {
            open = Some((rule, first));
        } else {
            rules.push(rule);
        }
    }
    match open {
        None => Ok(rules),
        Some((_, first)) => Err([b"Unmatched parenthesis in acl selector starting at '", first, b"'."].concat()),
    }
}

/// All users.
pub struct Users {
    users: RwLock<BTreeMap<Vec<u8>, Arc<User>>>,
    /// Changes with every change of a user.
    version: AtomicU64,
    /// The file that ACL LOAD reads.
    file: OnceLock<PathBuf>,
    /// Denied requests, the newest first.
    pub(crate) log: Mutex<Vec<LogEntry>>,
}

/// A denied request, or several alike.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    pub(crate) count: u64,
    pub(crate) reason: &'static str,
    pub(crate) context: &'static str,
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(crate) at_ms: u64,
    pub(crate) client: String,
}

impl Default for Users {
    fn default() -> Self {
        let user = User::usual();
        Users {
            users: RwLock::new(BTreeMap::from([(user.name.clone(), Arc::new(user))])),
            version: AtomicU64::new(0),
            file: OnceLock::new(),
            log: Mutex::default(),
        }
    }
}

impl Users {
    /// The user with this name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The user of connections that did not name one.
    pub(crate) fn usual(&self) -> Arc<User> {
        self.find(DEFAULT.as_bytes()).unwrap_or_else(|| Arc::new(User::usual()))
    }

    /// All users, by name.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// A number that changes with every change of a user.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Changes a user, or makes one.
    ///
    /// # Errors
    /// Returns the errors of [`User::apply_all`]; then nothing changes.
    pub(crate) fn change(&self, name: &[u8], rules: &[Vec<u8>]) -> Result<(), Vec<u8>> {
        self.change_within(BYTES_MAX, name, rules)
    }

    fn change_within(&self, bytes_max: usize, name: &[u8], rules: &[Vec<u8>]) -> Result<(), Vec<u8>> {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        let mut user = users.get(name).map_or_else(|| User::new(name), |user| (**user).clone());
        let before = user.bytes;
        user.apply_all(rules)?;
        let all: usize = users.values().map(|user| user.bytes).sum();
        if user.bytes > before && all - before + user.bytes > bytes_max {
            return Err(TOO_MUCH.into());
        }
        users.insert(name.to_vec(), Arc::new(user));
        self.version.fetch_add(1, Release);
        Ok(())
    }

    /// Removes a user. Returns whether there was one.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        let removed = self.users.write().unwrap_or_else(PoisonError::into_inner).remove(name).is_some();
        self.version.fetch_add(1, Release);
        removed
    }

    /// Sets the one password of `default`; an empty one means that none is needed. It is not longer than
    /// [`PASSWORD_BYTES_MAX`].
    pub(crate) fn set_password(&self, password: &[u8]) {
        let rules: Vec<Vec<u8>> = match password {
            b"" => vec![b"nopass".to_vec()],
            _ => vec![b"resetpass".to_vec(), [b">", password].concat()],
        };
        // The length is checked by the caller, and users that leave no room must not prevent a password.
        let _ = self.change_within(usize::MAX, DEFAULT.as_bytes(), &rules);
    }

    /// The file of the users, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.get().map(PathBuf::as_path)
    }

    /// Reads the users from a file, which ACL LOAD and SAVE use from now on.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub(crate) fn open(&self, path: &Path) -> Result<(), String> {
        self.load(path)?;
        let _ = self.file.set(path.to_owned()); // only the first call has an effect
        Ok(())
    }

    /// Replaces all users with the users of a file; `default` stays as it is if the file does not name it.
    ///
    /// # Errors
    /// What is wrong, with the line; then nothing changes.
    pub(crate) fn load(&self, path: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, BYTES_MAX as u64 + 1), &mut bytes).map_err(failed)?;
        if bytes.len() > BYTES_MAX {
            return Err(format!("{}: longer than {} MiB", path.display(), BYTES_MAX >> 20));
        }
        let mut loaded: BTreeMap<Vec<u8>, Arc<User>> = BTreeMap::new();
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let wrong = |what: &[u8]| format!("{}:{number}: {}", path.display(), String::from_utf8_lossy(what));
            let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
            let Some(first) = words.next().filter(|word| !word.starts_with(b"#")) else { continue };
            let Some(name) = words.next().filter(|_| first == b"user") else {
                return Err(wrong(b"a line begins with the word user and a name"));
            };
            if loaded.contains_key(name) {
                return Err(wrong(b"this user is there twice"));
            }
            let rules = join_selectors(words).map_err(|what| wrong(&what))?;
            let mut user = User::new(name);
            user.apply_all(&rules).map_err(|what| wrong(&what))?;
            loaded.insert(name.to_vec(), Arc::new(user));
        }
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        let usual = users.get(DEFAULT.as_bytes()).cloned().unwrap_or_else(|| Arc::new(User::usual()));
        loaded.entry(DEFAULT.as_bytes().to_vec()).or_insert(usual);
        *users = loaded;
        self.version.fetch_add(1, Release);
        Ok(())
    }

    /// Replaces the file with the current users.
    ///
    /// # Errors
    /// Fails if the file cannot be written; then it is unchanged.
    pub(crate) fn save(&self, path: &Path) -> std::io::Result<()> {
        use std::io::Write;
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".new");
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        // It has hashes of passwords.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        for user in self.all() {
            file.write_all(&user.line())?;
            file.write_all(b"\n")?;
        }
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    }

    /// Records a denied request; one like an entry of the last minute is counted there.
    pub(crate) fn note(&self, mut entry: LogEntry) {
        entry.object.truncate(LOGGED_BYTES_MAX);
        entry.user.truncate(LOGGED_BYTES_MAX);
        const SAME_MS: u64 = 60_000;
        const ENTRIES_MAX: usize = 128;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |other: &LogEntry| {
            (other.reason, other.context, &other.object, &other.user)
                == (entry.reason, entry.context, &entry.object, &entry.user)
                && entry.at_ms.saturating_sub(other.at_ms) < SAME_MS
        };
        let found = log.iter().position(is_same);
        let count = found.map_or(0, |index| log.remove(index).count);
        log.insert(0, LogEntry { count: count + 1, ..entry });
        log.truncate(ENTRIES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(rules: &str) -> User {
        let mut user = User::new(b"u");
        let words = rules.split(' ').map(str::as_bytes);
        user.apply_all(&join_selectors(words).unwrap()).unwrap();
        user
    }

    fn check(user: &User, command: &str, keys: &[(&'static str, bool, bool)]) -> Result<(), Denied<'static>> {
        let unit = find_unit(command.as_bytes()).unwrap();
        let unit = unit_index(unit.spec, unit.subcommand.map(|(name, _)| name));
        let keys = keys.iter().map(|(key, reads, writes)| (key.as_bytes(), *reads, *writes)).collect();
        user.check(&Needs { unit, keys, channels: Vec::new(), reads_any_key: false, is_free: false })
    }

    #[test]
    fn rules_allow_commands_and_categories_in_order() {
        let some = user("on +@read -get +config|get +set -@dangerous +get ~*");
        for (command, is_allowed) in
            [("get", true), ("mget", true), ("set", true), ("keys", false), ("config|get", false), ("del", false)]
        {
            assert_eq!(check(&some, command, &[]).is_ok(), is_allowed, "{command}");
        }
        assert_eq!(some.selectors[0].commands_text(), "-@all +@read +config|get +set -@dangerous +get");
        let all = user("+@all -config +config|get");
        assert!(check(&all, "config|set", &[]).is_err() && check(&all, "config|get", &[]).is_ok());
        assert_eq!(user("+config|get -config").selectors[0].commands_text(), "-@all -config");
        assert!(user("+@all ~* &*").is_unrestricted());
        assert!(!user("+@all -get ~* &*").is_unrestricted());
        assert!(user("+@all -get +get ~* &*").is_unrestricted());
    }

    #[test]
    fn patterns_allow_reading_writing_or_both() {
        let some = user("+@all ~a* %R~b* %W~c* (+@hash ~h*)");
        let [read, write] = [(true, false), (false, true)];
        for (key, (reads, writes), is_allowed) in [
            ("a", read, true),
            ("a", write, true),
            ("b", read, true),
            ("b", write, false),
            ("b", (true, true), false),
            ("c", read, false),
            ("c", write, true),
            ("c", (false, false), true),
            ("x", (false, false), false),
        ] {
            assert_eq!(check(&some, "copy", &[(key, reads, writes)]).is_ok(), is_allowed, "{key} {reads} {writes}");
        }
        assert_eq!(check(&some, "get", &[("h", true, false)]), Err(Denied::Key(b"h")));
        assert!(check(&some, "hget", &[("h", true, false)]).is_ok());
        assert_eq!(user("%R~x %W~x").selectors[0].keys_text(), b"~x");
    }

    #[test]
    fn channels_and_passwords() {
        let some = user("on >pw &news.* +@all");
        assert!(some.may_subscribe(b"news.a", false) && !some.may_subscribe(b"new", false));
        assert!(some.may_subscribe(b"news.*", true) && !some.may_subscribe(b"news.a*", true));
        assert!(some.admits(b"pw") && !some.admits(b"") && !some.admits(b"pwd"));
        assert!(!user(">pw").admits(b"pw"), "it is off");
        assert!(user("on nopass").admits(b"anything"));
        assert!(!user("on >pw <pw").admits(b"pw"));
        let long = vec![b'x'; PASSWORD_BYTES_MAX + 1];
        assert!(user("on nopass").admits(&long) && !user("on >pw").admits(&long));
        assert!(User::new(b"u").apply_all(&[[b">", long.as_slice()].concat()]).is_err());
    }

    #[test]
    fn rules_that_mean_nothing_are_refused_and_change_nothing() {
        for (rule, what) in [
            ("x", SYNTAX),
            ("+nothing", UNKNOWN),
            ("+@nothing", UNKNOWN),
            ("+config|nothing", UNKNOWN),
            ("+config|get|x", FIRST_ARGUMENT),
            ("-config|get|x", UNKNOWN),
            ("+config|x|y", UNKNOWN),
            ("%~x", SYNTAX),
            ("%X~x", SYNTAX),
            ("%RR~x", SYNTAX),
            ("%Rx", SYNTAX),
            ("%", SYNTAX),
            ("<x", NO_SUCH_PASSWORD),
            ("#x", WRONG_HASH),
            ("(~a) +get)", SYNTAX),
        ] {
            let mut user = User::new(b"u");
            let error = user.apply_all(&[b"on".to_vec(), rule.into()]).unwrap_err();
            assert_eq!(String::from_utf8(error).unwrap(), format!("Error in ACL SETUSER modifier '{rule}': {what}"));
            assert!(!user.is_on);
        }
        assert!(join_selectors(["(+get", "~x"].into_iter().map(str::as_bytes)).is_err());
    }

    #[test]
    fn a_file_has_what_was_saved_and_a_wrong_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.acl");
        let users = Users::default();
        let rules = ["on", ">pw", "~a b", "%R~b*"].map(|rule| rule.as_bytes().to_vec());
        assert!(users.change(b"alice", &rules).is_err(), "a pattern with a blank cannot be saved");
        let rules = ["on", ">pw", "%R~b*", "&c", "+@read", "-get", "(+set ~x)"].map(|rule| rule.as_bytes().to_vec());
        users.change(b"alice", &rules).unwrap();
        users.save(&path).unwrap();
        let again = Users::default();
        again.open(&path).unwrap();
        let lines = |users: &Users| users.all().iter().map(|user| user.line()).collect::<Vec<_>>();
        assert_eq!(lines(&again), lines(&users));
        std::fs::write(&path, "# a comment\n\nuser bob on\nuser bob off\n").unwrap();
        let error = again.load(&path).unwrap_err();
        assert!(error.ends_with("users.acl:4: this user is there twice"), "{error}");
        assert_eq!(lines(&again), lines(&users));
    }
}
