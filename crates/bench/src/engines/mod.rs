//! The stores that are measured, one file an engine.

mod nothing;
mod splitpoint;

use crate::engine::{Engine, Outcome};

/// Every engine of this build, ours first.
pub fn all() -> Vec<&'static dyn Engine> {
    vec![&splitpoint::Splitpoint, &nothing::Nothing]
}

/// The engine of that name.
pub fn named(name: &str) -> Outcome<&'static dyn Engine> {
    let found = all().into_iter().find(|engine| engine.name() == name);
    found.ok_or_else(|| format!("no engine {name} in this build; `splitpoint-bench list` tells which there are").into())
}
