//! A synthetic load of processes for the tables that the paper names but does not measure: swap cache, processes,
//! users, memory areas.
//!
//! Users log in and run commands, one process each. Processes get ascending numbers, are looked up by number a few
//! times (`setpgid`, `kill`), and end. Each fork looks up the user; mail for other users briefly adds users. A process
//! maps a program and its libraries, and faults look up the area of an address, often the last one. Anonymous pages
//! exceed memory: pages that were swapped out are read back in clusters through the swap cache.
//!
//! The same seed and number of scripts produce the same streams. The numbers below are our choice: the paper has no
//! such load.
//! Source: Linux 2.2, kernel/fork.c (`uidhash`, `get_pid`), mm/mmap.c (`find_vma`), mm/swap_state.c, mm/swapfile.c.

use super::functions::{PAGE_SHIFT, PageKey};
use super::memory::{self, Kind};
use super::table::{Action, NONE, Op, Stream};
use super::{Proceed, Stopped};
use crate::random::Random;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Commands that a user runs.
const COMMANDS: usize = 120;
/// Processes at the start, such as daemons.
const DAEMONS: usize = 40;
/// The first number of an ordinary user.
const USER_MIN: u32 = 500;
/// Users with mail who are not logged in.
const MAILBOXES: u64 = 2000;
/// The largest process number plus one; then numbers start again at 300 (`get_pid`).
const PID_MAX: u32 = 32_768;
const PID_RESTART: u32 = 300;
/// Areas of a process: a small program has about 12, one with many libraries 60.
const AREAS: std::ops::Range<u64> = 12..60;
/// Page faults of a process.
const FAULTS: u64 = 200;
/// One fault in this many chooses an area anew.
const AREA_CHANGES: u64 = 3;
/// Swap slots that are read together.
const CLUSTER: u32 = 16;
/// Swap accesses of a command.
const SWAPS: u64 = 40;
/// Anonymous pages of a user, of which [`RESIDENT`] are in the swap cache.
const ANONYMOUS: u32 = 256;
const RESIDENT: u32 = 96;
/// Two swap partitions of equal priority, as on the paper's smaller machine: slots alternate between them.
const SWAP_DEVICES: u32 = 2;

/// The operations of four tables.
#[derive(Clone, Debug, Default)]
pub struct ProcessStreams {
    /// The swap cache: the page cache's table with one inode, and swap entries for offsets.
    pub swap: Stream<PageKey>,
    /// Processes by number.
    pub processes: Stream<u32>,
    /// Users by number.
    pub users: Stream<u32>,
    /// Areas of memory: the owner is the process, the offset the area's address.
    pub areas: Stream<PageKey>,
}

/// A set of keys with slots, which records its operations.
struct Recorder<K> {
    slots: HashMap<K, u32>,
    free: Vec<u32>,
    stream: Stream<K>,
}

impl<K: Copy + Eq + Hash> Recorder<K> {
    fn new() -> Self {
        Self { slots: HashMap::new(), free: Vec::new(), stream: Stream::default() }
    }

    fn find(&mut self, key: K) -> bool {
        let slot = self.slots.get(&key).copied().unwrap_or(NONE);
        self.stream.ops.push(Op { action: Action::Find, slot, key });
        slot != NONE
    }

    fn insert(&mut self, key: K) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.stream.slots += 1;
            u32::try_from(self.stream.slots - 1).expect("fewer objects than operations")
        });
        self.slots.insert(key, slot);
        self.stream.ops.push(Op { action: Action::Insert, slot, key });
    }

    fn remove(&mut self, key: K) {
        let slot = self.slots.remove(&key).expect("only present keys are removed");
        self.free.push(slot);
        self.stream.ops.push(Op { action: Action::Remove, slot, key });
    }

    /// Marks the end of the load; later operations clean up.
    fn mark(&mut self) {
        self.stream.mark = self.stream.ops.len();
    }
}

