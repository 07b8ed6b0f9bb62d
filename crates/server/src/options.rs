//! Options: from flags, the environment, and a TOML file, in this order of precedence.

use crate::keyspace::Eviction;
use crate::size::parse_size;
use std::path::PathBuf;

/// The default address for Redis clients.
pub(crate) const RESP_DEFAULT: &str = "127.0.0.1:6379";

/// Options of `splitpoint serve`. Each has a default; none is required.
#[derive(Clone, Debug, Default, clap::Args, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Options {
    /// Table file with the keys; without it they are only in memory [created if absent]
    #[arg(long, env = "SPLITPOINT_FILE", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Dictionary to serve, read-only, instead of a table: a directory of shards, or one file
    #[arg(long, env = "SPLITPOINT_DICT", value_name = "PATH")]
    pub(crate) dict: Option<PathBuf>,

    /// With --dict: TOML file with the slots of each node of a cluster; read again at SIGHUP
    #[arg(long, env = "SPLITPOINT_CLUSTER_TOPOLOGY", value_name = "FILE")]
    pub(crate) cluster_topology: Option<PathBuf>,

    /// With --dict: address at which clients reach this node, if not that of --resp
    #[arg(long, env = "SPLITPOINT_ANNOUNCE", value_name = "HOST:PORT")]
    pub(crate) announce: Option<String>,

    /// Address for Redis clients, or `none` [default: 127.0.0.1:6379]
    #[arg(long, env = "SPLITPOINT_RESP", value_name = "HOST:PORT")]
    pub(crate) resp: Option<String>,

    /// Address for Redis clients that use TLS; needs --tls-cert and --tls-key
    #[arg(long, env = "SPLITPOINT_RESP_TLS", value_name = "HOST:PORT")]
    pub(crate) resp_tls: Option<String>,

    /// PEM file with the certificate chain; read again at SIGHUP
    #[arg(long, env = "SPLITPOINT_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// PEM file with the certificate's private key
    #[arg(long, env = "SPLITPOINT_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Address for memcached clients, such as 127.0.0.1:11211 [default: none]
    #[arg(long, env = "SPLITPOINT_MEMCACHED", value_name = "HOST:PORT")]
    pub(crate) memcached: Option<String>,

    /// Address for memcached clients that use TLS; needs --tls-cert and --tls-key
    #[arg(long, env = "SPLITPOINT_MEMCACHED_TLS", value_name = "HOST:PORT")]
    pub(crate) memcached_tls: Option<String>,

    /// Address of the status page and of metrics, such as 127.0.0.1:8080 [default: none]
    #[arg(long, env = "SPLITPOINT_HTTP", value_name = "HOST:PORT")]
    pub(crate) http: Option<String>,

    /// Address of the status page and of metrics over HTTPS; needs --tls-cert and --tls-key
    #[arg(long, env = "SPLITPOINT_HTTP_TLS", value_name = "HOST:PORT")]
    pub(crate) http_tls: Option<String>,

    /// Unix socket for Redis clients
    #[arg(long, env = "SPLITPOINT_UNIX", value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// With --unix: who may connect, as an octal mode of the socket, such as 770 [default: by the umask]
    #[arg(long, env = "SPLITPOINT_UNIX_MODE", value_name = "MODE")]
    pub(crate) unix_mode: Option<String>,

    /// With --file: what answered writes survive: `none` a normal shutdown only, `os` a kill, `sync` a power loss
    /// [default: os]
    #[arg(long, env = "SPLITPOINT_DURABILITY", value_enum)]
    pub(crate) durability: Option<DurabilityOption>,

    /// Memory limit for the tables, such as 4G [default: none]
    #[arg(long, env = "SPLITPOINT_MAX_MEMORY", value_name = "SIZE")]
    pub(crate) max_memory: Option<String>,

    /// What to do at that limit [default: noeviction]
    #[arg(long, env = "SPLITPOINT_EVICTION", value_enum)]
    pub(crate) eviction: Option<EvictionOption>,

    /// With --file: size of its page cache in memory [default: half of the memory, a quarter of a container's]
    #[arg(long, env = "SPLITPOINT_CACHE", value_name = "SIZE")]
    pub(crate) cache: Option<String>,

    /// With --file: largest log of changes since the last checkpoint, at least 1M; a longer one means fewer checkpoints
    /// and a longer start after a crash [default: the size of the file, at least 256M]
    #[arg(long, env = "SPLITPOINT_LOG_BYTES", value_name = "SIZE")]
    pub(crate) log_bytes: Option<String>,

    /// Number of keys to expect: the table starts with room for them
    #[arg(long, env = "SPLITPOINT_EXPECTED_KEYS", value_name = "N")]
    pub(crate) expected_keys: Option<u64>,

    /// Threads that serve connections [default: one per processor]
    #[arg(long, env = "SPLITPOINT_THREADS", value_name = "N")]
    pub(crate) threads: Option<usize>,

    /// File with the password that clients must give with AUTH
    #[arg(long, env = "SPLITPOINT_PASSWORD_FILE", value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,

    /// File of users and their rules, as ACL SAVE writes it; a password file still sets the password of `default`
    #[arg(long, env = "SPLITPOINT_ACL_FILE", value_name = "FILE")]
    pub(crate) acl_file: Option<PathBuf>,

    /// Allow listening without a password on addresses that other machines can reach
    #[arg(long, env = "SPLITPOINT_UNPROTECTED")]
    pub(crate) unprotected: bool,

    /// Most connections at a time [default: 10000]
    #[arg(long, env = "SPLITPOINT_MAX_CLIENTS", value_name = "N")]
    pub(crate) max_clients: Option<usize>,

    /// Close connections that are idle for this many seconds; 0: never [default: 0]
    #[arg(long, env = "SPLITPOINT_IDLE_TIMEOUT", value_name = "SECONDS")]
    pub(crate) idle_timeout: Option<u64>,

    /// Close connections that read none of their replies for this many seconds [default: 60]
    #[arg(long, env = "SPLITPOINT_STALL_TIMEOUT", value_name = "SECONDS")]
    pub(crate) stall_timeout: Option<u64>,

    /// Longest request, and most bytes that a transaction may queue [default: 1G]
    #[arg(long, env = "SPLITPOINT_MAX_REQUEST", value_name = "SIZE")]
    pub(crate) max_request: Option<String>,

    /// Most bytes of unread messages for a client [default: 32M]
    #[arg(long, env = "SPLITPOINT_MAX_UNREAD", value_name = "SIZE")]
    pub(crate) max_unread: Option<String>,

    /// Longest value and argument [default: 512M]
    #[arg(long, env = "SPLITPOINT_MAX_VALUE", value_name = "SIZE")]
    pub(crate) max_value: Option<String>,

    /// Log as text or as JSON, one object per line [default: text]
    #[arg(long, env = "SPLITPOINT_LOG_FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,

    /// Least important messages to log: error, warn, info, debug or trace [default: info]
    #[arg(long, env = "SPLITPOINT_LOG_LEVEL", value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,

    /// TOML file with these options, under their long names
    #[arg(long, env = "SPLITPOINT_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
}

