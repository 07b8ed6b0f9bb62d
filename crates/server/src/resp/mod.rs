//! The Redis protocol: parses requests and writes replies. What commands do is in `command`.

pub mod parse;
pub mod reply;
pub mod session;

pub use reply::Version;
