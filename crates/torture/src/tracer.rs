//! Runs a program under `ptrace`, counts the system calls of all its threads, and makes one of them fail.
//!
//! `strace --inject` counts calls per thread, so its third call is one call in each thread; here it is a single call.
//! The failing call is not made (except `close`, which the kernel always executes), and the program gets the error.

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The way in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Error(Errno),
    /// Half of the bytes are read or written: not a failure, but a result that callers may not handle.
    Short,
}

/// The call that is to fail: the `nth` of a kind, from 1.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub call: i64,
    pub nth: u64,
    pub fault: Fault,
}

/// How the program ended, and how many calls of each kind it made.
pub struct Traced {
    pub counts: BTreeMap<i64, u64>,
    /// `None`: it exited with success.
    pub died: Option<String>,
}

type Registers = libc::user_regs_struct;

/// Traces `child` to its end. The child has to wait for input, which `start` sends. Sets `is_done` when the call has
/// failed.
pub fn trace(child: &Child, target: Option<Target>, is_done: &AtomicBool, start: impl FnOnce()) -> nix::Result<Traced> {
    let pid = Pid::from_raw(child.id() as i32);
    ptrace::seize(pid, ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_TRACECLONE)?;
    ptrace::interrupt(pid)?;
    let mut traced = Traced { counts: BTreeMap::new(), died: None };
    // For each thread in a call: the result that we replace, if any.
    let mut in_call: HashMap<Pid, Option<i64>> = HashMap::new();
    let (mut start, mut has_begun) = (Some(start), false);
    loop {
        // Only this thread's children: other threads trace theirs.
        let status = match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
            Err(Errno::EINTR) => continue,
            other => other?,
        };
        let resumed = match status {
            WaitStatus::Exited(thread, code) if thread == pid => {
                traced.died = (code != 0).then(|| format!("exit status {code}"));
                return Ok(traced);
            }
            WaitStatus::Signaled(thread, signal, _) if thread == pid => {
                traced.died = Some(format!("killed by {signal}"));
                return Ok(traced);
            }
            WaitStatus::PtraceSyscall(thread) => {
                let handled = match in_call.remove(&thread) {
                    None => enter(thread, target, &mut traced.counts, &mut has_begun, is_done).map(|answer| {
                        in_call.insert(thread, answer);
                    }),
                    Some(answer) => leave(thread, answer),
                };
                handled.and_then(|()| ptrace::syscall(thread, None))
            }
            WaitStatus::PtraceEvent(thread, ..) => {
                let resumed = ptrace::syscall(thread, None);
                if let Some(start) = start.take() {
                    start();
                }
                resumed
            }
            WaitStatus::Stopped(thread, signal) => {
                ptrace::syscall(thread, (signal != Signal::SIGTRAP).then_some(signal))
            }
            WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) => {
                in_call.remove(&thread);
                Ok(())
            }
            _ => Ok(()),
        };
        match resumed {
            // ESRCH: the thread was killed in the call.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(e) => {
                let _ = kill(pid, Signal::SIGKILL);
                return Err(e);
            }
        }
    }
}

/// Handles the start of a call. Returns the result that is to replace the call's, if any.
fn enter(
    thread: Pid,
    target: Option<Target>,
    counts: &mut BTreeMap<i64, u64>,
    has_begun: &mut bool,
    is_done: &AtomicBool,
) -> nix::Result<Option<i64>> {
    let mut registers = ptrace::getregs(thread)?;
    let call = registers.orig_rax as i64;
    // Calls before the program reads its input are the loader's.
    *has_begun |= call == libc::SYS_read && registers.rdi == 0;
    if !*has_begun || !may_fail(thread, call, &registers) {
        return Ok(None);
    }
    let count = counts.entry(call).or_default();
    *count += 1;
    let Some(target) = target.filter(|t| t.call == call && t.nth == *count) else { return Ok(None) };
    is_done.store(true, SeqCst);
    match target.fault {
        Fault::Error(errno) => {
            if call != libc::SYS_close {
                registers.orig_rax = u64::MAX; // an invalid call number
                ptrace::setregs(thread, registers)?;
            }
            Ok(Some(-i64::from(errno as i32)))
        }
        Fault::Short => {
            registers.rdx = registers.rdx.div_ceil(2);
            ptrace::setregs(thread, registers)?;
            Ok(None)
        }
    }
}

