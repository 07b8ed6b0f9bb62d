//! Peers in C and C++, through the function tables of the adapters in `peers/`: stores (`peers/peer.h`) and
//! dictionaries (`peers/dictionary.h`).
//!
//! The structs here have the fields of those in the headers, in the same order. They rely on what the headers promise:
//! the tables and their strings live forever, a value until the next call, a store until it is closed.
#![expect(unsafe_code, reason = "calls of C")]

use crate::engine::{Each, Engine, Made, Maker, Making, Opening, Outcome, Pairs, Place, Reader, Store};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

#[repr(C)]
struct PeerOptions {
    path: *const c_char,
    setting: *const c_char,
    expected_len: u64,
    payload_bytes: u64,
    create: c_int,
}

type EachPair = extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int;
type OfPair = unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int;
type OfStore = unsafe extern "C" fn(*mut c_void) -> c_int;

#[repr(C)]
struct Peer {
    name: *const c_char,
    settings: *const *const c_char,
    in_memory: c_int,
    in_file: c_int,
    version: unsafe extern "C" fn() -> *const c_char,
    open: unsafe extern "C" fn(*const PeerOptions, *mut *mut c_void) -> c_int,
    put: OfPair,
    append: OfPair,
    get: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut *const c_void, *mut usize) -> c_int,
    remove: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
    scan: unsafe extern "C" fn(*mut c_void, c_int, EachPair, *mut c_void) -> c_int,
    sync: OfStore,
    end_of_puts: Option<OfStore>,
    close: OfStore,
    error: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    key_bytes: usize,
}

// SAFETY: peers.c defines it so; it ends with a null pointer, where `all` stops reading.
unsafe extern "C" {
    static peers: [*const Peer; 0];
}

/// Peers that cannot be scanned; peer.h has no field for that.
const WITHOUT_SCAN: &[&str] = &["hsearch"];

/// A peer and its adapter.
pub struct Foreign {
    peer: &'static Peer,
    name: String,
    /// Settings to run, and words that may be combined, which end in `=`.
    settings: Vec<String>,
}

// SAFETY: an adapter's table is constant; what its functions do in one thread is all they are used for.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

/// Returns all peers that are compiled in.
pub fn all() -> &'static [Foreign] {
    static ALL: OnceLock<Vec<Foreign>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut found = Vec::new();
        let first = (&raw const peers).cast::<*const Peer>();
        loop {
            // SAFETY: the array ends with a null pointer, which ends this loop.
            let peer = unsafe { *first.add(found.len()) };
            // SAFETY: not null, it points to a constant of an adapter.
            let Some(peer) = (unsafe { peer.as_ref() }) else { return found };
            found.push(Foreign { peer, name: text(peer.name), settings: texts(peer.settings) });
        }
    })
}

/// Copies a string of an adapter; empty for a null pointer.
fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: peer.h: names, versions, settings and errors end with a zero byte, and change at most when this
    // thread calls a peer, which it does not while they are copied.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn texts(list: *const *const c_char) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        // SAFETY: peer.h: the list ends with a null pointer, which ends this loop.
        let next = unsafe { *list.add(found.len()) };
        if next.is_null() {
            return found;
        }
        found.push(text(next));
    }
}

impl Engine for Foreign {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> String {
        // SAFETY: takes nothing, returns a text.
        text(unsafe { (self.peer.version)() })
    }

    fn settings(&self, place: Place) -> Vec<String> {
        let can = match place {
            Place::File => self.peer.in_file,
            Place::Memory => self.peer.in_memory,
            Place::Dictionary => 0,
        };
        let runs = self.settings.iter().filter(|setting| can != 0 && !setting.ends_with('='));
        runs.cloned().collect()
    }

    fn takes(&self, place: Place, setting: &str) -> bool {
        let runs = self.settings(place);
        let known = |word: &str| {
            let name = word.split_inclusive('=').next().unwrap_or(word);
            self.settings.iter().any(|own| own == name)
        };
        !runs.is_empty() && (runs.iter().any(|run| run == setting) || setting.split(',').all(known))
    }

    /// A peer with a fixed key length is measured only by workloads that name it.
    fn is_special(&self) -> bool {
        self.peer.key_bytes != 0
    }

    fn scans(&self) -> bool {
        !WITHOUT_SCAN.contains(&&self.name[..])
    }

