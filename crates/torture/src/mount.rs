//! File systems on a recording disk, and their requirements: root, FUSE, loop devices, the programs that make them.
//!
//! Mounts are made in our own mount namespace, so they and the loop devices end with it, however the run ends. A parent
//! process that waits for the working one keeps the namespace: a disk must be gone before its mounts are finally
//! unmounted, or the kernel waits for the dead disk.

use crate::disk::Disk;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::SigSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
}

pub const FILE_SYSTEMS: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        })
    }
}

impl FileSystem {
    pub fn named(name: &str) -> Option<FileSystem> {
        FILE_SYSTEMS.into_iter().find(|f| f.to_string() == name)
    }

    /// Close to the smallest disk that its mkfs accepts with default features; blocks never written take no memory.
    pub fn disk_bytes(self) -> u64 {
        match self {
            FileSystem::Ext4 => 64 << 20,
            FileSystem::Xfs => 320 << 20,
            FileSystem::Btrfs => 256 << 20,
        }
    }

    fn mkfs(self) -> &'static [&'static str] {
        // Nothing is deferred until after the first mount, and nothing is discarded: the disk does not support that
        // call.
        match self {
            FileSystem::Ext4 => &["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
            FileSystem::Xfs => &["mkfs.xfs", "-q", "-f", "-K"],
            FileSystem::Btrfs => &["mkfs.btrfs", "-q", "-f", "-K"],
        }
    }

    /// Makes an empty file system on the disk.
    pub fn make(self, disk: &Disk) -> Result<(), String> {
        let (program, arguments) = self.mkfs().split_first().expect("a program's name");
        run(Command::new(program).args(arguments).arg(&disk.path))
    }

    /// Returns why this file system is unavailable here; `None` if it is available.
    pub fn lacks(self) -> Option<String> {
        let program = self.mkfs()[0];
        if Command::new(program).arg("-V").output().is_err() {
            return Some(format!("{program} is not installed"));
        }
        // The kernel lists a module's file system only once the module is loaded.
        let _ = Command::new("modprobe").args(["-q", &self.to_string()]).output();
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let is_known = known.lines().any(|line| line.trim() == self.to_string());
        (!is_known).then(|| format!("the kernel has no {self}"))
    }
}

/// A mounted file system of a recording disk; unmounted when dropped.
pub struct Mounted {
    pub folder: PathBuf,
}

impl Mounted {
    pub fn mount(file_system: FileSystem, disk: &Disk, folder: &Path) -> Result<Mounted, String> {
        let kind = file_system.to_string();
        run(Command::new("mount").args(["-t", &kind, "-o", "loop,nodiscard"]).args([&disk.path, folder]))?;
        Ok(Mounted { folder: folder.to_owned() })
    }

    pub fn unmount(self) -> Result<(), String> {
        let unmounted = self.try_unmount();
        std::mem::forget(self);
        unmounted
    }

    fn try_unmount(&self) -> Result<(), String> {
        let patience = Instant::now() + Duration::from_secs(10);
        loop {
            match umount2(&self.folder, MntFlags::empty()) {
                Ok(()) => return Ok(()),
                Err(e) if Instant::now() > patience => return Err(format!("umount {}: {e}", self.folder.display())),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.try_unmount().is_err() {
            let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{name}: {}: {}", output.status, said.trim())) }
}

/// Runs this program with `arguments` in its own mount namespace and returns whether it succeeded. An error names what
/// the machine lacks.
pub fn run_apart(arguments: &[&str]) -> Result<bool, String> {
    prepare()?;
    // Only the child gets a terminal's signals: this process ends after it.
    SigSet::all().thread_block().map_err(|e| e.to_string())?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let ended = Command::new(program).args(arguments).status().map_err(|e| e.to_string())?;
    Ok(ended.success())
}

fn prepare() -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("only root may mount file systems".into());
    }
    if std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        return Err("there is no /dev/fuse (modprobe fuse)".into());
    }
    let _ = Command::new("modprobe").args(["-q", "loop"]).output();
    if !Path::new("/dev/loop-control").exists() {
        return Err("there are no loop devices (modprobe loop)".into());
    }
    unshare(CloneFlags::CLONE_NEWNS).map_err(|e| format!("no mount namespace of our own: {e}"))?;
    let nothing: Option<&str> = None;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)
        .map_err(|e| format!("no private mounts: {e}"))
}
