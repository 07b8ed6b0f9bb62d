//! Requests over many connections: as fast as they are answered, or at a fixed rate.
//!
//! *As fast* means that each connection sends its next request, or pipeline, when it has the replies to the last. At a
//! fixed rate each request has a due time, whether or not the server keeps up. Its wait for a free connection counts,
//! so a stall shows in all requests that it delays.

use crate::histogram::Histogram;
use crate::wire::{Operation, Protocol, connect};
use crate::{Clock, Result, Target, below};
use clap::Args;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct Rate {
    #[command(flatten)]
    target: Target,
    #[arg(long, value_enum, default_value = "resp")]
    protocol: Protocol,
    #[arg(long, value_enum)]
    operation: Operation,
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Requests sent before their replies are awaited.
    #[arg(long, default_value_t = 1)]
    pipeline: usize,
    /// Keys that one GET asks for.
    #[arg(long, default_value_t = 1)]
    keys_per_request: usize,
    /// Keys there are.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 16)]
    value_bytes: usize,
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
    /// Keys in sequence instead of random ones: to store them all.
    #[arg(long)]
    in_order: bool,
}

#[derive(Args)]
pub struct Mixed {
    #[command(flatten)]
    target: Target,
    #[arg(long, value_enum, default_value = "resp")]
    protocol: Protocol,
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Requests a second.
    #[arg(long, default_value_t = 20_000)]
    rate: u64,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Keys there are.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 16)]
    value_bytes: usize,
    /// Of a hundred requests, those that store.
    #[arg(long, default_value_t = 20)]
    sets: u64,
    /// Each SET makes a new key.
    #[arg(long)]
    growing: bool,
    /// BGSAVE after each second.
    #[arg(long)]
    saving: bool,
}

/// A connection with requests under way.
struct Connection {
    stream: TcpStream,
    /// The start of an incomplete reply.
    kept: Vec<u8>,
    waiting: usize,
    since: Instant,
}

/// All connections, and a read buffer that they share.
struct Connections {
    protocol: Protocol,
    all: Vec<Connection>,
    epoll: Epoll,
    events: Vec<EpollEvent>,
    room: Vec<u8>,
    values: u64,
}

impl Connections {
    fn new(protocol: Protocol, port: u16, count: usize) -> Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut all = Vec::new();
        for number in 0..count {
            let stream = connect(port)?;
            epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
            all.push(Connection { stream, kept: Vec::new(), waiting: 0, since: Instant::now() });
        }
        let events = vec![EpollEvent::empty(); count];
        Ok(Connections { protocol, all, epoll, events, room: vec![0; 1 << 16], values: 0 })
    }

    /// Sends requests and times them from `since`.
    fn send(&mut self, number: usize, bytes: &[u8], requests: usize, since: Instant) -> Result<()> {
        let connection = &mut self.all[number];
        (connection.waiting, connection.since) = (requests, since);
        Ok(connection.stream.write_all(bytes)?)
    }

    /// Reads what has come. Calls `done` with each connection that has all its replies, and the time they took.
    fn receive(&mut self, timeout: EpollTimeout, mut done: impl FnMut(usize, Duration)) -> Result<()> {
        let count = self.epoll.wait(&mut self.events, timeout)?;
        for index in 0..count {
            let number = self.events[index].data() as usize;
            let connection = &mut self.all[number];
            let read = connection.stream.read(&mut self.room)?;
            if read == 0 {
                return Err("the server closed a connection".into());
            }
            let input = if connection.kept.is_empty() {
                &self.room[..read]
            } else {
                connection.kept.extend_from_slice(&self.room[..read]);
                &connection.kept[..]
            };
            let mut at = 0;
            while let Some((len, values)) = if at < input.len() { self.protocol.reply(&input[at..])? } else { None } {
                at += len;
                self.values += values;
                connection.waiting = connection.waiting.checked_sub(1).ok_or("a reply that nobody asked for")?;
            }
            if connection.kept.is_empty() {
                connection.kept.extend_from_slice(&self.room[at..read]);
            } else {
                connection.kept.drain(..at);
            }
            if connection.waiting == 0 {
                done(number, connection.since.elapsed());
            }
        }
        Ok(())
    }
}