    fn open(&self, opening: &Opening<'_>) -> Outcome<Box<dyn Store>> {
        let path = opening.path.map(|path| CString::new(path.as_os_str().as_bytes())).transpose()?;
        let setting = CString::new(opening.setting)?;
        let options = PeerOptions {
            path: path.as_ref().map_or(ptr::null(), |path| path.as_ptr()),
            setting: setting.as_ptr(),
            expected_len: opening.expected_len,
            payload_bytes: opening.payload_bytes,
            create: opening.create.into(),
        };
        let mut store = ptr::null_mut();
        // SAFETY: the options and their texts live until it returns.
        let answer = unsafe { (self.peer.open)(&raw const options, &raw mut store) };
        check(self.peer, ptr::null_mut(), "open", answer)?;
        let store = NonNull::new(store).ok_or_else(|| format!("{}: open returned no store", self.name))?;
        Ok(Box::new(Open { peer: self.peer, store: Some(store) }))
    }
}

/// Returns the answer, or the peer's error.
fn check(peer: &Peer, store: *mut c_void, what: &str, answer: c_int) -> Outcome<c_int> {
    if answer >= 0 {
        return Ok(answer);
    }
    // SAFETY: peer.h: returns the last error of this thread, of any store or none.
    let error = text(unsafe { (peer.error)(store) });
    Err(format!("{what}: {error}").into())
}

/// An open store of a peer; `None` once it is closed.
struct Open {
    peer: &'static Peer,
    store: Option<NonNull<c_void>>,
}

impl Open {
    fn store(&self) -> *mut c_void {
        self.store.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    fn with_pair(&mut self, what: &str, call: OfPair, key: &[u8], value: &[u8]) -> Outcome {
        // SAFETY: the store is open, as only closing takes it; the two slices live until it returns.
        let answer = unsafe { call(self.store(), key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len()) };
        check(self.peer, self.store(), what, answer)?;
        Ok(())
    }

    fn with_store(&mut self, what: &str, call: OfStore) -> Outcome {
        // SAFETY: the store is open, as only closing takes it.
        let answer = unsafe { call(self.store()) };
        check(self.peer, self.store(), what, answer)?;
        Ok(())
    }
}

/// The peer's bytes; no bytes may have a null address.
///
/// # Safety
/// `bytes` is null, `len` is 0, or `len` bytes are valid at `bytes` for the caller's lifetime.
unsafe fn slice<'a>(bytes: *const c_void, len: usize) -> &'a [u8] {
    if len == 0 || bytes.is_null() {
        return &[];
    }
    // SAFETY: not null; the rest is the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes.cast(), len) }
}

extern "C" fn each_pair(
    each: *mut c_void,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: `scan` passed the address of a value that lives until the scan ends; nothing else uses it until then.
    let each = unsafe { &mut *each.cast::<Each<'_>>() };
    // SAFETY: peer.h: the key is valid until this returns.
    let key = unsafe { slice(key, key_len) };
    // SAFETY: peer.h: so is the value, or it is null with length 0.
    let value = unsafe { slice(value, len) };
    each(key, value);
    0
}

impl Store for Open {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        self.with_pair("put", self.peer.put, key, value)
    }

    fn append(&mut self, key: &[u8], tail: &[u8]) -> Outcome {
        self.with_pair("append", self.peer.append, key, tail)
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        let (mut value, mut len) = (ptr::null(), 0);
        // SAFETY: the store is open; the key and the buffers for the answer live until it returns.
        let answer =
            unsafe { (self.peer.get)(self.store(), key.as_ptr().cast(), key.len(), &raw mut value, &raw mut len) };
        if check(self.peer, self.store(), "get", answer)? == 0 {
            return Ok(None);
        }
        // SAFETY: peer.h: the value is valid until the next call, which this borrow of self prevents.
        Ok(Some(unsafe { slice(value, len) }))
    }

    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        // SAFETY: the store is open; the key lives until it returns.
        let answer = unsafe { (self.peer.remove)(self.store(), key.as_ptr().cast(), key.len()) };
        Ok(check(self.peer, self.store(), "remove", answer)? != 0)
    }

    fn scan(&mut self, with_values: bool, mut each: Each<'_>) -> Outcome {
        let context = (&raw mut each).cast();
        // SAFETY: the store is open; `each` lives until it returns, and `each_pair` expects its type.
        let answer = unsafe { (self.peer.scan)(self.store(), with_values.into(), each_pair, context) };
        check(self.peer, self.store(), "scan", answer)?;
        Ok(())
    }

