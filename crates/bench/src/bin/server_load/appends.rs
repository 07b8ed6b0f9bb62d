//! The load of "Big Memory, Part 3": records of 16 bytes appended to values of 8-byte keys, pipelined in 10,000s.
//!
//! Append n has the number n in its record, and n determines its key: a new or an earlier one, at random, so that all
//! keys are used. The values therefore show which appends a server has, and `verify`, given the same arguments, checks
//! that they are the first P of the stream, for some P.

use crate::histogram::Histogram;
use crate::wire::{Asking, connect, resp};
use crate::{Clock, Result, Target, below, mix};
use clap::Args;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

const RECORD_BYTES: usize = 16;
/// Appends per window; each window's rate is measured.
const WINDOW: u64 = 100_000;
/// Keys that `verify` requests together.
const ASKED_AT_ONCE: u64 = 1000;

#[derive(Args)]
pub struct Stream {
    /// Keys in the end.
    #[arg(long, default_value_t = 9_750_000)]
    keys: u64,
    /// Appends in all.
    #[arg(long, default_value_t = 26_500_000)]
    appends: u64,
}

#[derive(Args)]
pub struct Load {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    stream: Stream,
    /// Appends sent before replies are awaited.
    #[arg(long, default_value_t = 10_000)]
    pipeline: u64,
    /// Send BGSAVE after this number of appends.
    #[arg(long)]
    save_after: Option<u64>,
    /// After this number of appends, kill the server by SIGKILL in the middle of the next pipeline, and end.
    #[arg(long)]
    kill_after: Option<u64>,
}

#[derive(Args)]
pub struct Verification {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    stream: Stream,
    /// Appends that were answered: the server must have them.
    #[arg(long)]
    acknowledged: u64,
    /// Appends that were sent: the server must have no others.
    #[arg(long)]
    sent: u64,
}

/// The keys of the appends, one after another.
struct Keys {
    /// The number of the next append.
    number: u64,
    made: u64,
    keys: u64,
    appends: u64,
}

impl Keys {
    fn new(stream: &Stream) -> Keys {
        Keys { number: 0, made: 0, keys: stream.keys, appends: stream.appends }
    }
}

impl Iterator for Keys {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let left = self.appends.checked_sub(self.number).filter(|&left| left > 0)?;
        let n = self.number;
        self.number += 1;
        if below(2 * n, left) < self.keys - self.made {
            self.made += 1;
            return Some(self.made - 1);
        }
        Some(below(2 * n + 1, self.made))
    }
}

fn key_bytes(key: u64) -> [u8; 8] {
    mix(key).to_le_bytes()
}

fn record(n: u64, key: u64) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&n.to_le_bytes());
    record[8..].copy_from_slice(&key.to_le_bytes());
    record
}

/// Counts integer replies by their line ends.
struct Replies {
    stream: TcpStream,
    room: Vec<u8>,
}

impl Replies {
    /// Reads once. Returns how many replies it completed; 0 if the server is gone.
    fn some(&mut self) -> Result<u64> {
        let count = match self.stream.read(&mut self.room) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => return Err(error.into()),
        };
        let room = &self.room[..count];
        if room.contains(&b'-') {
            return Err(format!("the server answered {}", room[..count.min(200)].escape_ascii()).into());
        }
        Ok(room.iter().filter(|&&byte| byte == b'\n').count() as u64)
    }
}

/// The measurements made while the server saved.
#[derive(Default)]
struct Save {
    since: Option<Instant>,
    seconds: f64,
    worst_window_s: f64,
}