struct World {
    random: Random,
    processes: Recorder<u32>,
    users: Recorder<u32>,
    /// Processes per user, of the users that have any.
    counts: HashMap<u32, u32>,
    areas: Recorder<PageKey>,
    swap: Recorder<PageKey>,
    /// Cached swap entries, oldest first.
    resident: VecDeque<PageKey>,
    last_pid: u32,
}

/// Generates the load of `scripts` users.
///
/// # Errors
/// [`Stopped`] if `proceed` returned `Break`.
pub fn load(scripts: usize, seed: u64, proceed: Proceed<'_>) -> Result<ProcessStreams, Stopped> {
    let mut world = World {
        random: Random::new(seed),
        processes: Recorder::new(),
        users: Recorder::new(),
        counts: HashMap::new(),
        areas: Recorder::new(),
        swap: Recorder::new(),
        resident: VecDeque::new(),
        last_pid: 0,
    };
    for _ in 0..DAEMONS {
        world.fork(0);
    }
    let scripts = u32::try_from(scripts.max(1)).unwrap_or(u32::MAX);
    let shells: Vec<u32> = (0..scripts).map(|user| world.fork(USER_MIN + user)).collect();
    for round in 1..=COMMANDS {
        if proceed().is_break() {
            return Err(Stopped);
        }
        // The commands of all users run simultaneously, so their processes are in the tables together.
        let running: Vec<(u32, u32)> =
            (0..scripts).map(|user| (USER_MIN + user, world.fork(USER_MIN + user))).collect();
        let commands = shells.iter().zip(&running);
        let areas: Vec<_> = commands.map(|(shell, (_, command))| world.command(*shell, *command)).collect();
        (0..scripts / 8).for_each(|_| world.mail());
        (0..u64::from(scripts) * SWAPS).for_each(|_| world.access(scripts * ANONYMOUS, scripts * RESIDENT));
        if round == COMMANDS {
            world.mark();
        }
        for ((user, command), areas) in running.into_iter().zip(areas) {
            areas.into_iter().for_each(|area| world.areas.remove(area));
            world.exit(user, command);
        }
    }
    Ok(ProcessStreams {
        swap: world.swap.stream,
        processes: world.processes.stream,
        users: world.users.stream,
        areas: world.areas.stream,
    })
}

impl World {
    fn mark(&mut self) {
        self.swap.mark();
        self.processes.mark();
        self.users.mark();
        self.areas.mark();
    }

    /// Starts a process of `user`. Returns its number.
    fn fork(&mut self, user: u32) -> u32 {
        if !self.users.find(user) {
            self.users.insert(user);
        }
        *self.counts.entry(user).or_default() += 1;
        loop {
            self.last_pid += 1;
            if self.last_pid >= PID_MAX {
                self.last_pid = PID_RESTART;
            }
            if !self.processes.slots.contains_key(&self.last_pid) {
                self.processes.insert(self.last_pid);
                return self.last_pid;
            }
        }
    }

    /// Makes the lookups of a command. It and its shell set its process group; an occasional signal goes to a process,
    /// which may have ended; there are page faults. Returns its memory areas.
    fn command(&mut self, shell: u32, command: u32) -> Vec<PageKey> {
        for pid in [command, command, shell] {
            self.processes.find(pid);
        }
        if self.random.below(4) == 0 {
            let back = self.random.below(500) as u32;
            self.processes.find(command.saturating_sub(back).max(1));
        }
        let count = AREAS.start + self.random.below(AREAS.end - AREAS.start);
        let key = |area: u64| {
            // The program is at low addresses, the libraries from 1 GiB on, the stack at the top.
            let page = match area {
                0..3 => 0x8048 + 0x40 * area as u32,
                area if area + 1 == count => 0xB_FFFE,
                area => 0x4_0000 + 0x20 * area as u32,
            };
            PageKey { inode: memory::address(Kind::Inode, command), offset: page << PAGE_SHIFT, owner: command }
        };
        (0..count).for_each(|area| self.areas.insert(key(area)));
        let mut area = 0;
        for _ in 0..FAULTS {
            if self.random.below(AREA_CHANGES) == 0 {
                area = self.random.below(count);
            }
            self.areas.find(key(area));
        }
        (0..count).map(key).collect()
    }

