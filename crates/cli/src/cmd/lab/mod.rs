//! `lab`: the commands that show how hash functions and tables behave, one file each; `keys.rs` where they have keys from, `page/` pages of plots,
//! `foreign.rs` the user's own function.

mod foreign;
pub mod hash;
mod keys;
mod page;

use crate::failure::Result;

const EXAMPLES: &str = "\
Examples:
  splitpoint lab hash words.txt             every function on your own keys
  splitpoint lab hash --source paths /usr   on the paths of this machine
  splitpoint lab hash users.csv --key email --html report.html";

/// How hash functions and tables behave on your own keys
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Hash(hash::Hash),
}

impl Lab {
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Hash(hash) => hash.run(),
        }
    }
}
