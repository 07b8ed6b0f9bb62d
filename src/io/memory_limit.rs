//! The memory that this process may use: it determines a cache by default, and mappings that only make access faster.
//!
//! The smallest of the machine's memory, that of the process's control groups (a container, a service), and its own
//! limits (`ulimit -v`, `ulimit -d`). The groups are found as the kernel reports them, of versions 1 and 2:
//!
//! ```text
//! /proc/self/cgroup       0::/system.slice/web.service       4:memory:/docker/1f
//! /proc/self/mountinfo    the file system's root of groups   and where it is mounted
//! MOUNTED/GROUP           memory.max, memory.high            memory.limit_in_bytes    of the group and those around it
//! ```
//!
//! Not here: the system calls (`limits.rs`), the size of the cache (`table/open.rs`).
#![expect(clippy::disallowed_methods, reason = "the seam: the kernel's files, which no test's disk has")]

use super::limits::{Limited, limit, machine_memory_bytes};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes of memory that this process may use.
pub(super) fn memory_bytes() -> u64 {
    machine_memory_bytes().min(limited_bytes())
}

/// Bytes that a table's cache or the build of a dictionary takes at most by default: half of the machine's memory, or a
/// quarter of what this process is limited to. A process in a container may do several such things at a time.
pub(crate) fn memory_share_bytes() -> u64 {
    (machine_memory_bytes() / 2).min(limited_bytes() / 4)
}

/// The limits of this process; `u64::MAX` without any.
fn limited_bytes() -> u64 {
    // Read once: that takes as long as an open of a small table.
    static OF_GROUPS: OnceLock<u64> = OnceLock::new();
    let of_groups = *OF_GROUPS.get_or_init(|| of_groups(Path::new("/")).unwrap_or(u64::MAX));
    of_groups.min(limit(Limited::Data)).min(limit(Limited::Addresses))
}

/// The maximum length of a mapping that only makes access faster: other uses of scarce address space are more
/// important.
pub(crate) fn spare_mapping_bytes() -> u64 {
    const SHARE: u64 = 8;
    match limit(Limited::Addresses) {
        u64::MAX => u64::MAX,
        bytes => bytes / SHARE,
    }
}

/// The smallest limit of the control groups that this process is in. `root` is the directory of `proc`, `/` except in
/// tests.
fn of_groups(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    groups.lines().filter_map(|group| of_group(root, group, &mounts)).min()
}

/// The smallest limit of the group that a line of `/proc/self/cgroup` names, and of the groups around it.
fn of_group(root: &Path, line: &str, mounts: &[Mount]) -> Option<u64> {
    let (_, line) = line.split_once(':')?;
    let (controllers, group) = line.split_once(':')?;
    let (unified, files): (bool, &[&str]) = match controllers {
        "" => (true, &["memory.max", "memory.high"]),
        _ if controllers.split(',').any(|controller| controller == "memory") => (false, &["memory.limit_in_bytes"]),
        _ => return None,
    };
    let mount = mounts.iter().find(|mount| mount.unified == unified)?;
    // A container may see only its own group, as the root of the mount.
    let below = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let mounted = root.join(mount.at.strip_prefix("/").ok()?);
    let group = mounted.join(below);
    let around = group.ancestors().take_while(|directory| directory.starts_with(&mounted));
    let limits = around.flat_map(|directory| files.iter().map(move |file| directory.join(file)));
    limits.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// The mount points of control groups with limits of memory.
struct Mount {
    unified: bool,
    /// The group that the mount has as its root.
    root: PathBuf,
    at: PathBuf,
}

impl Mount {
    /// Reads a line of `/proc/self/mountinfo`; `None` for other mounts.
    fn parse(line: &str) -> Option<Mount> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1)?);
        let unified = match name {
            "cgroup2" => true,
            "cgroup" if options.split(',').any(|option| option == "memory") => false,
            _ => return None,
        };
        Some(Mount { unified, root: unescaped(root), at: unescaped(at) })
    }
}

/// A path of `/proc/self/mountinfo`, in which blanks and backslashes are octal numbers.
fn unescaped(path: &str) -> PathBuf {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (from, to)| path.replace(from, to))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory with these files. Returns the limit that is found in it.
    fn found(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        of_groups(root.path())
    }

    const UNIFIED: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const BY_CONTROLLER: &str = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                                 32 23 0:28 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                                 33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_smallest_limit_of_a_group_and_those_around_it_counts() {
        let files = |own, around| {
            found(&[
                ("proc/self/cgroup", "0::/system.slice/web.service\n"),
                ("proc/self/mountinfo", UNIFIED),
                ("sys/fs/cgroup/system.slice/web.service/memory.max", own),
                ("sys/fs/cgroup/system.slice/memory.max", around),
                ("sys/fs/cgroup/other.slice/memory.max", "1000\n"),
            ])
        };
        assert_eq!(files("134217728\n", "max\n"), Some(134_217_728));
        assert_eq!(files("134217728\n", "67108864\n"), Some(67_108_864));
        assert_eq!(files("max\n", "67108864\n"), Some(67_108_864));
        assert_eq!(files("max\n", "max\n"), None);
    }

    #[test]
    fn a_limit_that_slows_a_group_down_counts() {
        let files = [
            ("proc/self/cgroup", "0::/web\n"),
            ("proc/self/mountinfo", UNIFIED),
            ("sys/fs/cgroup/web/memory.max", "134217728\n"),
            ("sys/fs/cgroup/web/memory.high", "100000000\n"),
        ];
        assert_eq!(found(&files), Some(100_000_000));
    }

    #[test]
    fn a_container_with_a_view_of_its_own_has_its_limit_at_the_root() {
        let files = [
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", UNIFIED),
            ("sys/fs/cgroup/memory.max", "134217728\n"),
        ];
        assert_eq!(found(&files), Some(134_217_728));
    }

    #[test]
    fn a_limit_of_version_1_counts_with_an_empty_version_2() {
        let files = [
            ("proc/self/cgroup", "9:name=systemd:/a\n4:cpu,memory:/docker/1f\n0::/\n"),
            ("proc/self/mountinfo", BY_CONTROLLER),
            ("sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes", "134217728\n"),
            ("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpu/docker/1f/memory.limit_in_bytes", "1\n"),
        ];
        assert_eq!(found(&files), Some(134_217_728));
    }

    #[test]
    fn a_group_that_is_the_root_of_its_mount_is_found_there() {
        let mounts = "32 23 0:28 /docker/1f /sys/fs/cgroup/my\\040groups ro - cgroup cgroup rw,memory\n";
        for group in ["/docker/1f", "/elsewhere", "/../other"] {
            let files = [
                ("proc/self/cgroup", &*format!("4:memory:{group}\n")),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/my groups/memory.limit_in_bytes", "134217728\n"),
            ];
            assert_eq!(found(&files), Some(134_217_728), "{group}");
        }
    }

    #[test]
    fn files_without_sense_set_no_limit() {
        let nothing = found(&[]);
        let odd =
            found(&[("proc/self/cgroup", "0:\n::\n0::/\n\n4:memory\n"), ("proc/self/mountinfo", "1 2 - \n - x\n\n")]);
        let binary = found(&[
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", UNIFIED),
            ("sys/fs/cgroup/memory.max", "-1\n"),
        ]);
        assert_eq!([nothing, odd, binary], [None; 3]);
    }
}
