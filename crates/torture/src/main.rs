//! `make power` checks a table, backups and dictionaries after a power loss on a real file system; `make faults` checks
//! the answers when single system calls fail. docs/testing.md has the requirements and the findings.
//!
//! ```text
//! power    disk.rs, crash.rs, mount.rs: the recording disk, what a crash leaves of it, file systems on it
//!          workload.rs, look.rs: processes that work and look; changes.rs, history.rs: what they may find
//! faults   tracer.rs: a call that fails; steps.rs: the process whose calls they are; faults.rs: what it may answer
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic if a write fails

/// Writes a line to standard output. Drops it if the write fails: the exit status has the result.
macro_rules! say {
    ($($line:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($line)*);
    }};
}

#[cfg(target_os = "linux")]
mod changes;
#[cfg(target_os = "linux")]
mod crash;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(target_os = "linux")]
mod history;
#[cfg(target_os = "linux")]
mod look;
#[cfg(target_os = "linux")]
mod mount;
#[cfg(target_os = "linux")]
mod power;
#[cfg(target_os = "linux")]
mod steps;
#[cfg(target_os = "linux")]
mod tracer;
#[cfg(target_os = "linux")]
mod workload;

#[cfg(not(target_os = "linux"))]
fn main() {
    say!("SKIPPED: power losses and failing calls, which take Linux");
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match linux::run(&arguments) {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(why) => {
            // Dropped if it cannot be written, like the lines on standard output.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{why}\n").as_bytes());
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::{faults, history, look, mount, power, steps, workload};
    use std::path::PathBuf;

    const USAGE: &str = "usage: splitpoint-torture power [SECONDS [SEED [ext4,xfs,btrfs]]] | again FOLDER\n       \
         splitpoint-torture faults [SECONDS [SEED [CASE]]]";

    /// The default length of a run.
    const SECONDS: u64 = 300;

    pub fn run(arguments: &[&str]) -> Result<bool, String> {
        match arguments {
            ["power", rest @ ..] => mount::run_apart(&[&["power-inside"], rest].concat()).or_else(|why| {
                say!("SKIPPED: power loss on real file systems, as {why}");
                Ok(true)
            }),
            ["again", folder] => mount::run_apart(&["again-inside", folder]),
            // The children of the commands above.
            ["power-inside", rest @ ..] => {
                let file_systems = power::file_systems(rest.get(2).copied().unwrap_or(""))?;
                let (seconds, seed) = (number(rest.first(), SECONDS)?, number(rest.get(1), any_seed())?);
                // In cargo's target directory, two levels above this program.
                let program = std::env::current_exe().map_err(|e| e.to_string())?;
                let kept = program.ancestors().nth(2).unwrap_or(&program).join("power");
                power::run(&power::Options { seconds, seed, file_systems, kept })
            }
            ["faults", rest @ ..] => {
                let (seconds, seed) = (number(rest.first(), SECONDS)?, number(rest.get(1), any_seed())?);
                faults::run(&faults::Options {
                    seconds,
                    seed,
                    only: rest.get(2).filter(|case| !case.is_empty()).map(|case| (*case).to_owned()),
                })
            }
            ["steps", folder, scenario] => steps::run(folder.as_ref(), scenario).map(|()| true),
            ["again-inside", folder] => power::again(folder.as_ref()),
            ["work", folder, counter, path, seed, durability, operations] => {
                let durability = history::durability_named(durability).ok_or(USAGE)?;
                let (seed, operations) = (number(Some(seed), 0)?, number(Some(operations), 0)? as usize);
                let (folder, counter) = (folder.into(), counter.into());
                let work = workload::Work { folder, counter, seed, durability, operations };
                let history = work.run().map_err(|e| e.to_string())?;
                history.save(path.as_ref()).map_err(|e| e.to_string())?;
                Ok(true)
            }
            ["look", folder, counter, history, event, rest @ ..] => {
                let crash = look::Crash { history: history.into(), event: number(Some(event), 0)? };
                let mut look =
                    look::Look { folder: folder.into(), counter: counter.into(), crash, second: None, further: None };
                match rest {
                    [] => {}
                    ["-", further] => look.further = Some(PathBuf::from(further)),
                    [history, event, found] => {
                        let crash = look::Crash { history: history.into(), event: number(Some(event), 0)? };
                        look.second = Some((crash, power::numbers(found).ok_or(USAGE)?));
                    }
                    _ => return Err(USAGE.into()),
                }
                let found = look.run()?;
                say!("{}", found.iter().map(usize::to_string).collect::<Vec<_>>().join(","));
                Ok(true)
            }
            _ => Err(USAGE.into()),
        }
    }

    /// Returns a different seed each time; it is printed.
    fn any_seed() -> u64 {
        std::time::UNIX_EPOCH.elapsed().map_or(1, |elapsed| elapsed.as_secs() % 1_000_000)
    }

    /// Parses an argument; returns `otherwise` if it is absent or empty.
    fn number(text: Option<&&str>, otherwise: u64) -> Result<u64, String> {
        text.filter(|text| !text.is_empty())
            .map_or(Ok(otherwise), |text| text.parse().map_err(|_| format!("{text}: expected a number")))
    }
}
