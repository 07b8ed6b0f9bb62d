//! `lab`: commands that study hash functions and tables. `keys.rs` reads the keys, `foreign.rs` loads the user's own
//! hash function, `page/` has the parts of HTML pages, `wrap.rs` wraps text.

mod foreign;
pub mod hash;
mod kernel;
mod keys;
mod page;
mod schemes;
mod tune;
mod wrap;

use crate::failure::Result;

const EXAMPLES: &str = "\
Examples:
  splitpoint lab hash words.txt             every function on your own keys
  splitpoint lab hash --source paths /usr   on the paths of this machine
  splitpoint lab hash users.csv --key email --html report.html
  splitpoint lab schemes words.txt          dbm, gdbm, hsearch and others on the same keys
  splitpoint lab tune users.tsv             find settings for your own pairs
  splitpoint lab kernel                     the hash tables of Linux 2.2.5";

/// Study hash functions and tables on your own keys
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
