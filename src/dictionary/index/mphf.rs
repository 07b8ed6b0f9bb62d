//! Minimal perfect hashing, a function for each run of keys.
