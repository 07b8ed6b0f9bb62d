//! Scripts in a server that is built without Lua: all are refused.

use super::{Commands, Running, Script};
use crate::command::reply::Version;
use std::sync::Arc;

const ABSENT: &str = "ERR this server was built without Lua (the feature `scripts`)";

/// A Lua state, of which this build has none: `new` returns an error.
pub(crate) struct Engine;

/// A compiled script, of which this build has none.
pub(crate) struct Compiled;

impl Engine {
    pub(crate) fn new(_: Arc<Running>, _: &str) -> Result<Engine, String> {
        Err(ABSENT.into())
    }

    pub(crate) fn is_worn(&self) -> bool {
        false
    }

    pub(crate) fn compile(&self, _: &Script) -> Result<Compiled, Vec<u8>> {
        Err(ABSENT.into())
    }

    pub(crate) fn run(
        &mut self,
        _: (&Script, Compiled),
        _: [&[&[u8]]; 2],
        _: &mut dyn Commands,
        _: (&mut Vec<u8>, Version, usize),
    ) -> Result<(), Vec<u8>> {
        Err(ABSENT.into())
    }
}
