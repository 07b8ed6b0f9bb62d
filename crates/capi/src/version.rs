//! The version of the library at run time, which programs can compare with that of their header.

use std::ffi::{CStr, c_char};

const fn number(text: &str) -> u32 {
    let (mut at, mut value) = (0, 0);
    while at < text.len() {
        value = value * 10 + (text.as_bytes()[at] - b'0') as u32;
        at += 1;
    }
    value
}

/// `SPT_VERSION` of splitpoint.h.
const VERSION: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
    | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
    | number(env!("CARGO_PKG_VERSION_PATCH"));

const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => panic!("a version has no zero byte"),
};

#[unsafe(no_mangle)]
extern "C" fn spt_version() -> u32 {
    VERSION
}

#[unsafe(no_mangle)]
extern "C" fn spt_version_string() -> *const c_char {
    TEXT.as_ptr()
}