pub fn load(load: &Load) -> Result<Value> {
    let (port, pid) = (load.target.port, load.target.pid);
    let mut asking = Asking::new(port)?;
    let stream = connect(port)?;
    let mut writer = stream.try_clone()?;
    let mut replies = Replies { stream, room: vec![0; 1 << 18] };
    let mut keys = Keys::new(&load.stream);
    let (mut sent, mut acknowledged) = (0, 0);
    let mut windows = Vec::new();
    let mut pipelines = Histogram::new();
    let mut save = Save::default();
    let (mut batch, mut next) = (Vec::new(), Vec::new());
    let mut count = fill(&mut batch, &mut keys, load.pipeline);
    let clock = Clock::start(&load.target)?;
    let mut window_since = Instant::now();
    while count > 0 {
        if load.kill_after.is_some_and(|after| sent >= after) {
            acknowledged += kill(pid, &mut writer, &batch, &mut replies)?;
            return Ok(json!({ "acknowledged": acknowledged, "sent": sent + count }));
        }
        let since = Instant::now();
        writer.write_all(&batch)?;
        sent += count;
        // Prepare the next batch while the server works.
        let next_count = fill(&mut next, &mut keys, load.pipeline);
        let mut left = count;
        while left > 0 {
            let ended = replies.some()?;
            if ended == 0 {
                return Err("the server closed the connection".into());
            }
            acknowledged += ended;
            left -= ended;
        }
        pipelines.add(since.elapsed().as_nanos() as u64);
        (batch, next, count) = (next, batch, next_count);
        if acknowledged % WINDOW < load.pipeline {
            let seconds = window_since.elapsed().as_secs_f64();
            windows.push(seconds);
            if let Some(since) = save.since {
                save.worst_window_s = save.worst_window_s.max(seconds);
                if asking.info("rdb_bgsave_in_progress")? == 0 {
                    save.seconds = since.elapsed().as_secs_f64();
                    save.since = None;
                }
            }
            if load.save_after.is_some_and(|after| acknowledged >= after) && save.seconds == 0.0 && save.since.is_none()
            {
                asking.ask(&["BGSAVE"])?;
                save.since = Some(Instant::now());
            }
            window_since = Instant::now();
        }
    }
    let elapsed = clock.stop()?;
    if load.kill_after.is_some() {
        return Err("all was appended before the kill: the kill comes too late".into());
    }
    if let Some(since) = save.since {
        while asking.info("rdb_bgsave_in_progress")? == 1 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        save.seconds = since.elapsed().as_secs_f64();
    }
    let len = asking.ask(&["DBSIZE"])?;
    if len != format!(":{}\r\n", load.stream.keys).into_bytes() {
        return Err(format!("{} keys, expected {}", len.escape_ascii(), load.stream.keys).into());
    }
    windows.sort_by(f64::total_cmp);
    let median = windows[windows.len() / 2];
    let worst = windows.last().copied().unwrap_or_default();
    let payload = load.stream.keys * 8 + load.stream.appends * RECORD_BYTES as u64;
    let resident = resident_bytes(pid)?;
    Ok(json!({
        "appends_per_s": load.stream.appends as f64 / elapsed.seconds,
        "window_median_per_s": WINDOW as f64 / median,
        "window_worst_per_s": WINDOW as f64 / worst,
        "worst_over_median": median / worst,
        "saving_worst_over_median": (save.worst_window_s > 0.0).then(|| median / save.worst_window_s),
        "save_s": save.seconds,
        "pipeline_median_ms": pipelines.quantile_us(0.5) / 1000.0,
        "pipeline_max_ms": pipelines.max_ns as f64 / 1e6,
        "overhead_bytes_per_key": (resident as f64 - payload as f64) / load.stream.keys as f64,
        "resident_bytes": resident,
        "server_us_per_append": 1e6 * elapsed.server_s / load.stream.appends as f64,
        "client_busy": elapsed.own_s / elapsed.seconds,
    }))
}

/// Kills the server while it executes a pipeline. Returns the replies that it sent.
fn kill(pid: u32, writer: &mut TcpStream, batch: &[u8], replies: &mut Replies) -> Result<u64> {
    let half = batch.len() / 2;
    writer.write_all(&batch[..half])?;
    let mut killing = std::process::Command::new("kill").args(["-9", &pid.to_string()]).spawn()?;
    let _ = writer.write_all(&batch[half..]); // it may be dead already
    let mut ended = 0;
    loop {
        match replies.some()? {
            0 => break,
            more => ended += more,
        }
    }
    if !killing.wait()?.success() {
        return Err(format!("process {pid} could not be killed").into());
    }
    Ok(ended)
}

