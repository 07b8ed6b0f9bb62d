//! Permissions of new tables and dictionaries: only users who may use all of the source files may use the new file.
//!
//! Not here: a file that is replaced keeps its owner and permissions, which the library ensures.

use crate::source::file_behind;
use std::fs::{Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// The owner may always read and write the new file, even if its sources were read-only.
pub const OWNER: u32 = 0o600;

/// Permissions for a file made from `sources`: what all of them permit. Pipes and absent files permit everything.
pub fn common<'p>(sources: impl IntoIterator<Item = &'p Path>) -> u32 {
    sources.into_iter().filter_map(file_of).fold(0o666, |common, file| common & file.mode()) | OWNER
}

/// Sets the permissions of the table or dictionary at `path`, and its owner to that of `sources` if they have one, as
/// far as this process and the file system permit.
pub fn share<'p>(path: &Path, sources: impl IntoIterator<Item = &'p Path> + Clone) {
    let files: Vec<_> = sources.clone().into_iter().filter_map(file_of).collect();
    let Some(first) = files.first() else { return };
    let (user, group) = (first.uid(), first.gid());
    let is_one = files.iter().all(|file| (file.uid(), file.gid()) == (user, group));
    let give = |path: &Path| {
        is_one && chown(path, Some(user), Some(group)).or_else(|_| chown(path, None, Some(group))).is_ok()
    };
    if let Ok(shards) = std::fs::read_dir(path) {
        shards.flatten().for_each(|shard| share(&shard.path(), sources.clone()));
        give(path);
        return;
    }
    let common = common(sources);
    // If the group could not be set, the actual group gets no more than everybody.
    let permissions = if give(path) { common } else { common & (0o707 | (common & 0o007) << 3) };
    let _ = std::fs::set_permissions(path, Permissions::from_mode(permissions));
}

/// Finds the metadata of the file whose permissions decide who may use the table, dictionary or other file at `path`.
fn file_of(path: &Path) -> Option<Metadata> {
    // A shell may have opened a file for standard input.
    let path = if path.as_os_str() == "-" { Path::new("/dev/stdin") } else { file_behind(path) };
    let metadata = path.metadata().ok()?;
    if metadata.is_dir() { path.join("manifest").metadata().ok() } else { Some(metadata).filter(Metadata::is_file) }
}