    fn end_of_puts(&mut self) -> Outcome {
        self.peer.end_of_puts.map_or(Ok(()), |call| self.with_store("end of puts", call))
    }

    fn sync(&mut self) -> Outcome {
        self.with_store("sync", self.peer.sync)
    }

    fn close(mut self: Box<Self>) -> Outcome {
        let closed = self.with_store("close", self.peer.close);
        self.store = None;
        closed
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(store) = self.store {
            // SAFETY: still open, and never used again. A caller that drops it so reports an error of its own.
            unsafe { (self.peer.close)(store.as_ptr()) };
        }
    }
}

#[repr(C)]
struct DictionaryPeer {
    name: *const c_char,
    settings: *const *const c_char,
    in_order: c_int,
    version: unsafe extern "C" fn() -> *const c_char,
    begin: unsafe extern "C" fn(*const PeerOptions, *mut *mut c_void) -> c_int,
    add: OfPair,
    finish: OfStore,
    abandon: unsafe extern "C" fn(*mut c_void),
    open: unsafe extern "C" fn(*const PeerOptions, *mut *mut c_void) -> c_int,
    reader: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    get: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut *const c_void, *mut usize) -> c_int,
    end_reader: unsafe extern "C" fn(*mut c_void),
    figure: unsafe extern "C" fn(*mut c_void, c_int, *mut *const c_char, *mut f64) -> c_int,
    close: OfStore,
    error: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    key_bytes: usize,
}

// SAFETY: peers.c defines it so; it ends with a null pointer, where `all_static` stops reading.
unsafe extern "C" {
    static dictionary_peers: [*const DictionaryPeer; 0];
}

/// A peer that makes dictionaries, and its adapter.
pub struct ForeignMaker {
    peer: &'static DictionaryPeer,
    name: String,
    /// Settings to run; then words, which end in `=`, and settings that must be requested, which begin with `+`.
    settings: Vec<String>,
}

// SAFETY: an adapter's table is constant; its functions may be called by any thread, with what that thread may use.
unsafe impl Send for ForeignMaker {}
// SAFETY: as above.
unsafe impl Sync for ForeignMaker {}

/// Returns all compiled-in peers that make dictionaries.
pub fn all_static() -> &'static [ForeignMaker] {
    static ALL: OnceLock<Vec<ForeignMaker>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut found = Vec::new();
        let first = (&raw const dictionary_peers).cast::<*const DictionaryPeer>();
        loop {
            // SAFETY: the array ends with a null pointer, which ends this loop.
            let peer = unsafe { *first.add(found.len()) };
            // SAFETY: not null, it points to a constant of an adapter.
            let Some(peer) = (unsafe { peer.as_ref() }) else { return found };
            found.push(ForeignMaker { peer, name: text(peer.name), settings: texts(peer.settings) });
        }
    })
}

impl Engine for ForeignMaker {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> String {
        // SAFETY: takes nothing, returns a text.
        text(unsafe { (self.peer.version)() })
    }

    fn settings(&self, place: Place) -> Vec<String> {
        let runs =
            self.settings.iter().filter(|s| place == Place::Dictionary && !s.ends_with('=') && !s.starts_with('+'));
        runs.cloned().collect()
    }

    fn takes(&self, place: Place, setting: &str) -> bool {
        let is_word =
            |word: &&str| word.split_inclusive('=').next().is_some_and(|w| self.settings.iter().any(|s| s == w));
        let rest: Vec<&str> = setting.split(',').filter(|word| !word.contains('=') || !is_word(word)).collect();
        let known = |own: &String| own.strip_prefix('+').unwrap_or(own) == rest.join(",");
        place == Place::Dictionary && self.settings.iter().any(known)
    }

    fn maker(&self) -> Option<&dyn Maker> {
        Some(self)
    }
}

impl ForeignMaker {
    /// Returns the answer, or the peer's error.
    fn check(&self, what: &str, answer: c_int) -> Outcome<c_int> {
        if answer >= 0 {
            return Ok(answer);
        }
        // SAFETY: dictionary.h: returns the last error of this thread.
        let error = text(unsafe { (self.peer.error)(ptr::null_mut()) });
        Err(format!("{what}: {error}").into())
    }

