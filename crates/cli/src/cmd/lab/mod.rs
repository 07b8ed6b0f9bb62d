//! `lab`: the commands that show how hash functions and tables behave, one file each; `keys.rs` where they have keys from.

mod kernel;
mod keys;

use crate::failure::Result;

const EXAMPLES: &str = "\
Examples:
  splitpoint lab hash words.txt             every function on your own keys
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
    Kernel(kernel::Kernel),
}

impl Lab {
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Kernel(kernel) => kernel.run(),
        }
    }
}
