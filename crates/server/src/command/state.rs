//! What commands read and change of their client's session. The session itself is in `resp/session/`.

use super::call::Span;
use super::call::{Args, Call, Refusal};
use super::reply::{self, Version};
use super::spec::{Flags, Spec};
use crate::blocked::Waiter;
use crate::clients::Client;
use crate::figures::Figures;
use crate::keyspace::Watch;
use crate::server::Server;
use crate::tracking::Mode;
use crate::users::User;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// The state of a session that commands read and change.
pub(crate) struct SessionState {
    pub(crate) server: Arc<Server>,
    pub(crate) client: Arc<Client>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) database: usize,
    pub(crate) version: Version,
    pub(crate) authenticated: bool,
    /// See [`Settings::admit`](crate::settings::Settings::admit).
    pub(crate) is_guest: bool,
    /// Who the client is, as of this version of the users.
    pub(crate) user: Arc<User>,
    users_version: u64,
    pub(crate) replies: Replies,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) watch: Watch,
    pub(crate) closing: bool,
    /// The command asks for this delay before its reply.
    pub(crate) sleep: Option<Duration>,
    /// How the client tracks the keys it reads.
    pub(crate) tracking: Option<Mode>,
    /// Whether the next command's keys are tracked (CLIENT CACHING).
    pub(crate) caching: Option<bool>,
    /// Whether a command changed which clients observe changes. The key space must be notified once the gate is open.
    pub(crate) unsettled: bool,
    /// Whether a transaction is being executed.
    pub(crate) executing: bool,
    /// Whether a script is being executed.
    pub(crate) in_script: bool,
    /// What the client waits for, and the time for which a command has just begun to wait.
    pub(crate) waiter: Option<Arc<Waiter>>,
    pub(crate) wait: Option<Option<Duration>>,
    /// Whether the client connected by TLS, and so gets the nodes' TLS addresses.
    pub(crate) is_tls: bool,
}

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// No reply to the command after this one.
    SkipNext,
    Skip,
}

impl SessionState {
    /// The state of a client that has just connected.
    pub(crate) fn new(server: Arc<Server>, client: Arc<Client>, figures: Arc<Figures>) -> SessionState {
        let authenticated = !server.settings.needs_password();
        let (users_version, user) = (server.settings.users.version(), server.settings.users.usual());
        SessionState {
            server,
            client,
            figures,
            database: 0,
            version: Version::Resp2,
            authenticated,
            is_guest: false,
            user,
            users_version,
            replies: Replies::On,
            transaction: None,
            watch: Watch::default(),
            closing: false,
            sleep: None,
            tracking: None,
            caching: None,
            unsettled: false,
            executing: false,
            in_script: false,
            waiter: None,
            wait: None,
            is_tls: false,
        }
    }

    /// Switches the client to this user.
    pub(crate) fn become_user(&mut self, user: Arc<User>, authenticated: bool) {
        self.client.set_user(&user.name);
        (self.user, self.authenticated, self.is_guest) = (user, authenticated, false);
    }

    /// Whether no user has changed since the user was looked up.
    #[inline]
    pub(crate) fn knows_users(&self) -> bool {
        self.users_version == self.server.settings.users.version()
    }

    /// Looks the user up again if any user has changed. `false` if it was removed; then the client may do nothing.
    #[inline]
    pub(crate) fn refresh_user(&mut self) -> bool {
        self.knows_users() || self.look_up_user()
    }

    #[cold]
    fn look_up_user(&mut self) -> bool {
        let users = &self.server.settings.users;
        self.users_version = users.version();
        let found = users.find(&self.user.name);
        let is_there = found.is_some();
        self.user = found.unwrap_or_else(|| Arc::new(User::new(&self.user.name)));
        is_there
    }

    /// Ends WATCH outside the gate.
    pub(crate) fn forget_watch(&mut self) {
        self.server.space.forget_watch(&mut self.watch);
    }

    /// Ends CLIENT TRACKING and MONITOR.
    pub(crate) fn stop_notices(&mut self) {
        if self.tracking.take().is_some() {
            self.server.notices.tracking.stop(self.client.id);
            self.client.tracks.store(false, Relaxed);
        }
        self.caching = None;
        self.server.monitors.remove(self.client.id);
        self.client.monitors.store(false, Relaxed);
    }