/// Which failures an answered write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DurabilityOption {
    /// A normal shutdown only.
    None,
    /// Any end of the process, including a kill.
    #[default]
    Os,
    /// A power loss.
    Sync,
}

/// What to do at the memory limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EvictionOption {
    /// Refuse writes.
    #[default]
    Noeviction,
    /// Remove the least recently used keys.
    AllkeysLru,
    /// Remove the least frequently used keys.
    AllkeysLfu,
    /// Remove any keys.
    AllkeysRandom,
    /// Remove the least recently used keys that have a lifetime.
    VolatileLru,
    /// Remove the least frequently used keys that have a lifetime.
    VolatileLfu,
    /// Remove any keys that have a lifetime.
    VolatileRandom,
    /// Remove keys that expire soon.
    VolatileTtl,
}

impl From<EvictionOption> for Eviction {
    fn from(option: EvictionOption) -> Eviction {
        match option {
            EvictionOption::Noeviction => Eviction::None,
            EvictionOption::AllkeysLru => Eviction::AllKeysLru,
            EvictionOption::AllkeysLfu => Eviction::AllKeysLfu,
            EvictionOption::AllkeysRandom => Eviction::AllKeysRandom,
            EvictionOption::VolatileLru => Eviction::VolatileLru,
            EvictionOption::VolatileLfu => Eviction::VolatileLfu,
            EvictionOption::VolatileRandom => Eviction::VolatileRandom,
            EvictionOption::VolatileTtl => Eviction::VolatileTtl,
        }
    }
}

