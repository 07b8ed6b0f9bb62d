//! The measured engines, one file each.

mod dictionary;
#[cfg(feature = "peers")]
mod foreign;
#[cfg(feature = "peers")]
mod functions;
#[cfg(feature = "peers")]
mod hashbrown;
#[cfg(feature = "peers")]
mod mmph;
mod nothing;
#[cfg(feature = "peers")]
mod redb;
mod splitpoint;

use crate::engine::{Engine, Outcome};

/// Returns every engine of this build, ours first.
pub fn all() -> Vec<&'static dyn Engine> {
    let ours: [&'static dyn Engine; 2] = [&splitpoint::Splitpoint, &nothing::Nothing];
    ours.into_iter().chain(peers()).collect()
}

#[cfg(feature = "peers")]
fn peers() -> Vec<&'static dyn Engine> {
    let mut peers: Vec<&'static dyn Engine> = foreign::all().iter().map(|peer| peer as &dyn Engine).collect();
    peers.extend([&redb::Redb as &dyn Engine, &hashbrown::Bytes, &hashbrown::Numbers]);
    peers.extend(foreign::all_static().iter().map(|peer| peer as &dyn Engine));
    peers.extend([&functions::PtrHash as &dyn Engine, &functions::Phast, &mmph::Mmph]);
    peers
}

#[cfg(not(feature = "peers"))]
fn peers() -> Vec<&'static dyn Engine> {
    Vec::new()
}

/// Returns the engine of that name.
pub fn named(name: &str) -> Outcome<&'static dyn Engine> {
    let found = all().into_iter().find(|engine| engine.name() == name);
    found.ok_or_else(|| format!("no engine {name} in this build; `splitpoint-bench list` shows them all").into())
}