pub fn rate(load: &Rate) -> Result<Value> {
    let mut connections = Connections::new(load.protocol, load.target.port, load.connections)?;
    let value = vec![b'x'; load.value_bytes];
    let (mut sent, mut asked, mut bytes, mut keys) = (0, 0u64, Vec::new(), Vec::new());
    let mut times = Histogram::new();
    let clock = Clock::start(&load.target)?;
    // Connections that may send.
    let mut idle: Vec<usize> = (0..load.connections).collect();
    let mut busy = 0;
    while sent < load.requests || busy > 0 {
        while let Some(number) = if sent < load.requests { idle.pop() } else { None } {
            bytes.clear();
            let count = load.pipeline.min((load.requests - sent) as usize);
            for _ in 0..count {
                keys.clear();
                for _ in 0..load.keys_per_request {
                    keys.push(if load.in_order { asked % load.keys } else { below(asked, load.keys) });
                    asked += 1;
                }
                load.protocol.request(&mut bytes, load.operation, &keys, &value);
            }
            sent += count as u64;
            busy += 1;
            connections.send(number, &bytes, count, Instant::now())?;
        }
        connections.receive(EpollTimeout::NONE, |number, took| {
            times.add(took.as_nanos() as u64);
            idle.push(number);
            busy -= 1;
        })?;
    }
    let elapsed = clock.stop()?;
    if load.operation == Operation::Get && connections.values != asked {
        return Err(format!("{} of {asked} keys were found", connections.values).into());
    }
    Ok(json!({
        "requests_per_s": load.requests as f64 / elapsed.seconds,
        "keys_per_s": asked as f64 / elapsed.seconds,
        "p50_us": times.quantile_us(0.5),
        "p999_us": times.quantile_us(0.999),
        "server_us_per_request": 1e6 * elapsed.server_s / load.requests as f64,
        "server_busy": elapsed.server_s / elapsed.seconds,
        "client_busy": elapsed.own_s / elapsed.seconds,
    }))
}

pub fn mixed(load: &Mixed) -> Result<Value> {
    let mut connections = Connections::new(load.protocol, load.target.port, load.connections)?;
    let mut saver = if load.saving { Some(crate::wire::Asking::new(load.target.port)?) } else { None };
    let value = vec![b'x'; load.value_bytes];
    let (total, step) = (load.rate * load.seconds, Duration::from_secs(1) / load.rate as u32);
    let (mut due, mut made, mut bytes) = (0, 0, Vec::new());
    let mut times = Histogram::new();
    let mut idle: Vec<usize> = (0..load.connections).collect();
    let (mut busy, mut saves) = (0, 0);
    let clock = Clock::start(&load.target)?;
    let since = Instant::now();
    while due < total || busy > 0 {
        let now = Instant::now();
        while due < total && since + step * due as u32 <= now {
            let Some(number) = idle.pop() else { break };
            bytes.clear();
            if below(2 * due, 100) < load.sets {
                let key = if load.growing { load.keys + made } else { below(2 * due + 1, load.keys) };
                made += 1;
                load.protocol.request(&mut bytes, Operation::Set, &[key], &value);
            } else {
                load.protocol.request(&mut bytes, Operation::Get, &[below(2 * due + 1, load.keys)], &value);
            }
            connections.send(number, &bytes, 1, since + step * due as u32)?;
            due += 1;
            busy += 1;
        }
        connections.receive(EpollTimeout::ZERO, |number, took| {
            times.add(took.as_nanos() as u64);
            idle.push(number);
            busy -= 1;
        })?;
        if let Some(saver) = &mut saver
            && (now - since).as_secs() > saves
        {
            saves += 1;
            saver.begin_save()?;
        }
    }
    let elapsed = clock.stop()?;
    Ok(json!({
        "requests_per_s": total as f64 / elapsed.seconds,
        "p50_us": times.quantile_us(0.5),
        "p99_us": times.quantile_us(0.99),
        "p999_us": times.quantile_us(0.999),
        "max_us": times.max_ns as f64 / 1000.0,
        "made": if load.growing { made } else { 0 },
        "saves": saves,
        "server_busy": elapsed.server_s / elapsed.seconds,
    }))
}
