//! One connection: passes bytes from its socket to its session, and replies back.
//!
//! ```text
//! wait for input, messages of other clients, or the end
//! read into the buffer of the thread -> session: execute in place -> write from the buffer of the thread
//!     unconsumed input is kept by the connection, and so is output that the socket does not take
//! ```
//!
//! So an idle connection keeps no buffer, and requests that arrive whole are never copied. Some clients write a whole
//! pipeline before they read. So while a client has unread replies, its requests are still read, up to
//! `Settings::request_bytes`, but executed only once it has read the replies. A client that neither reads replies nor
//! sends requests for `Settings::stalled_s` is disconnected.

use crate::clients::Client;
use crate::figures::Figures;
use crate::keyspace::Patience;
use crate::server::Server;
use crate::session::{Flow, Session};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// The most bytes of one read from a socket: pipelines of some hundred commands.
const READ_BYTES: usize = 64 << 10;
/// A reply buffer that grew beyond this is freed.
const OUTPUT_KEPT_BYTES: usize = 1 << 20;

thread_local! {
    static INPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static OUTPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What woke a connection.
enum Event {
    /// The thread's buffer, lent to the connection, and the number of bytes in it.
    Input(Vec<u8>, usize),
    /// More bytes were read into `kept`.
    More,
    Messages,
    End,
}

/// A socket and its session.
struct Connection<T, S> {
    stream: T,
    /// `None` while another thread executes requests, and forever if that thread panicked.
    session: Option<Box<S>>,
    server: Arc<Server>,
    client: Arc<Client>,
    figures: Arc<Figures>,
    /// Input that has not been executed yet.
    kept: Kept,
    /// Whether the client has closed its sending side.
    ended: bool,
}

/// Bytes of a connection that its session has not consumed: `bytes[start..end]`.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Kept {
    fn input(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    /// Free space after the input, for a request of `need` bytes.
    fn room(&mut self, need: usize) -> &mut [u8] {
        if self.end == self.bytes.len() {
            if self.start > self.len() {
                self.bytes.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.len());
            }
            // At most twice what has been received, so a length that is only announced allocates nothing.
            let len = self.len();
            let more = need.min(2 * len).max(len + READ_BYTES);
            if self.start + more > self.bytes.len() {
                self.bytes.resize(self.start + more, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    fn add(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            *self = Kept { bytes: rest.to_vec(), start: 0, end: rest.len() };
        }
    }

    fn drop_used(&mut self, used: usize) {
        self.start += used;
        if self.start == self.end {
            *self = Kept::default();
        }
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve<T, S>(stream: T, session: S, server: Arc<Server>, client: Arc<Client>, figures: Arc<Figures>)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Session,
{
    let session = Some(Box::new(session));
    let mut connection = Connection { stream, session, server, client, figures, kept: Kept::default(), ended: false };
    if let Err(error) = connection.run().await {
        tracing::debug!(client = connection.client.id, %error, "connection ended");
    }
    match connection.session.take() {
        Some(mut session) => session.close(),
        None => connection.server.clients.remove(connection.client.id),
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin, S: Session> Connection<T, S> {
    async fn run(&mut self) -> io::Result<()> {
        let mut need = 1;
        loop {
            let mut out = OUTPUT.take();
            let mut flow = match self.wait(need).await? {
                Event::End => return Ok(()),
                Event::Messages => Flow::Read(need),
                Event::Input(buffer, count) => {
                    let (used, flow) = self.execute(&buffer[..count], &mut out)?;
                    self.kept.add(&buffer[used..count]);
                    INPUT.set(buffer);
                    flow
                }
                Event::More if self.kept.len() < need => {
                    // A client that sends a long request is not idle.
                    self.client.active_s.store(self.server.clock_s.load(Relaxed), Relaxed);
                    OUTPUT.set(out);
                    continue;
                }
                Event::More => self.execute_kept(&mut out)?,
            };
            loop {
                match flow {
                    Flow::Read(more) => {
                        need = more;
                        self.send(out).await?;
                        if self.kept.len() < need {
                            break;
                        }
                        // More input was read while the replies were being sent.
                        out = OUTPUT.take();
                        flow = self.execute_kept(&mut out)?;
                    }
                    Flow::Block(time) => {
                        self.send(out).await?;
                        out = OUTPUT.take();
                        self.blocked(time, &mut out).await?;
                        self.send(out).await?;
                        out = OUTPUT.take();
                        flow = self.execute_kept(&mut out)?;
                    }
                    Flow::Sleep(time) => {
                        self.sleep(time).await?;
                        self.send(out).await?;
                        out = OUTPUT.take();
                        flow = self.execute_kept(&mut out)?;
                    }
                    Flow::Write => {
                        self.send(out).await?;
                        // What the socket takes at once does not let other connections run.
                        tokio::task::yield_now().await;
                        out = OUTPUT.take();
                        flow = self.execute_kept(&mut out)?;
                    }
                    Flow::Wait => (out, flow) = self.execute_on_thread(out).await?,
                    Flow::Close => {
                        self.send(out).await?;
                        return self.drive(|stream, context| stream.poll_shutdown(context)).await;
                    }
                }
            }
        }
    }

    /// Waits for the next event. Reads into the thread's buffer if nothing is kept, else after the kept input.
    async fn wait(&mut self, need: usize) -> io::Result<Event> {
        let (client, stream, kept) = (&self.client, &mut self.stream, &mut self.kept);
        client.busy.store(false, Relaxed);
        client.input_bytes.store(kept.len(), Relaxed);
        let ended = self.ended;
        poll_fn(|context| {
            client.waker.register(context.waker());
            if client.is_killed() || ended {
                return Poll::Ready(Ok(Event::End));
            }
            if client.has_pushes() {
                return Poll::Ready(Ok(Event::Messages));
            }
            if kept.len() > 0 {
                return read_more(stream, kept, need, context)
                    .map_ok(|count| if count == 0 { Event::End } else { Event::More });
            }
            let mut buffer = INPUT.take();
            buffer.resize(READ_BYTES, 0);
            let mut read = ReadBuf::new(&mut buffer);
            let polled = Pin::new(&mut *stream).poll_read(context, &mut read);
            let count = read.filled().len();
            match polled {
                Poll::Ready(Ok(())) if count == 0 => Poll::Ready(Ok(Event::End)),
                Poll::Ready(Ok(())) => Poll::Ready(Ok(Event::Input(buffer, count))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => {
                    INPUT.set(buffer);
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn execute(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<(usize, Flow)> {
        self.client.busy.store(true, Relaxed);
        self.client.active_s.store(self.server.clock_s.load(Relaxed), Relaxed);
        self.figures.reads.fetch_add(1, Relaxed);
        self.figures.bytes_in.fetch_add(input.len() as u64, Relaxed);
        Ok(self.session.as_mut().ok_or_else(session_lost)?.execute(input, out, Patience::EventLoop))
    }

    fn execute_kept(&mut self, out: &mut Vec<u8>) -> io::Result<Flow> {
        self.client.busy.store(true, Relaxed);
        let session = self.session.as_mut().ok_or_else(session_lost)?;
        let (used, flow) = session.execute(self.kept.input(), out, Patience::EventLoop);
        self.kept.drop_used(used);
        Ok(flow)
    }

    /// Executes the kept input on a thread that may block on other threads and on the disk.
    async fn execute_on_thread(&mut self, mut out: Vec<u8>) -> io::Result<(Vec<u8>, Flow)> {
        let server = self.server.clone();
        let _place = match server.waiting.try_acquire() {
            Ok(place) => place,
            // If the client disconnects before its turn, nothing is executed.
            Err(_) => tokio::select! {
                place = server.waiting.acquire() => place.map_err(io::Error::other)?,
                gone = self.gone(false) => return Err(gone.err().unwrap_or_else(session_lost)),
            },
        };
        let mut session = self.session.take().ok_or_else(session_lost)?;
        let mut kept = std::mem::take(&mut self.kept);
        let (answer, executed) = tokio::sync::oneshot::channel();
        self.server.threads.run(move || {
            let (used, flow) = session.execute(kept.input(), &mut out, Patience::MayWait);
            kept.drop_used(used);
            let _ = answer.send((session, kept, out, flow)); // the connection may have ended
        });
        let (session, kept, out, flow) = executed.await.map_err(|_| session_lost())?;
        (self.session, self.kept) = (Some(session), kept);
        // That thread was already allowed to block, so `Wait` from it only means that it is to be called again.
        Ok((out, if flow == Flow::Wait { Flow::Write } else { flow }))
    }

    /// Delays this connection only. An error if its client disconnects.
    async fn sleep(&mut self, time: Duration) -> io::Result<()> {
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            gone = self.gone(false) => gone,
        }
    }

    /// Waits until the session has the reply of a command that waits for other clients, or for this time, and appends
    /// the reply. Sends messages of other clients as they come. An error if the client disconnects.
    async fn blocked(&mut self, time: Option<Duration>, out: &mut Vec<u8>) -> io::Result<()> {
        let deadline = time.map(|time| tokio::time::Instant::now() + time);
        loop {
            let late = match deadline {
                Some(deadline) => match tokio::time::timeout_at(deadline, self.gone(true)).await {
                    Ok(gone) => gone.map(|()| tokio::time::Instant::now() >= deadline)?, // it may only be a message
                    Err(_) => true,
                },
                None => self.gone(true).await.map(|()| false)?,
            };
            if self.session.as_mut().ok_or_else(session_lost)?.unblock(late, out) {
                return Ok(());
            }
            if late {
                // A writer is popping for it, and will answer or give up.
                tokio::time::sleep(Duration::from_millis(1)).await;
            } else {
                self.send(std::mem::take(out)).await?;
                *out = OUTPUT.take();
            }
        }
    }

    /// Keeps reading until the client disconnects or is killed, an error occurs, the session has what it waits for, or,
    /// with `messages`, another client has sent a message.
    async fn gone(&mut self, messages: bool) -> io::Result<()> {
        let most = self.server.settings.request_bytes.load(Relaxed);
        let (client, stream, kept, session) = (&self.client, &mut self.stream, &mut self.kept, &mut self.session);
        poll_fn(|context| {
            client.waker.register(context.waker());
            if client.is_killed() {
                return Poll::Ready(Err(io::Error::other("ended while it waited")));
            }
            if session.as_mut().is_some_and(|session| session.is_unblocked()) || messages && client.has_pushes() {
                return Poll::Ready(Ok(()));
            }
            while kept.len() < most {
                match std::task::ready!(read_more(stream, kept, 0, context)) {
                    Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    Ok(_) => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Sends replies, then messages of other clients.
    async fn send(&mut self, mut out: Vec<u8>) -> io::Result<()> {
        let session = self.session.as_mut().ok_or_else(session_lost)?;
        if session.take_unsynced()
            && let Some(syncer) = &self.server.syncer
            && let Err(error) = syncer.synced().await
        {
            // The replies would report success for changes that are not durable.
            let text = session.failure(&error.replace(['\r', '\n'], " "));
            let _ = self.stream.write_all(text.as_bytes()).await; // the connection ends anyway
            return Err(io::Error::other(error));
        }
        if let Some(session) = &mut self.session {
            session.take_pushes(&mut out);
        }
        let mut rest = out.as_slice();
        while !rest.is_empty() {
            self.client.output_bytes.store(rest.len(), Relaxed);
            let count = self.drive(|stream, context| stream.poll_write(context, rest)).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.figures.bytes_out.fetch_add(count as u64, Relaxed);
            rest = &rest[count..];
        }
        if !out.is_empty() {
            // TLS keeps what the socket does not take yet.
            self.drive(|stream, context| stream.poll_flush(context)).await?;
            self.client.output_bytes.store(0, Relaxed);
            self.client.active_s.store(self.server.clock_s.load(Relaxed), Relaxed);
        }
        out.clear();
        if out.capacity() <= OUTPUT_KEPT_BYTES {
            OUTPUT.set(out);
        }
        Ok(())
    }

    /// Takes a step of sending, and reads requests at the same time. An error if the client neither reads nor sends for
    /// too long, or was killed.
    async fn drive<R>(&mut self, mut step: impl Step<T, R>) -> io::Result<R> {
        // Usually all bytes are sent at once, and no timer is needed.
        let stream = &mut self.stream;
        let at_once = poll_fn(|context| match step(Pin::new(&mut *stream), context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(result) = at_once.await {
            return result;
        }
        let patience = Duration::from_secs(self.server.settings.stalled_s.load(Relaxed));
        loop {
            match tokio::time::timeout(patience, self.drive_or_read(&mut step)).await {
                Ok(Ok(None)) => {} // it has sent something
                Ok(Ok(Some(result))) => return Ok(result),
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its replies"));
                }
            }
        }
    }

    /// Returns what the step returns; `None` if instead the client sent requests.
    async fn drive_or_read<R>(&mut self, step: &mut impl Step<T, R>) -> io::Result<Option<R>> {
        let reads_ahead = self.session.as_ref().is_some_and(|session| session.reads_ahead());
        let most = if reads_ahead { self.server.settings.request_bytes.load(Relaxed) } else { 0 };
        let (client, stream, kept, ended) = (&self.client, &mut self.stream, &mut self.kept, &mut self.ended);
        poll_fn(|context| {
            client.waker.register(context.waker());
            if client.is_killed() {
                return Poll::Ready(Err(io::Error::other("ended while it did not read its replies")));
            }
            if let Poll::Ready(result) = step(Pin::new(&mut *stream), context) {
                return Poll::Ready(result.map(Some));
            }
            if *ended || kept.len() >= most {
                return Poll::Pending;
            }
            read_more(stream, kept, 0, context).map_ok(|count| {
                *ended = count == 0;
                client.input_bytes.store(kept.len(), Relaxed);
                None
            })
        })
        .await
    }
}

/// A step of sending: some bytes, what TLS keeps, or the end.
trait Step<T, R>: FnMut(Pin<&mut T>, &mut std::task::Context<'_>) -> Poll<io::Result<R>> {}

impl<T, R, F: FnMut(Pin<&mut T>, &mut std::task::Context<'_>) -> Poll<io::Result<R>>> Step<T, R> for F {}

/// Reads into the space after the kept input. Returns the number of bytes, 0 at the end of the stream.
fn read_more(
    stream: &mut (impl AsyncRead + Unpin),
    kept: &mut Kept,
    need: usize,
    context: &mut std::task::Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut read = ReadBuf::new(kept.room(need));
    std::task::ready!(Pin::new(stream).poll_read(context, &mut read))?;
    let count = read.filled().len();
    kept.end += count;
    Poll::Ready(Ok(count))
}

fn session_lost() -> io::Error {
    io::Error::other("a request could not be executed to its end")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{KeySpace, SpaceOptions};
    use crate::memcached::session::MemcachedSession;
    use crate::resp::session::RespSession;
    use crate::settings::Settings;
    use tokio::io::AsyncReadExt;

    #[test]
    fn a_client_that_sends_a_long_request_is_active() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let space = Arc::new(KeySpace::open(SpaceOptions::default()).unwrap());
        let server = Arc::new(Server::new(space, Settings::default(), false));
        let client = server.clients.add("test".into(), "test".into(), 0, 10).unwrap();
        let session = RespSession::new(server.clone(), client.clone(), server.add_figures());
        // The server has read all but the last 64 bytes of what was sent.
        let (mut theirs, ours) = tokio::io::duplex(64);
        let serving = serve(ours, session, server.clone(), client.clone(), server.add_figures());
        let sending = async {
            theirs.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n").await.unwrap();
            for second in 1..=20 {
                server.clock_s.store(second, Relaxed);
                theirs.write_all(&[b'x'; 5000]).await.unwrap();
                assert_eq!(client.active_s.load(Relaxed), second);
            }
            theirs.write_all(b"\r\n").await.unwrap();
            let mut reply = [0; 5];
            theirs.read_exact(&mut reply).await.unwrap();
            assert_eq!(&reply, b"+OK\r\n");
            drop(theirs);
        };
        runtime.block_on(async { tokio::join!(serving, sending) });
    }

    #[test]
    fn a_dump_of_many_collections_lets_other_connections_run() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let space = Arc::new(KeySpace::open(SpaceOptions::default()).unwrap());
        let server = Arc::new(Server::new(space, Settings::default(), false));
        let connect = || server.clients.add("test".into(), "test".into(), 0, 10).unwrap();
        let mut redis = RespSession::new(server.clone(), connect(), server.add_figures());
        for number in 0..20_000 {
            let (request, mut reply) = (format!("RPUSH key:{number} x\r\n"), Vec::new());
            redis.execute(request.as_bytes(), &mut reply, Patience::MayWait);
            assert_eq!(reply, b":1\r\n");
        }
        let client = connect();
        let session = MemcachedSession::new(server.clone(), client.clone(), server.add_figures());
        let (mut theirs, ours) = tokio::io::duplex(64);
        let serving = serve(ours, session, server.clone(), client, server.add_figures());
        let asking = async {
            theirs.write_all(b"lru_crawler metadump all\r\n").await.unwrap();
            let (mut bytes, mut turns) = ([0_u8; 5], 0);
            let mut reply = ReadBuf::new(&mut bytes);
            poll_fn(|context| {
                turns += 1;
                Pin::new(&mut theirs).poll_read(context, &mut reply)
            })
            .await
            .unwrap();
            assert_eq!(reply.filled(), b"END\r\n");
            assert!(turns > 5, "{turns} turns during the dump");
            drop(theirs);
        };
        runtime.block_on(async { tokio::join!(serving, asking) });
    }
}
