//! `completions` and `man`: shell completions and man pages, generated from the declarations of the commands.

use crate::failure::{Failure, Result};
use crate::output::Output;
use clap_complete::Shell;
use clap_mangen::Man;
use splitpoint::OutputFile;
use std::fs;
use std::path::{Path, PathBuf};

/// Write the completions of a shell to standard output
///
/// bash: to share/bash-completion/completions/splitpoint; zsh: to share/zsh/site-functions/_splitpoint; fish: to
/// share/fish/vendor_completions.d/splitpoint.fish.
#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub fn run(self, mut program: clap::Command) -> Result<()> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut program, "splitpoint", &mut text);
        let mut out = Output::stdout();
        out.write(&text)?;
        out.flush()
    }
}

/// Write the man pages, one per command
///
/// Without --out, the page of splitpoint itself goes to standard output: `splitpoint man | man -l -`.
#[derive(clap::Args)]
pub struct ManPages {
    /// The directory for splitpoint.1, splitpoint-load.1, ...; created if missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ManPages {
    pub fn run(self, program: clap::Command) -> Result<()> {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        let Some(directory) = self.out else {
            let mut out = Output::stdout();
            out.write(&page(&program, "splitpoint")?)?;
            return out.flush();
        };
        fs::create_dir_all(&directory).map_err(|error| Failure::io(directory.display(), &error))?;
        write_pages(&program, "splitpoint", &directory)
    }
}

fn page(command: &clap::Command, name: &str) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let man = Man::new(command.clone()).title(name.to_uppercase()).manual("Splitpoint");
    man.render(&mut text).map_err(|error| Failure::io("a man page", &error))?;
    Ok(text)
}

fn write_pages(command: &clap::Command, name: &str, directory: &Path) -> Result<()> {
    let path = directory.join(format!("{name}.1"));
    OutputFile::write(&path, page(command, name)?).map_err(|error| Failure::io(path.display(), &error))?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(sub, &format!("{name}-{}", sub.get_name()), directory)?;
    }
    Ok(())
}
