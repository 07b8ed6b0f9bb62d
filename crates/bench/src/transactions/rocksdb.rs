//! RocksDB by the adapter `peers/rocksdb_transactions.cc`, whose head has its settings, with a block cache of 2.2 times
//! the payload, as for redb and fjall.

#![expect(unsafe_code, reason = "calls of C")]

use super::{Numbers, Transactions, Value, key, value};
use crate::engine::Outcome;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Mutex;

// SAFETY: as the adapter defines them.
unsafe extern "C" {
    fn transactions_rocksdb_open(path: *const c_char, cache: usize, jobs: c_int, store: *mut *mut c_void) -> c_int;
    fn transactions_rocksdb_add(
        store: *mut c_void,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
    ) -> c_int;
    fn transactions_rocksdb_commit(store: *mut c_void, durable: c_int) -> c_int;
    fn transactions_rocksdb_get(
        store: *mut c_void,
        key: *const u8,
        key_len: usize,
        value: *mut u8,
        capacity: usize,
        value_len: *mut usize,
    ) -> c_int;
    fn transactions_rocksdb_compact(store: *mut c_void) -> c_int;
    fn transactions_rocksdb_close(store: *mut c_void) -> c_int;
    fn peer_error(store: *mut c_void) -> *const c_char;
}

struct Open {
    /// Not null.
    store: *mut c_void,
    /// Held from the first pair of a transaction to its commit.
    writing: Mutex<()>,
}

// SAFETY: any thread may use the store; only the holder of `writing` adds and commits.
unsafe impl Sync for Open {}

/// Returns the answer, or this thread's last error.
fn check(answer: c_int) -> Outcome<c_int> {
    if answer >= 0 {
        return Ok(answer);
    }
    // SAFETY: returns a text that is good until this thread's next error.
    let error = unsafe { CStr::from_ptr(peer_error(ptr::null_mut())) };
    Err(error.to_string_lossy().into())
}

pub(super) fn open(directory: &Path, payload: u64) -> Outcome<Box<dyn Transactions>> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let jobs = std::thread::available_parallelism().map_or(1, |threads| threads.get() as c_int);
    let cache_bytes = usize::try_from(payload * 22 / 10)?;
    let mut store = ptr::null_mut();
    // SAFETY: the path lives until it returns.
    check(unsafe { transactions_rocksdb_open(path.as_ptr(), cache_bytes, jobs, &raw mut store) })?;
    Ok(Box::new(Open { store, writing: Mutex::default() }))
}

impl Open {
    /// Puts the pairs in one transaction, or removes them.
    fn write(&self, numbers: Numbers<'_>, removes: bool, durable: bool) -> Outcome {
        let _writing = self.writing.lock().expect("no panic while held");
        for number in numbers {
            let (key, value) = (key(number), value(number));
            let (start, len) = if removes { (ptr::null(), 0) } else { (value.as_ptr(), value.len()) };
            // SAFETY: the store is open, no other thread writes, and the bytes live until it returns.
            check(unsafe { transactions_rocksdb_add(self.store, key.as_ptr(), key.len(), start, len) })?;
        }
        // SAFETY: as above.
        check(unsafe { transactions_rocksdb_commit(self.store, durable.into()) }).map(drop)
    }
}

impl Transactions for Open {
    fn put(&self, numbers: Numbers<'_>, durable: bool) -> Outcome {
        self.write(numbers, false, durable)
    }

    fn remove(&self, numbers: Numbers<'_>) -> Outcome {
        self.write(numbers, true, true)
    }

    fn get(&self, numbers: Numbers<'_>, each: &mut dyn FnMut(u64, Option<&[u8]>)) -> Outcome {
        let mut value: Value = [0; size_of::<Value>()];
        for number in numbers {
            let (key, mut len) = (key(number), 0);
            let start = value.as_mut_ptr();
            // SAFETY: the store is open; it reads the key and writes at most `value.len()` bytes.
            let found = check(unsafe {
                transactions_rocksdb_get(self.store, key.as_ptr(), key.len(), start, value.len(), &raw mut len)
            })?;
            if len > value.len() {
                return Err(format!("a value of {len} bytes").into());
            }
            each(number, (found == 1).then_some(&value[..len]));
        }
        Ok(())
    }

    fn compact(&mut self) -> Outcome {
        // SAFETY: the store is open.
        check(unsafe { transactions_rocksdb_compact(self.store) }).map(drop)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: the store is open, and is not used again. An error is ignored: every commit has returned.
        unsafe { transactions_rocksdb_close(self.store) };
    }
}
