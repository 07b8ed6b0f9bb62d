//! A user has a name, flags, hashed passwords, and the selectors that its rules make.

use super::selector::{Denied, Needs, PATTERNS_MAX, SYNTAX, Selector, TOO_MUCH, within};
use crate::command::categories::find_unit;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The user of connections that did not name one.
pub(crate) const DEFAULT: &str = "default";

const NO_SUCH_PASSWORD: &str = "The password you are trying to remove from the user does not exist";
const WRONG_HASH: &str =
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";

/// The most rules in parentheses.
const SELECTORS_MAX: usize = 64;
/// The most rules of one command or line.
const RULES_MAX: usize = 10_000;
/// The longest password, in bytes: hashing it holds up other clients.
pub(crate) const PASSWORD_BYTES_MAX: usize = 1 << 20;

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
    pub(super) bytes: usize,
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
    pub(super) fn usual() -> User {
        User {
            is_on: true,
            needs_no_password: true,
            selectors: vec![Selector::all()],
            is_unrestricted: true,
            ..User::new(DEFAULT.as_bytes())
        }
    }

    /// Applies rules in order, all or none.
    ///
    /// # Errors
    /// Returns the reply of ACL SETUSER, without `ERR `.
    pub(super) fn apply_all(&mut self, rules: &[Vec<u8>]) -> Result<(), Vec<u8>> {
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
        units.into_iter().all(|unit| self.check(&Needs { unit: unit.index(), ..Needs::default() }).is_ok())
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

#[cfg(test)]
mod tests {
    use super::super::selector::{FIRST_ARGUMENT, UNKNOWN};
    use super::*;

    fn user(rules: &str) -> User {
        let mut user = User::new(b"u");
        let words = rules.split(' ').map(str::as_bytes);
        user.apply_all(&join_selectors(words).unwrap()).unwrap();
        user
    }

    fn check(user: &User, command: &str, keys: &[(&'static str, bool, bool)]) -> Result<(), Denied<'static>> {
        let unit = find_unit(command.as_bytes()).unwrap().index();
        let keys = keys.iter().map(|(key, reads, writes)| (key.as_bytes(), *reads, *writes)).collect();
        user.check(&Needs { unit, keys, ..Needs::default() })
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
}
