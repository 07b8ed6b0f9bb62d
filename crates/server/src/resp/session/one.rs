//! Executes one request: whether it is allowed, queued by MULTI, or executed now, and with which entry to the key
//! space. [`Work`] is what it shares with the other requests of its batch. Not here: runs (`batch.rs`).

use super::RespSession;
use crate::command::acl::{self, Context};
use crate::command::call::{Args, Outcome, Refusal, Turn};
use crate::command::dispatch::Handler;
use crate::command::number::parse_integer;
use crate::command::reply::Version;
use crate::command::spec::{self, Flags, Id, Spec};
use crate::command::{blocking, cluster, collection, edit, events};
use crate::keyspace::{Exclusive, Patience, Shared};
use crate::server::Server;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// What the steps of a batch share.
pub(super) struct Work<'k> {
    pub(super) server: &'k Server,
    pub(super) patience: Patience,
    /// Shared entry to the key space, while it is of use.
    pub(super) shared: Option<Shared<'k>>,
    /// When the last command ended.
    pub(super) clock: Instant,
    /// Lookups may have to wait for the disk, and this thread may not.
    pub(super) may_read: bool,
    /// There are values that take long to copy, and this thread must not.
    pub(super) may_be_long: bool,
}

impl<'k> Work<'k> {
    /// Shared entry, kept for the next requests; `None` if it would have to wait.
    #[inline]
    pub(super) fn enter(&mut self) -> Option<&Shared<'k>> {
        if self.shared.is_none() {
            self.shared = self.server.share(self.patience);
        }
        self.shared.as_ref()
    }
}

impl RespSession {
    /// Executes one request, or queues it.
    pub(super) fn execute_one(
        &mut self,
        spec: &'static Spec,
        args: Args<'_>,
        work: &mut Work<'_>,
        out: &mut Vec<u8>,
    ) -> Step {
        let before = out.len();
        // The beginning of what CLIENT REPLY suppresses.
        let mut unwanted = before;
        if let Err(refusal) = self.admit(spec, &args) {
            self.refuse_known(spec.id, out, refusal);
        } else if self.is_queued(spec) {
            if let Err(step) = self.queue_now(spec, &args, work, out) {
                return step;
            }
        } else {
            match self.execute_now(spec, args, work, out) {
                Err(step) => return step,
                Ok(Ok(())) if is_push(spec.id) => unwanted = out.len(),
                Ok(Ok(())) => {}
                Ok(Err(refusal)) => {
                    self.state.figures.of(spec.id).failed.fetch_add(1, Relaxed);
                    out.truncate(before);
                    self.state.refuse(out, &refusal);
                }
            }
        }
        if self.state.wait.is_none() {
            self.settle_reply(unwanted, out); // else once it has waited
        }
        match self.state.sleep.take() {
            _ if self.state.closing => Step::Close,
            _ if self.state.wait.is_some() => Step::Block(self.state.wait.take().flatten()),
            Some(time) => Step::Sleep(time),
            None => Step::Done,
        }
    }