    /// Runs a process that delivers mail as the recipient, and ends.
    fn mail(&mut self) {
        let user = USER_MIN + self.random.below(MAILBOXES) as u32;
        let pid = self.fork(user);
        self.exit(user, pid);
    }

    fn exit(&mut self, user: u32, pid: u32) {
        self.processes.remove(pid);
        let count = self.counts.get_mut(&user).expect("a process has a user");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&user);
            self.users.remove(user);
        }
    }

    /// An access to one of `pages` anonymous pages; small numbers are more frequent. A page that is not cached is read
    /// together with its cluster.
    fn access(&mut self, pages: u32, resident: u32) {
        let (a, b) = (self.random.below(pages.into()), self.random.below(pages.into()));
        let page = (a * b / u64::from(pages)) as u32;
        if self.swap.find(swap_key(page)) {
            // A written page leaves the cache, because its slot is out of date.
            if self.random.below(4) == 0 {
                self.drop_swap(swap_key(page));
            }
            return;
        }
        let first = page / (CLUSTER * SWAP_DEVICES) * (CLUSTER * SWAP_DEVICES) + page % SWAP_DEVICES;
        for next in (first..).step_by(SWAP_DEVICES as usize).take(CLUSTER as usize).filter(|next| *next < pages) {
            let key = swap_key(next);
            if self.swap.find(key) {
                continue;
            }
            while self.swap.slots.len() >= resident as usize {
                let Some(oldest) = self.resident.pop_front() else { break };
                if self.swap.slots.contains_key(&oldest) {
                    self.swap.remove(oldest);
                }
            }
            self.swap.insert(key);
            self.resident.push_back(key);
        }
    }

    fn drop_swap(&mut self, key: PageKey) {
        self.swap.remove(key);
        self.resident.retain(|known| *known != key);
    }
}

/// Returns the key of an anonymous page in the swap cache: the swapper's inode, and the swap entry, which has the
/// device from bit 1 on and the slot from bit 8 on (i386, `SWP_ENTRY`).
fn swap_key(page: u32) -> PageKey {
    let (device, slot) = (page % SWAP_DEVICES, page / SWAP_DEVICES + 1);
    PageKey { inode: memory::SWAPPER_INODE, offset: device << 1 | slot << 8, owner: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::check_against_a_map;
    use std::ops::ControlFlow;

    #[test]
    fn streams_agree_with_a_map_and_repeat() {
        let streams = load(8, 1, &|| ControlFlow::Continue(())).unwrap();
        assert!(check_against_a_map(&streams.processes) >= DAEMONS + 16);
        // Root, eight users, and perhaps one with mail: users without processes leave.
        assert!((9..=10).contains(&check_against_a_map(&streams.users)));
        assert!(check_against_a_map(&streams.areas) >= AREAS.start as usize);
        assert_eq!(check_against_a_map(&streams.swap), 8 * RESIDENT as usize);
        let again = load(8, 1, &|| ControlFlow::Continue(())).unwrap();
        assert!(streams.swap.ops == again.swap.ops && streams.users.ops == again.users.ops);
        assert!(load(8, 2, &|| ControlFlow::Continue(())).unwrap().areas.ops != streams.areas.ops);
    }

    #[test]
    fn swap_entries_have_the_device_in_bit_1_and_the_slot_from_bit_8() {
        assert_eq!([0, 1, 2, 3].map(|page| swap_key(page).offset), [0x100, 0x102, 0x200, 0x202]);
    }
}