/// Writes requests for the next `count` appends, or for all that remain if fewer. Returns how many.
fn fill(batch: &mut Vec<u8>, keys: &mut Keys, count: u64) -> u64 {
    batch.clear();
    let first = keys.number;
    while keys.number < first + count {
        let n = keys.number;
        let Some(key) = keys.next() else { break };
        resp(batch, &[b"APPEND", &key_bytes(key), &record(n, key)]);
    }
    keys.number - first
}

fn resident_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/PID/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

pub fn verify(verification: &Verification) -> Result<Value> {
    let Verification { target, stream, acknowledged, sent } = verification;
    // The key of each append that was sent.
    let owners: Vec<u32> = Keys::new(stream).take(*sent as usize).map(|key| key as u32).collect();
    let made = owners.iter().max().map_or(0, |&key| u64::from(key) + 1);
    let mut connection = connect(target.port)?;
    let (mut records, mut last) = (0u64, None);
    for first in (0..made).step_by(ASKED_AT_ONCE as usize) {
        let asked: Vec<u64> = (first..made.min(first + ASKED_AT_ONCE)).collect();
        let mut request = Vec::new();
        asked.iter().for_each(|&key| resp(&mut request, &[b"GET", &key_bytes(key)]));
        connection.write_all(&request)?;
        let mut input = Vec::new();
        let mut at = 0;
        for key in asked {
            let value = value(&mut connection, &mut input, &mut at)?;
            let mut before = None;
            if value.len() % RECORD_BYTES != 0 {
                return Err(format!("key {key}: a value of {} bytes", value.len()).into());
            }
            for bytes in value.chunks(RECORD_BYTES) {
                let n = u64::from_le_bytes(bytes[..8].try_into()?);
                if owners.get(n as usize) != Some(&(key as u32)) || bytes != record(n, key) || before >= Some(n) {
                    return Err(format!("key {key}: {} after {before:?}", bytes.escape_ascii()).into());
                }
                before = Some(n);
                records += 1;
            }
            last = last.max(before);
        }
    }
    // Each value's numbers ascend, so no record is there twice. If `records` is the last number + 1, none is missing.
    let prefix = last.map_or(0, |last| last + 1);
    if records != prefix {
        return Err(format!("{records} appends are there, and number {} is the last", prefix.saturating_sub(1)).into());
    }
    if prefix < *acknowledged {
        return Err(format!("{} acknowledged appends are lost", acknowledged - prefix).into());
    }
    Ok(json!({ "present": prefix, "acknowledged": acknowledged, "sent": sent }))
}

/// Returns the next bulk string of the replies that begin at `at`; empty if the key is absent.
fn value(connection: &mut TcpStream, input: &mut Vec<u8>, at: &mut usize) -> Result<Vec<u8>> {
    loop {
        let rest = &input[*at..];
        if let Some((len, present)) = crate::wire::Protocol::Resp.reply(rest)? {
            let reply = &rest[..len];
            let start = reply.iter().position(|&byte| byte == b'\n').map_or(len, |end| end + 1);
            let value = if present == 1 { reply[start..len - 2].to_vec() } else { Vec::new() };
            *at += len;
            return Ok(value);
        }
        let mut room = [0; 1 << 16];
        match connection.read(&mut room)? {
            0 => return Err("the server closed the connection".into()),
            count => input.extend_from_slice(&room[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_makes_all_keys_and_no_others() {
        let stream = Stream { keys: 1000, appends: 2700 };
        let keys: Vec<u64> = Keys::new(&stream).collect();
        assert_eq!(keys.len(), 2700);
        let mut made = 0;
        for key in keys {
            assert!(key <= made);
            made = made.max(key + 1);
        }
        assert_eq!(made, 1000);
    }

    #[test]
    fn batches_number_their_appends() {
        let mut keys = Keys::new(&Stream { keys: 100, appends: 270 });
        let (mut batch, mut n) = (Vec::new(), 0);
        let mut again = Keys::new(&Stream { keys: 100, appends: 270 });
        while fill(&mut batch, &mut keys, 64) > 0 {
            for request in batch.chunks(53) {
                assert_eq!(&request[35..51], record(n, again.next().unwrap()), "{}", request.escape_ascii());
                n += 1;
            }
        }
        assert_eq!(n, 270);
    }
}