/// How messages are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Why the server could not start, or ended.
#[derive(Debug)]
pub struct ServeError {
    /// What happened, where, and what to do, as a sentence for people.
    pub message: String,
    /// The library's error kind, if the error is the library's.
    pub kind: Option<splitpoint::ErrorKind>,
    /// Whether the cause is wrong options.
    pub usage: bool,
}

impl ServeError {
    /// An error for wrong options.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        ServeError { message: message.into(), kind: None, usage: true }
    }

    /// An error of the operating system.
    pub(crate) fn io(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        ServeError { message: format!("{what}: {error}"), kind: Some(splitpoint::ErrorKind::Io), usage: false }
    }
}

impl std::fmt::Display for ServeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServeError {}

impl Options {
    /// Fills in options that flags and environment do not set from the file that `config` names.
    ///
    /// # Errors
    /// The file cannot be read, or contains an unknown option.
    pub(crate) fn with_file(self) -> Result<Options, ServeError> {
        let Some(path) = &self.config else { return Ok(self) };
        let text = std::fs::read_to_string(path).map_err(|error| ServeError::io(path.display(), &error))?;
        let file: Options =
            toml::from_str(&text).map_err(|error| ServeError::usage(format!("{}: {error}", path.display())))?;
        Ok(Options {
            file: self.file.or(file.file),
            dict: self.dict.or(file.dict),
            cluster_topology: self.cluster_topology.or(file.cluster_topology),
            announce: self.announce.or(file.announce),
            resp: self.resp.or(file.resp),
            resp_tls: self.resp_tls.or(file.resp_tls),
            tls_cert: self.tls_cert.or(file.tls_cert),
            tls_key: self.tls_key.or(file.tls_key),
            memcached: self.memcached.or(file.memcached),
            memcached_tls: self.memcached_tls.or(file.memcached_tls),
            http: self.http.or(file.http),
            http_tls: self.http_tls.or(file.http_tls),
            unix: self.unix.or(file.unix),
            unix_mode: self.unix_mode.or(file.unix_mode),
            durability: self.durability.or(file.durability),
            max_memory: self.max_memory.or(file.max_memory),
            eviction: self.eviction.or(file.eviction),
            cache: self.cache.or(file.cache),
            log_bytes: self.log_bytes.or(file.log_bytes),
            expected_keys: self.expected_keys.or(file.expected_keys),
            threads: self.threads.or(file.threads),
            password_file: self.password_file.or(file.password_file),
            acl_file: self.acl_file.or(file.acl_file),
            unprotected: self.unprotected || file.unprotected,
            max_clients: self.max_clients.or(file.max_clients),
            idle_timeout: self.idle_timeout.or(file.idle_timeout),
            stall_timeout: self.stall_timeout.or(file.stall_timeout),
            max_request: self.max_request.or(file.max_request),
            max_unread: self.max_unread.or(file.max_unread),
            max_value: self.max_value.or(file.max_value),
            log_format: self.log_format.or(file.log_format),
            log_level: self.log_level.or(file.log_level),
            config: self.config,
        })
    }

    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// Names the options and the contradiction.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        let refuse = |option: &str, why: &str| Err(ServeError::usage(format!("{option}: {why}")));
        if self.unix_mode.is_some() && self.unix.is_none() {
            return refuse("--unix-mode", "needs --unix");
        }
        if self.dict.is_none() {
            let needs_dict =
                [("--cluster-topology", self.cluster_topology.is_some()), ("--announce", self.announce.is_some())];
            return match needs_dict.iter().find(|(_, is_given)| *is_given) {
                Some((option, _)) => refuse(option, "needs --dict; a table is not served by several nodes"),
                None => Ok(()),
            };
        }
        let of_tables = [
            ("--file", self.file.is_some()),
            ("--durability", self.durability.is_some()),
            ("--max-memory", self.max_memory.is_some()),
            ("--eviction", self.eviction.is_some()),
            ("--cache", self.cache.is_some()),
            ("--log-bytes", self.log_bytes.is_some()),
            ("--expected-keys", self.expected_keys.is_some()),
        ];
        if let Some((option, _)) = of_tables.iter().find(|(_, is_given)| *is_given) {
            return refuse(
                option,
                "is for a table; with --dict a dictionary is served, read-only. Leave one of them out",
            );
        }
        let of_memcached = [("--memcached", &self.memcached), ("--memcached-tls", &self.memcached_tls)];
        let given =
            of_memcached.iter().find(|(_, address)| address.as_deref().is_some_and(|address| address != "none"));
        if let (Some((option, _)), Some(_)) = (given, &self.cluster_topology) {
            return refuse(option, "memcached clients cannot be sent to another node of --cluster-topology");
        }
        Ok(())
    }
}

