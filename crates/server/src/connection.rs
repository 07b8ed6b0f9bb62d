//! One connection: bytes of a socket to its session, and replies back.
//!
//! ```text
//! wait for input, messages of others, or an end
//! read into the buffer of the thread -> session: execute in place -> write from the buffer of the thread
//!     what is left of the input: kept by the connection     what the socket does not take: likewise
//! ```
//!
//! So a connection that waits keeps no buffer, and requests that come whole are never copied. While replies wait for
//! a slow client nothing is read from it, which bounds what it can cost; if it takes none of them for
//! `Settings::stalled_s`, it is closed.

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

/// Bytes read from a socket at once: pipelines of some hundred commands.
const READ_BYTES: usize = 64 << 10;
/// A buffer for replies that grew beyond this is given back.
const OUTPUT_KEPT_BYTES: usize = 1 << 20;

thread_local! {
    static INPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static OUTPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What woke a connection.
enum Event {
    /// The number of bytes in the thread's buffer, which is lent.
    Input(Vec<u8>, usize),
    /// More bytes are in `kept`.
    More,
    Messages,
    End,
}

/// A socket and its session.
struct Connection<T, S> {
    stream: T,
    /// `None` while a thread executes, and for ever if it panicked.
    session: Option<Box<S>>,
    server: Arc<Server>,
    client: Arc<Client>,
    figures: Arc<Figures>,
    /// Input that is no whole request yet: the first `filled` bytes.
    kept: Vec<u8>,
    filled: usize,
}

/// Serves a connection until it ends.
pub async fn serve<T, S>(stream: T, session: S, server: Arc<Server>, client: Arc<Client>, figures: Arc<Figures>)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Session,
{
    let session = Some(Box::new(session));
    let mut connection = Connection { stream, session, server, client, figures, kept: Vec::new(), filled: 0 };
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
                    self.keep(&buffer[used..count]);
                    INPUT.set(buffer);
                    flow
                }
                Event::More if self.filled < need => {
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
                        break;
                    }
                    Flow::Write => {
                        self.send(out).await?;
                        out = OUTPUT.take();
                        flow = self.execute_kept(&mut out)?;
                    }
                    Flow::Wait => (out, flow) = self.execute_on_thread(out).await?,
                    Flow::Close => {
                        self.send(out).await?;
                        return self.stream.shutdown().await;
                    }
                }
            }
        }
    }

    /// Waits for the next event. Nothing is kept: reads into the thread's buffer; else behind what is kept.
    async fn wait(&mut self, need: usize) -> io::Result<Event> {
        let (client, stream) = (&self.client, &mut self.stream);
        let (kept, filled) = (&mut self.kept, &mut self.filled);
        poll_fn(|context| {
            client.waker.register(context.waker());
            if client.is_killed() {
                return Poll::Ready(Ok(Event::End));
            }
            if client.has_pushes() {
                return Poll::Ready(Ok(Event::Messages));
            }
            if *filled == 0 {
                let mut buffer = INPUT.take();
                buffer.resize(READ_BYTES, 0);
                let mut read = ReadBuf::new(&mut buffer);
                let polled = Pin::new(&mut *stream).poll_read(context, &mut read);
                let count = read.filled().len();
                return match polled {
                    Poll::Ready(Ok(())) if count == 0 => Poll::Ready(Ok(Event::End)),
                    Poll::Ready(Ok(())) => Poll::Ready(Ok(Event::Input(buffer, count))),
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                    Poll::Pending => {
                        INPUT.set(buffer);
                        Poll::Pending
                    }
                };
            }
            if *filled == kept.len() {
                // Twice as much as has come, at most: an announced length allocates nothing.
                kept.resize((need.min(2 * *filled)).max(*filled + READ_BYTES), 0);
            }
            let mut read = ReadBuf::new(&mut kept[*filled..]);
            match Pin::new(&mut *stream).poll_read(context, &mut read) {
                Poll::Ready(Ok(())) if read.filled().is_empty() => Poll::Ready(Ok(Event::End)),
                Poll::Ready(Ok(())) => {
                    *filled += read.filled().len();
                    Poll::Ready(Ok(Event::More))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Keeps what is left of the input.
    fn keep(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.kept.clear();
            self.kept.extend_from_slice(rest);
            self.filled = rest.len();
            self.client.input_bytes.store(self.filled, Relaxed);
        }
    }

    fn execute(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<(usize, Flow)> {
        self.client.active_s.store(self.server.clock_s.load(Relaxed), Relaxed);
        self.figures.reads.fetch_add(1, Relaxed);
        self.figures.bytes_in.fetch_add(input.len() as u64, Relaxed);
        Ok(self.session.as_mut().ok_or_else(session_lost)?.execute(input, out, Patience::EventLoop))
    }

    fn execute_kept(&mut self, out: &mut Vec<u8>) -> io::Result<Flow> {
        let session = self.session.as_mut().ok_or_else(session_lost)?;
        let (used, flow) = session.execute(&self.kept[..self.filled], out, Patience::EventLoop);
        self.drop_used(used);
        Ok(flow)
    }

    fn drop_used(&mut self, used: usize) {
        self.kept.copy_within(used..self.filled, 0);
        self.filled -= used;
        if self.filled == 0 {
            self.kept = Vec::new();
        }
        self.client.input_bytes.store(self.filled, Relaxed);
    }

    /// Executes what is kept on a thread that may wait for others and for the disk.
    async fn execute_on_thread(&mut self, mut out: Vec<u8>) -> io::Result<(Vec<u8>, Flow)> {
        let mut session = self.session.take().ok_or_else(session_lost)?;
        let (kept, filled) = (std::mem::take(&mut self.kept), self.filled);
        let (answer, executed) = tokio::sync::oneshot::channel();
        self.server.threads.run(move || {
            let (used, flow) = session.execute(&kept[..filled], &mut out, Patience::MayWait);
            let _ = answer.send((session, kept, out, used, flow)); // the connection may have ended
        });
        let (session, kept, out, used, flow) = executed.await.map_err(|_| session_lost())?;
        (self.session, self.kept) = (Some(session), kept);
        self.drop_used(used);
        // A thread that may wait has waited: it does not ask for another one.
        Ok((out, if flow == Flow::Wait { Flow::Write } else { flow }))
    }

    /// Sends replies, and messages of others behind them.
    async fn send(&mut self, mut out: Vec<u8>) -> io::Result<()> {
        let session = self.session.as_mut().ok_or_else(session_lost)?;
        if session.take_unsynced()
            && let Some(syncer) = &self.server.syncer
            && let Err(error) = syncer.synced().await
        {
            // The replies say more than is true.
            let text = session.failure(&error.replace(['\r', '\n'], " "));
            let _ = self.stream.write_all(text.as_bytes()).await; // the connection ends anyway
            return Err(io::Error::other(error));
        }
        if let Some(session) = &mut self.session {
            session.take_pushes(&mut out);
        }
        let mut sent = 0;
        while sent < out.len() {
            let count = self.write(&out[sent..]).await?;
            self.figures.bytes_out.fetch_add(count as u64, Relaxed);
            sent += count;
        }
        if sent > 0 {
            self.client.output_bytes.store(0, Relaxed);
            poll_fn(|context| Pin::new(&mut self.stream).poll_flush(context)).await?;
        }
        out.clear();
        if out.capacity() <= OUTPUT_KEPT_BYTES {
            OUTPUT.set(out);
        }
        Ok(())
    }

    /// Sends some bytes. An error if the client takes none for too long, or was ended.
    async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (client, stream) = (&self.client, &mut self.stream);
        // The usual case needs no timer.
        let at_once = poll_fn(|context| match Pin::new(&mut *stream).poll_write(context, bytes) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(result) = at_once.await {
            return result;
        }
        client.output_bytes.store(bytes.len(), Relaxed);
        let taken = poll_fn(|context| {
            client.waker.register(context.waker());
            if client.is_killed() {
                return Poll::Ready(Err(io::Error::other("ended while it did not read its replies")));
            }
            Pin::new(&mut *stream).poll_write(context, bytes)
        });
        let patience = Duration::from_secs(self.server.settings.stalled_s.load(Relaxed));
        match tokio::time::timeout(patience, taken).await {
            Ok(result) => result,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its replies")),
        }
    }
}

fn session_lost() -> io::Error {
    io::Error::other("a request could not be executed to its end")
}
