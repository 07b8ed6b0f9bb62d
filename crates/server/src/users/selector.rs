//! A selector has one part of a user's rules: it allows commands, patterns of keys, patterns of channels. It checks
//! what a request needs, and returns why the request is denied.

use crate::command::categories::{self, find_unit, unit_index, units};
use crate::command::pattern::matches;

pub(super) const SYNTAX: &str = "Syntax error";
pub(super) const UNKNOWN: &str = "Unknown command or category name in ACL";
const ALL_KEYS: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have \
                        any effect. Try 'resetkeys' to start with an empty list of patterns";
const ALL_CHANNELS: &str = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not \
                            have any effect. Try 'resetchannels' to start with an empty list of channels";
pub(super) const FIRST_ARGUMENT: &str = "Allowing first-arg of a subcommand is not supported";
pub(super) const TOO_MUCH: &str = "too many or too long rules";

/// The most patterns of keys, patterns of channels and passwords.
pub(super) const PATTERNS_MAX: usize = 4096;

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
    pub(super) fn rank(&self) -> (u8, *const u8) {
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
    pub(super) fn new() -> Selector {
        let words = units().len().div_ceil(64);
        Selector {
            commands: vec![0; words],
            rules: vec!["-@all".into()],
            keys: Vec::new(),
            has_all_keys: false,
            channels: Vec::new(),
        }
    }

    /// Allows everything.
    pub(super) fn all() -> Selector {
        let mut selector = Selector { channels: vec![b"*".to_vec()], ..Selector::new() };
        selector.all_commands(true);
        selector.allow_all_keys();
        selector
    }

    fn set(&mut self, index: usize, is_allowed: bool) {
        let bit = 1u64 << (index % 64);
        let word = &mut self.commands[index / 64];
        *word = if is_allowed { *word | bit } else { *word & !bit };
    }

    fn allows(&self, unit: usize) -> bool {
        self.commands[unit / 64] >> (unit % 64) & 1 == 1
    }

    pub(super) fn allows_all(&self) -> bool {
        self.has_all_keys && self.has_all_channels() && (0..units().len()).all(|index| self.allows(index))
    }

    /// Applies one rule.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
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
                [b'&', pattern @ ..] => self.add_channels(pattern)?,
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

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), &'static str> {
        if self.has_all_channels() {
            return Err(ALL_CHANNELS);
        }
        if has_blanks(pattern) {
            return Err(SYNTAX);
        }
        if !self.channels.iter().any(|channel| channel == pattern) {
            within(PATTERNS_MAX, self.channels.len())?;
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn has_all_channels(&self) -> bool {
        self.channels.iter().any(|channel| channel == b"*")
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
            self.set(unit.index(), is_allowed);
            if unit.subcommand.is_none() {
                for (name, _) in unit.spec.subcommands() {
                    self.set(unit_index(unit.spec, Some(name)), is_allowed);
                }
            }
        }
        // A rule replaces earlier rules about the same command, category or subcommand. A rule about a command also
        // replaces earlier rules about its subcommands.
        let within = format!("{text}|");
        self.rules.retain(|rule| rule.len() < 2 || rule[1..] != *text && !rule[1..].starts_with(&within));
        self.rules.push(format!("{}{text}", if is_allowed { '+' } else { '-' }));
        Ok(())
    }

    pub(super) fn check<'a>(&self, needs: &Needs<'a>) -> Result<(), Denied<'a>> {
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
    pub(super) fn text(&self) -> Vec<u8> {
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
pub(super) fn within(most: usize, count: usize) -> Result<(), &'static str> {
    if count < most { Ok(()) } else { Err(TOO_MUCH) }
}

fn has_blanks(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0)
}
