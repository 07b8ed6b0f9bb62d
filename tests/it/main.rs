//! The integration tests, one binary: one link, one run. A module a subject.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at files from outside the library's seam"
)]

mod tidy;