/// Parses the value of an option that is a size.
///
/// # Errors
/// Says what is expected instead.
pub(crate) fn size(text: &str) -> Result<u64, ServeError> {
    parse_size(text).map_err(ServeError::usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    #[test]
    fn a_node_of_a_cluster_has_no_memcached_clients() {
        let node = Options { dict: Some("d".into()), cluster_topology: Some("t".into()), ..Options::default() };
        let address = |text: &str| Some(text.to_owned());
        for (options, refused) in [
            (Options { memcached: address("localhost:1"), ..node.clone() }, Some("--memcached: ")),
            (Options { memcached_tls: address("localhost:1"), ..node.clone() }, Some("--memcached-tls: ")),
            (Options { memcached: address("none"), ..node.clone() }, None),
            (node, None),
        ] {
            let error = options.check().err().map(|error| error.message);
            assert_eq!(error.is_some(), refused.is_some(), "{error:?}");
            assert!(error.is_none_or(|error| error.starts_with(refused.unwrap_or_default())));
        }
    }

    #[test]
    fn the_unit_sets_options_by_variables_which_its_environment_file_may_override() {
        let unit = include_str!("../systemd/splitpoint.service");
        let values = |field: &str| -> Vec<&str> { unit.lines().filter_map(|line| line.strip_prefix(field)).collect() };
        // An option would override the variable.
        assert_eq!(values("ExecStart="), ["@PREFIX@/bin/splitpoint serve"]);
        assert_eq!(values("EnvironmentFile="), ["-/etc/default/splitpoint"]);
        let command = Options::augment_args(clap::Command::new("serve"));
        let known: Vec<_> = command.get_arguments().filter_map(|option| option.get_env()?.to_str()).collect();
        let named = unit.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named: Vec<&str> = named.filter(|word| word.starts_with("SPLITPOINT_")).collect();
        assert!(named.len() > 2 && named.iter().all(|name| known.contains(name)), "{named:?}");
        assert_eq!(values("Environment="), ["SPLITPOINT_FILE=/var/lib/splitpoint/keys.spt"]);
    }
}
