//! The Redis protocol: parses requests and executes them in batches. What commands do and reply is in `command`.

pub mod parse;
pub mod session;
