//! Tests of dictionaries as a whole; those of one part lie beside it.

mod crash;
mod limits;
mod model;
mod ownership;
pub(crate) mod random;
mod sample_pairs;
mod verify;