    /// Remembers the keys that a command reads if the client tracks them. Call it before entry to the key space ends.
    #[inline]
    pub(crate) fn track(&self, spec: &Spec, args: &Args<'_>) {
        if let Some(mode) = &self.tracking {
            self.track_keys(mode, spec, args);
        }
    }

    #[cold]
    fn track_keys(&self, mode: &Mode, spec: &Spec, args: &Args<'_>) {
        let wanted = match (mode.opt_in, mode.opt_out) {
            (true, _) => self.caching == Some(true),
            (_, true) => self.caching != Some(false),
            _ => !mode.broadcast,
        };
        if wanted && spec.flags.has(Flags::READONLY) {
            let keys = spec.key_indices(args).map(|index| args.at(index));
            let bytes_max = self.server.settings.output_bytes.load(Relaxed);
            self.server.notices.tracking.remember(self.client.id, keys, bytes_max);
        }
    }

    /// Sends a command to the clients that monitor.
    pub(crate) fn feed_monitors(&self, spec: &Spec, args: &Args<'_>, source: &str) {
        if self.server.monitors.are_there() && !spec.flags.has(Flags::ADMIN) {
            let bytes_max = self.server.settings.output_bytes.load(Relaxed);
            self.server.monitors.feed(args, self.database, source, bytes_max);
        }
    }

    /// An execution with these arguments.
    pub(crate) fn call<'c, 'a>(&self, args: Args<'a>, out: &'c mut Vec<u8>) -> Call<'c, 'a> {
        Call {
            args,
            database: self.database,
            version: self.version,
            out,
            in_script: self.in_script,
            value_bytes_max: self.server.settings.bulk_bytes.load(Relaxed),
            reply_bytes_max: self.server.settings.request_bytes.load(Relaxed),
        }
    }

    /// Replies with an error, and counts it.
    pub(crate) fn refuse(&self, out: &mut Vec<u8>, refusal: &Refusal) {
        let text = refusal.text();
        self.figures.note_error(&text);
        refusal.note(&self.server.space);
        reply::error(out, text);
    }
}

/// Commands between MULTI and EXEC.
#[derive(Default)]
pub(crate) struct Transaction {
    pub(super) bytes: Vec<u8>,
    spans: Vec<Span>,
    commands: Vec<(&'static Spec, usize)>,
    /// Whether a command was refused, so that EXEC will be refused.
    pub(crate) refused: bool,
    /// In a cluster: the slot of the keys so far, and whether the keys have several slots.
    slot: Option<u16>,
    pub(super) is_across_slots: bool,
    /// Whether EXEC may take long, because one of the commands may.
    pub(crate) is_long: bool,
}

impl Transaction {
    /// Queues a command whose keys have this slot.
    ///
    /// # Errors
    /// Fails if this command makes the queue longer than `bytes_max`, the length of the longest request.
    pub(crate) fn queue(
        &mut self,
        spec: &'static Spec,
        args: &Args<'_>,
        slot: Option<u16>,
        bytes_max: usize,
    ) -> Result<(), Refusal> {
        let bytes: usize = args.from(0).map(<[u8]>::len).sum();
        if self.bytes.len() + bytes > bytes_max || self.spans.len() + args.len() > bytes_max / 8 {
            return Err(Refusal::from(format!(
                "ERR the transaction is longer than {bytes_max} bytes, as --max-request allows. Send it in parts"
            )));
        }
        self.is_across_slots |= slot.is_some() && self.slot.is_some_and(|other| Some(other) != slot);
        self.slot = self.slot.or(slot);
        for argument in args.from(0) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(argument);
            self.spans.push(Span::of(start..self.bytes.len()));
        }
        self.commands.push((spec, args.len()));
        Ok(())
    }

    /// The number of queued commands.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The queued commands, in order.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&'static Spec, Args<'_>)> {
        let mut spans = self.spans.as_slice();
        self.commands.iter().map(move |&(spec, count)| {
            let (these, rest) = spans.split_at(count);
            spans = rest;
            (spec, Args { request: &self.bytes, spans: these })
        })
    }
}