    /// Runs `call` with these options.
    fn made(
        &self,
        what: &str,
        call: unsafe extern "C" fn(*const PeerOptions, *mut *mut c_void) -> c_int,
        making: &Making<'_>,
    ) -> Outcome<NonNull<c_void>> {
        let path = CString::new(making.path.as_os_str().as_bytes())?;
        let setting = CString::new(making.setting)?;
        let options = PeerOptions {
            path: path.as_ptr(),
            setting: setting.as_ptr(),
            expected_len: making.expected_len,
            payload_bytes: making.payload_bytes,
            create: 1,
        };
        let mut made = ptr::null_mut();
        // SAFETY: the options and their texts live until it returns.
        let answer = unsafe { call(&raw const options, &raw mut made) };
        self.check(what, answer)?;
        NonNull::new(made).ok_or_else(|| format!("{}: {what} returned nothing", self.name).into())
    }
}

impl Maker for ForeignMaker {
    fn wants_order(&self) -> bool {
        self.peer.in_order != 0
    }

    fn is_function(&self, setting: &str) -> bool {
        setting.split(',').any(|word| word == "function")
    }

    fn build(&self, making: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome {
        let build = self.made("begin", self.peer.begin, making)?.as_ptr();
        let added = pairs.each(&mut |key, value| {
            // SAFETY: the build was begun and is neither finished nor abandoned; the slices live until it returns.
            let answer =
                unsafe { (self.peer.add)(build, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len()) };
            self.check("add", answer).map(|_| ())
        });
        if added.is_err() {
            // SAFETY: as above, and it is not used again.
            unsafe { (self.peer.abandon)(build) };
            return added;
        }
        // SAFETY: as above, and it is not used again.
        let answer = unsafe { (self.peer.finish)(build) };
        self.check("finish", answer).map(|_| ())
    }

    fn open(&self, path: &Path, setting: &str, _: bool) -> Outcome<Box<dyn Made>> {
        let making = Making { path, setting, expected_len: 0, payload_bytes: 0, seed: 0 };
        let name = self.name.clone();
        let store = self.made("open", self.peer.open, &making)?;
        Ok(Box::new(OpenDictionary { maker: ForeignMaker { peer: self.peer, name, settings: Vec::new() }, store }))
    }
}

/// An open dictionary of a peer.
struct OpenDictionary {
    maker: ForeignMaker,
    store: NonNull<c_void>,
}

// SAFETY: dictionary.h: several threads may use a store, each through a reader of its own.
unsafe impl Sync for OpenDictionary {}

impl Made for OpenDictionary {
    fn reader(&self) -> Outcome<Box<dyn Reader + '_>> {
        let mut reader = ptr::null_mut();
        // SAFETY: the store is open, as only dropping closes it.
        let answer = unsafe { (self.maker.peer.reader)(self.store.as_ptr(), &raw mut reader) };
        self.maker.check("reader", answer)?;
        let reader = NonNull::new(reader).ok_or("no reader")?;
        Ok(Box::new(DictionaryReader { maker: &self.maker, reader }))
    }

    fn figures(&self) -> Outcome<Vec<(String, f64)>> {
        let mut figures = Vec::new();
        loop {
            let (mut name, mut value) = (ptr::null(), 0.0);
            let i = c_int::try_from(figures.len())?;
            // SAFETY: the store is open; the buffers for the answer live until it returns.
            let answer = unsafe { (self.maker.peer.figure)(self.store.as_ptr(), i, &raw mut name, &raw mut value) };
            if self.maker.check("figure", answer)? == 0 {
                return Ok(figures);
            }
            figures.push((text(name), value));
        }
    }
}

impl Drop for OpenDictionary {
    fn drop(&mut self) {
        // SAFETY: open until now, and its readers borrowed it, so they are gone.
        unsafe { (self.maker.peer.close)(self.store.as_ptr()) };
    }
}

struct DictionaryReader<'d> {
    maker: &'d ForeignMaker,
    reader: NonNull<c_void>,
}

impl Reader for DictionaryReader<'_> {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        let (mut value, mut len) = (ptr::null(), 0);
        let reader = self.reader.as_ptr();
        // SAFETY: the reader lives until this is dropped; the key and the buffers for the answer live until it returns.
        let answer =
            unsafe { (self.maker.peer.get)(reader, key.as_ptr().cast(), key.len(), &raw mut value, &raw mut len) };
        if self.maker.check("get", answer)? == 0 {
            return Ok(None);
        }
        // SAFETY: dictionary.h: the value is valid until the next call, which this borrow of self prevents.
        Ok(Some(unsafe { slice(value, len) }))
    }
}

impl Drop for DictionaryReader<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `reader`, and never used again.
        unsafe { (self.maker.peer.end_reader)(self.reader.as_ptr()) };
    }
}
