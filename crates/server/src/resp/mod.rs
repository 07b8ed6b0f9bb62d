//! The Redis protocol: requests in, replies out. Bytes only; commands are in `command`.

pub mod parse;
pub mod reply;
pub mod session;

pub use reply::Version;