    /// Queues a command of a transaction, which takes memory, too. An error if that cannot be now.
    fn queue_now(
        &mut self,
        spec: &'static Spec,
        args: &Args<'_>,
        work: &mut Work<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Step> {
        if self.refuse_busy(spec.id, out) {
            return Err(Step::Done);
        }
        let mut room = Ok(());
        if work.server.space.is_pressed() {
            work.shared = None;
            let mut alone = work.server.close(work.patience).ok_or(Step::Wait)?;
            room = alone.make_room(bytes_of(spec, args));
            blocking::serve(work.server, &mut alone);
        }
        match room.map_err(Refusal::from).and_then(|()| self.queue(spec, args)) {
            Ok(()) => out.extend_from_slice(b"+QUEUED\r\n"),
            Err(refusal) => self.refuse_known(spec.id, out, refusal),
        }
        Ok(())
    }

    /// Executes a command that is allowed. An error if that cannot be now.
    fn execute_now(
        &mut self,
        spec: &'static Spec,
        args: Args<'_>,
        work: &mut Work<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, Step> {
        let server = work.server;
        if let Some(time) = server.clients.pause(may_write(spec)) {
            return Err(Step::Pause(time));
        }
        let handler = Handler::of(spec.id);
        let queued = self.state.transaction.as_ref().filter(|_| spec.id == Id::Exec);
        let is_long = is_long(spec, &args) || queued.is_some_and(|transaction| transaction.is_long);
        if work.patience == Patience::EventLoop && is_long {
            // The threads that may wait could all be waiting for the script.
            let is_refused = matches!(handler, Handler::Transaction(_)) && self.refuse_busy(spec.id, out);
            return Err(if is_refused { Step::Done } else { Step::Wait });
        }
        let outcome = match handler {
            Handler::Session(execute) => {
                work.shared = None;
                self.feed_monitors(spec, &args);
                self.unsynced |= spec.flags.has(Flags::WRITE);
                execute(&mut self.state, args, out)
            }
            Handler::Scan(execute) => {
                self.feed_monitors(spec, &args);
                execute(&server.space, &mut self.state.call(args, out), &[])
            }
            Handler::Lookup(execute) => {
                let Some(entry) = work.enter() else { return Err(self.cannot_execute(spec.id, out)) };
                self.feed_monitors(spec, &args);
                self.state.track(spec, &args);
                execute(&mut Turn::Shared(entry), &mut self.state.call(args, out))
            }
            Handler::LookupMany(_)
            | Handler::Edit(_)
            | Handler::Collection(_)
            | Handler::Change(_)
            | Handler::Transaction(_) => {
                work.shared = None;
                let Some(mut alone) = server.close(work.patience) else {
                    return Err(self.cannot_execute(spec.id, out));
                };
                self.unsynced = true;
                self.feed_monitors(spec, &args);
                self.state.track(spec, &args);
                let outcome = self.change(&mut alone, spec, args, out);
                events::report(&server.notices, &mut alone, spec.id, &args, self.state.client.id);
                blocking::serve(server, &mut alone);
                drop(alone);
                if matches!(spec.id, Id::FlushDb | Id::FlushAll) {
                    server.compact_cleared();
                }
                outcome
            }
        };
        if std::mem::take(&mut self.state.unsettled) {
            server.notices.settle(&server.space);
        }
        if spec.id == Id::Exec {
            self.state.feed_monitors(spec, &args, &self.state.client.address);
        }
        if self.state.transaction.is_none() && spec.id != Id::Client {
            self.state.caching = None;
        }
        Ok(outcome)
    }

    /// Executes a command that changes the key space, or a whole transaction.
    fn change(&mut self, alone: &mut Exclusive<'_>, spec: &'static Spec, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
        // EXEC and the commands that run scripts lack the flag, and check by themselves.
        if spec.flags.has(Flags::DENYOOM) {
            alone.make_room(bytes_of(spec, &args))?;
        }
        let handler = Handler::of(spec.id);
        if let Handler::Transaction(execute) = handler {
            return execute(&mut self.state, alone, args, out);
        }
        alone.begin();
        let mut call = self.state.call(args, out);
        let outcome = match handler {
            Handler::LookupMany(execute) => execute(&mut Turn::Alone(alone), &mut call),
            Handler::Collection(command) => collection::execute(alone, command, &mut call),
            Handler::Change(execute) => execute(alone, &mut call),
            Handler::Edit(plan) => plan(&call, alone.now_ms()).and_then(|plan| edit::execute(alone, &mut call, &plan)),
            _ => Ok(()), // executed by the caller
        };
        match outcome {
            Ok(()) => Ok(alone.commit()?),
            // Fields that had expired go, whatever the command answers.
            Err(refusal) if matches!(handler, Handler::Collection(_)) && !refusal.leaves_undefined() => {
                alone.commit()?;
                Err(refusal)
            }
            Err(refusal) => {
                alone.roll_back();
                Err(refusal)
            }
        }
    }

    /// Whether the command is allowed now, with these arguments.
    fn admit(&mut self, spec: &'static Spec, args: &Args<'_>) -> Outcome {
        let subcommand = spec.subcommand(args)?;
        let name = || match subcommand {
            Some((subcommand, _)) => format!("{}|{subcommand}", spec.name),
            None => spec.name.to_owned(),
        };
        let arity_fits = subcommand.is_none_or(|(_, arity)| spec::fits(arity, args.len()));
        if !spec.accepts(args.len()) || !arity_fits {
            return Err(format!("ERR wrong number of arguments for '{}' command", name()).into());
        }
        if !self.state.authenticated && !spec.flags.has(Flags::NO_AUTH) {
            return Err("NOAUTH Authentication required.".into());
        }
        let context = if self.state.transaction.is_some() { Context::Multi } else { Context::TopLevel };
        acl::permit(&mut self.state, spec, args, context)?;
        if self.state.transaction.is_some() && spec.flags.has(Flags::NO_MULTI) {
            return Err("ERR Command not allowed inside a transaction".into());
        }
        let subscribed = self.state.version == Version::Resp2 && self.state.client.subscriptions() > 0;
        if subscribed && !spec.flags.has(Flags::SUBSCRIBED) {
            return Err(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                this context",
                name()
            )
            .into());
        }
        match self.state.server.space.dictionary() {
            Some(dictionary) => cluster::admit(&self.state, dictionary, spec, args),
            None => Ok(()),
        }
    }

    fn is_queued(&self, spec: &Spec) -> bool {
        self.state.transaction.is_some() && !spec.flags.has(Flags::NOW)
    }

    fn queue(&mut self, spec: &'static Spec, args: &Args<'_>) -> Result<(), Refusal> {
        let most = self.state.server.settings.request_bytes.load(Relaxed);
        let has_topology = self.state.server.space.dictionary().is_some_and(|dictionary| dictionary.has_topology());
        let slot = if has_topology { cluster::slot_of(spec, args).unwrap_or_default() } else { None };
        let Some(transaction) = &mut self.state.transaction else { return Ok(()) };
        transaction.queue(spec, args, slot, most)?;
        transaction.is_long |= is_long(spec, args);
        Ok(())
    }

    /// Tells monitors of a command, once it is certain that it is executed now; of EXEC, after its commands.
    fn feed_monitors(&self, spec: &'static Spec, args: &Args<'_>) {
        if spec.id != Id::Exec {
            self.state.feed_monitors(spec, args, &self.state.client.address);
        }
    }

    /// The key space cannot be entered now: refuses the request if a script has run for long, else it waits.
    fn cannot_execute(&mut self, id: Id, out: &mut Vec<u8>) -> Step {
        if self.refuse_busy(id, out) { Step::Done } else { Step::Wait }
    }
}

/// The result of executing one request.
pub(super) enum Step {
    Done,
    Wait,
    Close,
    /// It waits, at most for this time.
    Block(Option<Duration>),
    /// Done; send the reply after this delay.
    Sleep(Duration),
    /// Not done because of CLIENT PAUSE; try again after this time.
    Pause(Duration),
}

/// Whether CLIENT PAUSE WRITE delays a command: also a script or a transaction, whatever is in it, and a message.
fn may_write(spec: &Spec) -> bool {
    use Id::{Eval, EvalSha, Exec, PfCount, Publish, SPublish};
    spec.flags.has(Flags::WRITE) || matches!(spec.id, Eval | EvalSha | Exec | PfCount | Publish | SPublish)
}

/// Whether the replies of a command are messages, which CLIENT REPLY does not suppress.
fn is_push(id: Id) -> bool {
    use Id::{PSubscribe, PUnsubscribe, SSubscribe, SUnsubscribe, Subscribe, Unsubscribe};
    matches!(id, PSubscribe | PUnsubscribe | SSubscribe | SUnsubscribe | Subscribe | Unsubscribe)
}

/// Whether a command may take so long that it would delay other clients of the event loop.
fn is_long(spec: &Spec, args: &Args<'_>) -> bool {
    const ARGS_MAX: usize = 10_000;
    const BYTES_MAX: usize = 1 << 20;
    // These wait for the gate.
    let settles = spec.id == Id::Client && args.is(1, "tracking") || spec.id == Id::Config && args.is(1, "set");
    settles
        || spec.flags.has(Flags::WAITS)
        || args.len() > ARGS_MAX
        || spec.id == Id::SetRange && bytes_of(spec, args) > BYTES_MAX
}

/// The number of bytes that a command may add to the key space.
fn bytes_of(spec: &Spec, args: &Args<'_>) -> usize {
    let offset = || args.get(2).and_then(parse_integer).and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0);
    let before = if spec.id == Id::SetRange { offset() } else { 0 };
    args.from(1).map(<[u8]>::len).sum::<usize>().saturating_add(before)
}
