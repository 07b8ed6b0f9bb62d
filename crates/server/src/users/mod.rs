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
//! ```text
//! selector.rs  Selector: rules about commands, keys and channels; what a request needs, and why it is denied
//! user.rs      User: flags, passwords, and its selectors
//! log.rs       denied requests (ACL LOG)
//! ```
//!
//! Not here: the ACL command (`command/acl.rs`), and where requests are checked (`resp/session/`).

mod log;
mod selector;
mod user;

use log::DenialLog;
pub(crate) use log::LogEntry;
use selector::TOO_MUCH;
pub(crate) use selector::{Denied, Needs, Selector};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
pub(crate) use user::{DEFAULT, PASSWORD_BYTES_MAX, User, join_selectors};

/// The most bytes of all users together, as a file has them.
const BYTES_MAX: usize = 16 << 20;

/// All users.
pub struct Users {
    users: RwLock<BTreeMap<Vec<u8>, Arc<User>>>,
    /// Changes with every change of a user.
    version: AtomicU64,
    /// The file that ACL LOAD reads.
    file: OnceLock<PathBuf>,
    pub(crate) log: DenialLog,
}

impl Default for Users {
    fn default() -> Self {
        let user = User::usual();
        Users {
            users: RwLock::new(BTreeMap::from([(user.name.clone(), Arc::new(user))])),
            version: AtomicU64::new(0),
            file: OnceLock::new(),
            log: DenialLog::default(),
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
        let mut loaded = parse(path, &read(path)?)?;
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
}

/// Reads a file of users.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, BYTES_MAX as u64 + 1), &mut bytes).map_err(failed)?;
    if bytes.len() > BYTES_MAX {
        return Err(format!("{}: longer than {} MiB", path.display(), BYTES_MAX >> 20));
    }
    Ok(bytes)
}

/// Parses the lines of a file of users.
fn parse(path: &Path, bytes: &[u8]) -> Result<BTreeMap<Vec<u8>, Arc<User>>, String> {
    let mut users = BTreeMap::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let wrong = |what: &[u8]| format!("{}:{number}: {}", path.display(), String::from_utf8_lossy(what));
        let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let Some(first) = words.next().filter(|word| !word.starts_with(b"#")) else { continue };
        let Some(name) = words.next().filter(|_| first == b"user") else {
            return Err(wrong(b"a line begins with the word user and a name"));
        };
        if users.contains_key(name) {
            return Err(wrong(b"this user is there twice"));
        }
        let rules = join_selectors(words).map_err(|what| wrong(&what))?;
        let mut user = User::new(name);
        user.apply_all(&rules).map_err(|what| wrong(&what))?;
        users.insert(name.to_vec(), Arc::new(user));
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

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
