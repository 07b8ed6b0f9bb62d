//! `lab`: the commands that show how hash functions and tables behave, one file each; `keys.rs` where they have keys from.

mod keys;
mod schemes;

use crate::failure::Result;

const EXAMPLES: &str = "\
Examples:
  splitpoint lab hash words.txt             every function on your own keys
  splitpoint lab schemes words.txt          dbm, gdbm, hsearch, ours... on them";

/// How hash functions and tables behave on your own keys
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Schemes(schemes::Schemes),
}

impl Lab {
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Schemes(schemes) => schemes.run(),
        }
    }
}
