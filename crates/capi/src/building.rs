//! Dictionaries being built, and updates of dictionaries.

use crate::arguments::{In, InText, Out};
use crate::border::border;
use crate::callbacks::{HashCallback, NextCallback, PlaceCallback, ProgressCallback};
use crate::diff::InChange;
use crate::handles::{Handle, Object};
use crate::options::{InOptions, Sized, hash_named, user_hash_name};
use crate::status::{Failure, OK, Result, Status};
use crate::table::OpenTable;
use splitpoint::dictionary::{Build, Compression, Duplicates, Effort, Index, Update};
use splitpoint::{Dictionary, DictionaryBuilder, HashKind};
use std::ffi::{c_int, c_void};

/// `spt_build_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct BuildOptions<'c> {
    pub(crate) size: usize,
    pub(crate) flags: u32,
    pub(crate) index: u32,
    pub(crate) bins_per_page: u32,
    pub(crate) bucket_keys: u32,
    pub(crate) huffman_max: u32,
    pub(crate) skip_min: u32,
    pub(crate) block_items: u32,
    pub(crate) effort: u32,
    pub(crate) page_bytes: u32,
    pub(crate) compression: u32,
    pub(crate) block_bytes: u32,
    pub(crate) duplicates: u32,
    pub(crate) threads: u32,
    pub(crate) shards: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) seed: u64,
    pub(crate) resume_identity: u64,
    pub(crate) hash: InText<'c>,
    pub(crate) user_hash: Option<HashCallback>,
    pub(crate) user_context: *mut c_void,
    pub(crate) temporary_directory: InText<'c>,
    pub(crate) progress: Option<ProgressCallback>,
    pub(crate) progress_context: *mut c_void,
    pub(crate) place_name: Option<PlaceCallback>,
    pub(crate) place_context: *mut c_void,
    pub(crate) filter_bits: u64,
}

// SAFETY: see the struct; NULL pointers and `None` are zeros.
unsafe impl Sized for BuildOptions<'_> {}

const RESUME: u32 = 1;
/// The `skip_min` that means no skip pointers.
const NO_SKIP: u32 = u32::MAX;

/// `value`, or `default` if it is 0.
fn or(value: u32, default: u32) -> u32 {
    if value == 0 { default } else { value }
}

impl BuildOptions<'_> {
    fn builder(&self) -> Result<DictionaryBuilder> {
        if self.flags & !RESUME != 0 {
            return Err(Failure::invalid(format!("flags {:#x} have some unknown to this version", self.flags)));
        }
        let mut builder = DictionaryBuilder::new()
            .index(self.index()?)
            .threads(self.threads as usize)
            .shards(self.shards)
            .filter(u32::try_from(self.filter_bits).unwrap_or(u32::MAX))
            .compression(match self.compression {
                0 => Compression::None,
                1 => Compression::Lz4,
                other => return Err(unknown("compression", other)),
            })
            .duplicates(match self.duplicates {
                0 => Duplicates::Error,
                1 => Duplicates::First,
                2 => Duplicates::Last,
                other => return Err(unknown("duplicates", other)),
            });
        if self.page_bytes != 0 {
            builder = builder.page_bytes(self.page_bytes);
        }
        if self.block_bytes != 0 {
            builder = builder.block_bytes(self.block_bytes);
        }
        if self.memory_bytes != 0 {
            builder = builder.memory_bytes(self.memory_bytes);
        }
        builder = match self.user_hash {
            Some(function) => builder.user_hash(&user_hash_name(self.hash), function.with(self.user_context)),
            None => {
                let name = self.hash.get().map(|name| hash_named(&name.to_string_lossy())).transpose()?;
                builder.hash(name.unwrap_or(HashKind::DEFAULT)).seed(self.seed)
            }
        };
        if self.temporary_directory.get().is_some() {
            builder = builder.temporary_directory(self.temporary_directory.path()?);
        }
        if self.flags & RESUME != 0 {
            builder = builder.resume(self.resume_identity);
        }
        if self.progress.is_some() {
            let progress = ProgressCallback::with(self.progress, self.progress_context);
            builder = builder.progress(move |now| progress(now.pairs, now.pairs_total));
        }
        if let Some(function) = self.place_name {
            builder = builder.place_names(function.with(self.place_context));
        }
        Ok(builder)
    }

    fn index(&self) -> Result<Index> {
        Ok(match (self.index, Index::page(), Index::trie()) {
            (0, Index::Page { bins_per_page }, _) => {
                Index::Page { bins_per_page: or(self.bins_per_page, bins_per_page) }
            }
            (1, _, Index::Trie { bucket_keys, huffman_max, block_items, skip_min }) => Index::Trie {
                bucket_keys: or(self.bucket_keys, bucket_keys),
                huffman_max: or(self.huffman_max, huffman_max),
                skip_min: if self.skip_min == NO_SKIP { 0 } else { or(self.skip_min, skip_min) },
                block_items: or(self.block_items, block_items),
            },
            (2, ..) => Index::Chunk {
                effort: match self.effort {
                    0 | 2 => Effort::Balanced,
                    1 => Effort::Fast,
                    3 => Effort::Small,
                    other => return Err(unknown("effort", other)),
                },
            },
            (3, ..) => Index::None,
            (other, ..) => return Err(unknown("index", other)),
        })
    }
}

