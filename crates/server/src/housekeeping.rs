//! Periodic work on a thread of its own: it advances the coarse clock, sweeps expired keys, evicts what a lowered limit
//! leaves no room for, closes idle connections and shrinks files.

use crate::command::blocking;
use crate::keyspace::{Patience, SweepCursor};
use crate::server::Server;
use std::sync::Weak;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(100);
/// Keys that the sweep checks in one step, and how long it may continue in one tick if many had expired: a quarter of
/// one processor.
const SWEPT_AT_ONCE: usize = 2000;
const SWEEP_TIME: Duration = Duration::from_millis(25);
/// How long it may evict in one tick; writes evict, too.
const EVICTION_TIME: Duration = Duration::from_millis(50);

/// Starts the thread. It ends when the server is gone.
///
/// # Errors
/// Returns the errors of starting a thread.
pub(crate) fn start(server: Weak<Server>) -> std::io::Result<()> {
    let run = move || {
        let mut cursor = SweepCursor::default();
        let mut ticks = 0u64;
        loop {
            std::thread::sleep(TICK);
            let Some(server) = server.upgrade() else { return };
            server.space.note_disk_reads();
            sweep(&server, &mut cursor);
            evict(&server);
            if let Some(mut alone) = server.memcached.flush_if_due(&server.space) {
                blocking::serve(&server, &mut alone);
            }
            server.compact_cleared();
            ticks += 1;
            if ticks.is_multiple_of(10) {
                each_second(&server);
            }
            if ticks.is_multiple_of(50) {
                server.space.retry_full_disk();
            }
        }
    };
    std::thread::Builder::new().name("housekeeping".into()).spawn(run).map(drop)
}

fn sweep(server: &Server, cursor: &mut SweepCursor) {
    let since = Instant::now();
    match server.space.sweep(cursor, SWEPT_AT_ONCE, || since.elapsed() < SWEEP_TIME) {
        Err(error) => tracing::warn!(%error, "sweep of expired keys"),
        Ok(swept) if swept.removed > 0 => serve_waiting(server),
        Ok(_) => {}
    }
    if let Err(error) = server.space.sweep_segments(|| since.elapsed() < SWEEP_TIME) {
        tracing::warn!(%error, "sweep of removed collections");
    }
}

fn evict(server: &Server) {
    let since = Instant::now();
    let evicted = || server.space.events.evicted.load(Relaxed);
    let before = evicted();
    if let Err(error) = server.space.evict_excess(|| since.elapsed() < EVICTION_TIME) {
        tracing::warn!(%error, "eviction");
    }
    // Also by an eviction that freed too little, and then failed.
    if evicted() > before {
        serve_waiting(server);
    }
}

/// Answers consumers that wait for a stream that is gone.
fn serve_waiting(server: &Server) {
    if server.space.wanted_keys.load(Relaxed) > 0
        && let Some(mut alone) = server.space.close(Patience::MayWait)
    {
        alone.note_all_wanted();
        blocking::serve(server, &mut alone);
    }
}

fn each_second(server: &Server) {
    let now_s = server.started.elapsed().as_secs();
    server.clock_s.store(now_s, Relaxed);
    server.note_memory_peak(server.space.used_bytes());
    server.notices.settle(&server.space);
    let Some(idle) = server.settings.idle() else { return };
    for client in server.clients.all() {
        // A reply being sent is never cut off here, however long it takes; `Settings::stalled_s` is for that.
        let waits = client.subscriptions() > 0 || client.monitors.load(Relaxed);
        let is_idle = !client.busy.load(Relaxed) && !waits;
        let active_s = client.active_s.load(Relaxed);
        if is_idle && now_s.saturating_sub(active_s) > idle.as_secs() {
            tracing::debug!(client = client.id, "closed: idle");
            server.clients.idle_closed.fetch_add(1, Relaxed);
            client.kill();
        }
    }
}
