//! The server by itself, with the options of `splitpoint serve`: builds faster than the whole program.

use clap::Parser;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    options: splitpoint_server::Options,
}

fn main() {
    if let Err(error) = splitpoint_server::run(Program::parse().options) {
        eprintln!("{error}");
        std::process::exit(if error.usage { 2 } else { 10 });
    }
}
