//! Hash functions by name, and positions of keys in hash order.

use crate::arguments::{In, InText, Out};
use crate::border::border;
use crate::handles::Handle;
use crate::options::hash_named;
use crate::status::{Failure, OK, Status};
use crate::table::OpenTable;
use splitpoint::HashKind;
use splitpoint::linear::Position;
use std::ffi::{CStr, c_char};

/// The names of [`HashKind::ALL`] as C strings.
const NAMES: &[&CStr] = &[
    c"xxh3",
    c"rapidhash",
    c"siphash13",
    c"fnv1a",
    c"crc32c",
    c"murmur3",
    c"sdbm",
    c"djb2",
    c"phong",
    c"dynahash",
    c"knuth",
];

#[unsafe(no_mangle)]
extern "C" fn spt_hash_name(index: usize) -> *const c_char {
    NAMES.get(index).map_or(std::ptr::null(), |name| name.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn spt_hash(name: InText<'_>, seed: u64, key: In<'_>, key_len: usize, hash: Out<'_, u64>) -> Status {
    border(0, || {
        let kind = match name.get() {
            None => HashKind::DEFAULT,
            Some(name) => hash_named(name.to_str().map_err(|_| Failure::invalid("the name is not UTF-8"))?)?,
        };
        hash.set("the place for the hash", kind.hash(key.key(key_len)?, seed))?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_position(table: Handle<OpenTable>, key: In<'_>, key_len: usize, position: Out<'_, u64>) -> Status {
    border(table.number(), || {
        let hash = table.shared()?.hash_of(key.key(key_len)?);
        position.set("the place for the position", Position::of(hash).0)?;
        Ok(OK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_its_name() {
        let names: Vec<_> = NAMES.iter().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(names, HashKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>());
    }
}