fn leave(thread: Pid, answer: Option<i64>) -> nix::Result<()> {
    let Some(answer) = answer else { return Ok(()) };
    let mut registers = ptrace::getregs(thread)?;
    registers.rax = answer as u64;
    ptrace::setregs(thread, registers)
}

/// Returns whether the call can fail on real machines and is made by the library.
fn may_fail(thread: Pid, call: i64, registers: &Registers) -> bool {
    match call {
        // The program's own input and output.
        libc::SYS_read | libc::SYS_write => registers.rdi > 2,
        // Memory for Rust's allocator and for the stacks of its signal handlers: without it the program ends. Callers
        // handle failures of reservations, files and stacks of threads.
        libc::SYS_mmap => {
            const THREAD_STACK_MIN: u64 = 1 << 16;
            let flags = registers.r10 as i32;
            let is_stack = flags & libc::MAP_STACK != 0 && registers.rsi >= THREAD_STACK_MIN;
            flags & libc::MAP_ANONYMOUS == 0 || flags & libc::MAP_NORESERVE != 0 || is_stack
        }
        // Rust asserts that closing a directory's descriptor succeeds.
        libc::SYS_close => !std::fs::metadata(format!("/proc/{thread}/fd/{}", registers.rdi)).is_ok_and(|m| m.is_dir()),
        _ => kind(call).is_some(),
    }
}

/// Returns the name of a call that may fail, and the ways in which it may.
pub fn kind(call: i64) -> Option<(&'static str, &'static [Fault])> {
    use Errno::*;
    use Fault::*;
    Some(match call {
        libc::SYS_openat => ("openat", &[Error(EMFILE), Error(EIO), Error(ENOSPC)]),
        libc::SYS_read => ("read", &[Error(EIO), Error(EINTR)]),
        libc::SYS_pread64 => ("pread64", &[Error(EIO), Error(EINTR), Short]),
        libc::SYS_write => ("write", &[Error(EIO), Error(ENOSPC), Error(EINTR)]),
        libc::SYS_pwrite64 => ("pwrite64", &[Error(EIO), Error(ENOSPC), Error(EINTR), Short]),
        libc::SYS_fsync => ("fsync", &[Error(EIO), Error(ENOSPC), Error(EINTR)]),
        libc::SYS_fdatasync => ("fdatasync", &[Error(EIO), Error(ENOSPC), Error(EINTR)]),
        libc::SYS_ftruncate => ("ftruncate", &[Error(EIO), Error(ENOSPC), Error(EINTR)]),
        libc::SYS_fallocate => ("fallocate", &[Error(EIO), Error(ENOSPC), Error(EOPNOTSUPP), Error(EINTR)]),
        libc::SYS_rename => ("rename", &[Error(EIO), Error(ENOSPC)]),
        libc::SYS_renameat => ("renameat", &[Error(EIO), Error(ENOSPC)]),
        libc::SYS_renameat2 => ("renameat2", &[Error(EIO), Error(ENOSPC)]),
        libc::SYS_unlink => ("unlink", &[Error(EIO), Error(EACCES)]),
        libc::SYS_unlinkat => ("unlinkat", &[Error(EIO), Error(EACCES)]),
        libc::SYS_mkdir => ("mkdir", &[Error(EIO), Error(ENOSPC)]),
        libc::SYS_mmap => ("mmap", &[Error(ENOMEM)]),
        libc::SYS_madvise => ("madvise", &[Error(ENOMEM), Error(EFAULT)]),
        libc::SYS_flock => ("flock", &[Error(EINTR), Error(ENOLCK), Error(EAGAIN)]),
        libc::SYS_fstat => ("fstat", &[Error(EIO)]),
        libc::SYS_newfstatat => ("newfstatat", &[Error(EIO)]),
        libc::SYS_statx => ("statx", &[Error(EIO)]),
        libc::SYS_getdents64 => ("getdents64", &[Error(EIO)]),
        libc::SYS_fchmod => ("fchmod", &[Error(EIO), Error(EPERM)]),
        libc::SYS_fcntl => ("fcntl", &[Error(EIO)]),
        libc::SYS_lseek => ("lseek", &[Error(EIO)]),
        libc::SYS_ioctl => ("ioctl", &[Error(EIO)]),
        libc::SYS_close => ("close", &[Error(EIO)]),
        libc::SYS_clone => ("clone", &[Error(EAGAIN)]),
        libc::SYS_clone3 => ("clone3", &[Error(EAGAIN)]),
        _ => return None,
    })
}
