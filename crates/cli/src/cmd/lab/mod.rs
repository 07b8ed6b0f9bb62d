//! `lab`: the commands that show how hash functions and tables behave, one file each; `keys.rs` where they have keys from, `page/` their
//! pages of plots, `foreign.rs` the user's own function.

mod foreign;
pub mod hash;
mod kernel;
mod keys;
mod page;
mod schemes;
mod tune;

use crate::failure::Result;

const EXAMPLES: &str = "\
Examples:
  splitpoint lab hash words.txt             every function on your own keys
  splitpoint lab hash --source paths /usr   on the paths of this machine
  splitpoint lab hash users.csv --key email --html report.html
  splitpoint lab schemes words.txt          dbm, gdbm, hsearch, ours... on them
  splitpoint lab tune users.tsv             page size, fill factor, cache and function for your pairs
  splitpoint lab kernel                     the hash tables of Linux 2.2.5";

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
    Schemes(schemes::Schemes),
    Tune(tune::Tune),
    Kernel(kernel::Kernel),
}

impl Lab {
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Hash(hash) => hash.run(),
            Command::Schemes(schemes) => schemes.run(),
            Command::Tune(tune) => tune.run(),
            Command::Kernel(kernel) => kernel.run(),
        }
    }
}
