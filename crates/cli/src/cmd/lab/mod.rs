//! `lab`: the commands that show how hash functions and tables behave, one file each; `keys.rs` where they have keys from.

mod keys;
mod tune;
mod tune_page;

use crate::failure::Result;

const EXAMPLES: &str = "\
Examples:
  splitpoint lab hash words.txt             every function on your own keys
  splitpoint lab tune users.tsv             page size, fill factor, cache and function for your pairs";

/// How hash functions and tables behave on your own keys
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Tune(tune::Tune),
}

impl Lab {
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Tune(tune) => tune.run(),
        }
    }
}
