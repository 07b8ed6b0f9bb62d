//! Applies the options before the server starts: the log, limits, users, password, certificates. Reads them again at
//! SIGHUP.

use crate::command::acl::denied_clients;
use crate::options::{LogFormat, Options, ServeError, size};
use crate::server::Server;
use crate::settings::Settings;
use crate::systemd;
use crate::tls::{Security, Tls};
use crate::users::PASSWORD_BYTES_MAX;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};

pub(super) fn start_log(options: &Options) -> Result<(), ServeError> {
    let level = options.log_level.as_deref().unwrap_or("info");
    let level: tracing::level_filters::LevelFilter = level.parse().map_err(|_| {
        ServeError::usage(format!("log level {level:?}: expected error, warn, info, debug, trace or off"))
    })?;
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // A log line that cannot be written is dropped; reporting that would go to the same output, and panic.
    let builder = builder.log_internal_errors(false);
    // A program that embeds the server may have set up its own log.
    let _ = match options.log_format.unwrap_or_default() {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}

/// Raises the limit of file descriptors to what the system allows. Returns the number of clients that may connect: some
/// descriptors are reserved for the databases, their logs, checkpoints, listeners and the status page.
pub(super) fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const RESERVED: u64 = 192;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Some systems have a lower limit than they report.
    let is_raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let Some(limit) = (if is_raised { maximum } else { current }) else { return usize::MAX };
    usize::try_from(limit - RESERVED.min(limit / 2)).unwrap_or(usize::MAX)
}

/// Sets the limits and the password that the options specify; the others stay unchanged.
pub(super) fn apply(options: &Options, settings: &Settings) -> Result<(), ServeError> {
    /// The longest request: spans have 32 bits.
    const REQUEST_BYTES_MAX: u64 = u32::MAX as u64 - (1 << 20);
    let bytes = |text: &Option<String>, place: &AtomicUsize, most: u64| -> Result<(), ServeError> {
        if let Some(text) = text {
            place.store(size(text)?.clamp(1 << 20, most) as usize, Relaxed); // below 2^32
        }
        Ok(())
    };
    bytes(&options.max_value, &settings.bulk_bytes, REQUEST_BYTES_MAX / 2)?;
    bytes(&options.max_request, &settings.request_bytes, REQUEST_BYTES_MAX)?;
    bytes(&options.max_unread, &settings.output_bytes, REQUEST_BYTES_MAX)?;
    if let Some(clients) = options.max_clients {
        settings.clients.store(clients, Relaxed);
    }
    if let Some(seconds) = options.idle_timeout {
        settings.idle_s.store(seconds, Relaxed);
    }
    if let Some(seconds) = options.stall_timeout {
        settings.stalled_s.store(seconds.max(1), Relaxed);
    }
    if let Some(path) = &options.acl_file {
        settings.users.open(path).map_err(ServeError::usage)?;
    }
    if let Some(path) = &options.password_file {
        settings.set_password(read_password(path)?.trim_ascii_end());
    }
    Ok(())
}

fn read_password(path: &Path) -> Result<Vec<u8>, ServeError> {
    let text = std::fs::read(path).map_err(|error| ServeError::io(path.display(), &error))?;
    let password = text.trim_ascii_end();
    if password.is_empty() {
        return Err(ServeError::usage(format!("{}: no password in it", path.display())));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let what = format!("{}: a password longer than {} KiB", path.display(), PASSWORD_BYTES_MAX >> 10);
        return Err(ServeError::usage(what));
    }
    Ok(text)
}

/// Loads the certificate, if an option wants TLS.
pub(super) fn security(options: &Options) -> Result<Security, ServeError> {
    let listeners = [&options.resp_tls, &options.memcached_tls, &options.http_tls];
    let wanted = listeners.iter().any(|address| address.is_some());
    match (&options.tls_cert, &options.tls_key, wanted) {
        (Some(certificate), Some(key), _) => Ok(Some(Arc::new(Tls::load(certificate, key)?))),
        (None, None, false) => Ok(None),
        _ => Err(ServeError::usage(
            "TLS needs --tls-cert, --tls-key, and at least one of --resp-tls, --memcached-tls and --http-tls",
        )),
    }
}

/// SIGHUP: reads limits, password, certificate and topology from their files again. Errors are logged, and the values
/// they concern stay unchanged.
pub(super) fn reload(flags: &Options, server: &Server, security: &Security) {
    systemd::notify("RELOADING=1");
    if let Some(dictionary) = server.space.dictionary() {
        // The watcher's thread does this, and logs the result.
        dictionary.reload_soon();
    }
    let reloaded = flags.clone().with_file().and_then(|options| apply(&options, &server.settings));
    denied_clients(server).iter().for_each(|client| client.kill());
    let reloaded = reloaded.and_then(|()| security.as_ref().map_or(Ok(()), |tls| tls.reload()));
    match reloaded {
        Ok(()) => tracing::info!("read limits and certificates again"),
        Err(error) => tracing::error!(%error, "limits and certificates are as they were"),
    }
    systemd::notify("READY=1");
}