fn unknown(option: &str, value: u32) -> Failure {
    Failure::invalid(format!("{option} is {value}, which this version does not know"))
}

/// `spt_build`.
struct OpenBuild(Build);

impl Object for OpenBuild {
    const KIND: usize = 4;
    const NAME: &'static str = "build";
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_build(
    path: InText<'_>,
    options: InOptions<'_, BuildOptions<'_>>,
    next: Option<NextCallback>,
    context: *mut c_void,
    pairs: Out<'_, u64>,
) -> Status {
    border(0, || {
        pairs.set_if_wanted(0);
        let next = NextCallback::required(next)?;
        let mut build = options.get()?.builder()?.start(path.path()?)?;
        while next.call(context, |key, value| Ok(build.push(key, value)?))? {}
        pairs.set_if_wanted(build.finish()?);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_freeze(
    table: Handle<OpenTable>,
    path: InText<'_>,
    options: InOptions<'_, BuildOptions<'_>>,
    pairs: Out<'_, u64>,
) -> Status {
    border(table.number(), || {
        pairs.set_if_wanted(0);
        let (table, _pin) = table.pinned()?;
        pairs.set_if_wanted(table.freeze(path.path()?, &options.get()?.builder()?)?);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_reindex(
    old: InText<'_>,
    new: InText<'_>,
    options: InOptions<'_, BuildOptions<'_>>,
    pairs: Out<'_, u64>,
) -> Status {
    border(0, || {
        pairs.set_if_wanted(0);
        pairs.set_if_wanted(options.get()?.builder()?.reindex(old.path()?, new.path()?)?);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_build_start(
    path: InText<'_>,
    options: InOptions<'_, BuildOptions<'_>>,
    build: Out<'_, Handle<OpenBuild>>,
) -> Status {
    border(0, || {
        build.set("the place for the build", Handle::NULL)?;
        let started = options.get()?.builder()?.start(path.path()?)?;
        build.set("the place for the build", Handle::open(OpenBuild(started))?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_build_push(
    build: Handle<OpenBuild>,
    key: In<'_>,
    key_len: usize,
    value: In<'_>,
    value_len: usize,
) -> Status {
    border(build.number(), || {
        build.exclusive()?.0.push(key.key(key_len)?, value.value(value_len)?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_build_push_at(
    build: Handle<OpenBuild>,
    key: In<'_>,
    key_len: usize,
    value: In<'_>,
    value_len: usize,
    place: u64,
) -> Status {
    border(build.number(), || {
        build.exclusive()?.0.push_at(key.key(key_len)?, value.value(value_len)?, place)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_build_resumed(
    build: Handle<OpenBuild>,
    pairs: Out<'_, u64>,
    all: Out<'_, c_int>,
    discarded: Out<'_, u64>,
) -> Status {
    border(build.number(), || {
        let build = build.exclusive()?;
        pairs.set_if_wanted(build.0.resumed_pairs());
        all.set_if_wanted(build.0.resumed_all().into());
        discarded.set_if_wanted(build.0.discarded_pairs());
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_build_save(build: Handle<OpenBuild>) -> Status {
    border(build.number(), || {
        build.exclusive()?.0.save()?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_build_finish(build: Handle<OpenBuild>, pairs: Out<'_, u64>) -> Status {
    border(build.number(), || {
        pairs.set_if_wanted(0);
        pairs.set_if_wanted(build.close()?.0.finish()?);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_build_discard(build: Handle<OpenBuild>) -> Status {
    border(build.number(), || {
        if !build.is_null() {
            drop(build.close()?);
        }
        Ok(OK)
    })
}

/// `spt_dict_update`.
struct OpenUpdate(Update);

impl Object for OpenUpdate {
    const KIND: usize = 5;
    const NAME: &'static str = "update";
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_update_start(
    old: InText<'_>,
    new: InText<'_>,
    options: InOptions<'_, BuildOptions<'_>>,
    update: Out<'_, Handle<OpenUpdate>>,
) -> Status {
    border(0, || {
        update.set("the place for the update", Handle::NULL)?;
        let started = Dictionary::update(old.path()?, new.path()?, &options.get()?.builder()?)?;
        update.set("the place for the update", Handle::open(OpenUpdate(started))?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_update_put(
    update: Handle<OpenUpdate>,
    key: In<'_>,
    key_len: usize,
    value: In<'_>,
    value_len: usize,
) -> Status {
    border(update.number(), || {
        update.exclusive()?.0.put(key.key(key_len)?, value.value(value_len)?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_update_remove(update: Handle<OpenUpdate>, key: In<'_>, key_len: usize) -> Status {
    border(update.number(), || {
        update.exclusive()?.0.remove(key.key(key_len)?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_update_apply(update: Handle<OpenUpdate>, change: InChange<'_>) -> Status {
    border(update.number(), || {
        let change = change.one().ok_or_else(|| Failure::invalid("the change is NULL"))?;
        update.exclusive()?.0.apply(&change.change()?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_update_finish(update: Handle<OpenUpdate>, pairs: Out<'_, u64>) -> Status {
    border(update.number(), || {
        pairs.set_if_wanted(0);
        pairs.set_if_wanted(update.close()?.0.finish()?);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_update_discard(update: Handle<OpenUpdate>) -> Status {
    border(update.number(), || {
        if !update.is_null() {
            drop(update.close()?);
        }
        Ok(OK)
    })
}
