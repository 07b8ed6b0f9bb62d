//! Real processes: killed while working, out of disk space, several on one table.
//!
//! ```text
//! processes.rs             how a test starts a process of its own: this binary again, with a task
//! processes/killed.rs      kill -9 under load, and during the recovery from that
//! processes/dictionaries.rs   builds of dictionaries killed, and out of disk
//! processes/full_disk.rs   a file system, or a file, that takes no more
//! processes/lacking.rs     standard descriptors that are closed, file systems without locks, syncs or permissions
//! processes/lost_pages.rs  pages that the system cannot provide, and signals that are not the library's
//! processes/memory.rs      the memory that a table takes
//! processes/names.rs       links, renames and mounts of a table's file
//! processes/readers.rs     readers beside a writer: what they see and keep, stopped and killed
//! processes/sharing.rs     locks, readers beside a writer, places that may not be written to
//! processes/views.rs       views of readers beside writers that are killed and stopped
//! ```
//!
//! A process cannot simulate a power loss; the simulated disk does, in `src/table/tests/crash/`.

mod dictionaries;
mod full_disk;
mod killed;
mod lacking;
mod lost_pages;
#[cfg(target_os = "linux")]
mod memory;
mod names;
mod readers;
mod sharing;
mod views;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The variable that gives a child process its task: a name and arguments.
const TASK: &str = "SPLITPOINT_TASK";
/// The variable with the directory to work in.
const PLACE: &str = "SPLITPOINT_PLACE";

/// The tasks of child processes, by name; each gets a directory and the task's arguments.
type Task = fn(&Path, &[u64]);
const TASKS: &[(&str, Task)] = &[
    ("load", killed::load),
    ("build_dictionary", dictionaries::build),
    ("build_dictionary_under_a_limit", dictionaries::build_under_a_limit),
    ("build_dictionary_without_threads", dictionaries::build_without_threads),
    ("fill", full_disk::fill),
    ("fill_and_die", full_disk::fill_and_die),
    ("fill_under_a_limit", full_disk::fill_under_a_limit),
    ("back_up_under_a_limit", full_disk::back_up_under_a_limit),
    #[cfg(target_os = "linux")]
    ("use_without_descriptors", lacking::use_without_descriptors),
    #[cfg(target_os = "linux")]
    ("use_where_calls_fail", lacking::use_where_calls_fail),
    #[cfg(target_os = "linux")]
    ("use_without_locks", lacking::use_without_locks),
    #[cfg(target_os = "linux")]
    ("use_without_syncs", lacking::use_without_syncs),
    ("cut_log", lost_pages::cut_log),
    ("cut_table", lost_pages::cut_table),
    ("bus_error_elsewhere", lost_pages::bus_error_elsewhere),
    ("fill_copying_disk", lost_pages::fill_copying_disk),
    ("hold", sharing::hold),
    ("hold_by_name", names::hold),
    ("reload_elsewhere", names::reload_elsewhere),
    ("use_mounted", names::use_mounted),
    ("keep", readers::keep),
    ("put_in_turn", readers::put_in_turn),
    ("read", sharing::read),
    #[cfg(target_os = "linux")]
    ("store", memory::store),
    ("look", views::look),
    ("write", views::write),
];

/// Returns the arguments with which this binary runs a task.
fn task_arguments() -> [&'static str; 4] {
    ["--exact", "processes::a_process_of_its_own", "--ignored", "--nocapture"]
}

/// Adds a task to `command`, which runs this binary with [`task_arguments`].
fn with_task(command: &mut Command, task: &str, place: &Path, arguments: &[u64]) {
    let words: Vec<String> = arguments.iter().map(u64::to_string).collect();
    command.env(TASK, format!("{task} {}", words.join(" "))).env(PLACE, place);
    command.stdin(Stdio::null()).stdout(Stdio::null());
}

fn this_binary() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Prepares a process that runs a task, without starting it.
fn process(task: &str, place: &Path, arguments: &[u64]) -> Command {
    let mut command = Command::new(this_binary());
    command.args(task_arguments());
    with_task(&mut command, task, place, arguments);
    command
}

/// Runs `task` in a process for which the script `mount` has mounted something; `None` if mounting is impossible.
fn with_mounts(mount: &str, task: &str, place: &Path, arguments: &[u64]) -> Option<ExitStatus> {
    let unshare = |then: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &format!("{mount} && {then}")]);
        command.arg(this_binary()).args(task_arguments());
        with_task(&mut command, task, place, arguments);
        command
    };
    let tried = unshare("true").output();
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        let why =
            tried.map_or_else(|e| e.to_string(), |output| String::from_utf8_lossy(&output.stderr).trim().to_owned());
        eprintln!("SKIPPED: {task}, as nothing can be mounted here without being root: {why}");
        return None;
    }
    Some(unshare("exec \"$0\" \"$@\"").status().unwrap())
}

#[test]
#[ignore = "started by the tests beside it, with a task"]
fn a_process_of_its_own() {
    let Ok(words) = std::env::var(TASK) else { return };
    let mut words = words.split_whitespace();
    let name = words.next().unwrap();
    let arguments: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    TASKS.iter().find(|(task, _)| *task == name).unwrap().1(&place, &arguments);
}

/// A process that ends when the test ends, even by a panic.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.spawn().unwrap())
    }

    /// Kills it as `kill -9` does; returns its exit status if it had already ended.
    fn kill(mut self) -> Option<ExitStatus> {
        let ended = self.0.try_wait().unwrap();
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        ended
    }

    /// Waits until it ends.
    fn end(mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the process does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until it has created the file `path`.
    fn wait_for(&mut self, path: &Path) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !path.exists() {
            assert_eq!(self.0.try_wait().unwrap(), None, "the process ended");
            assert!(Instant::now() < deadline, "the process did not come to {}", path.display());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
