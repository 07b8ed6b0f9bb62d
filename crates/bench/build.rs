//! Compiles the adapters of peers and links their libraries, where the feature `peers` asks for it; else does nothing.
//!
//! `peers/libraries.txt` has a source a line, and the libraries it links. What Debian calls their packages:
//! `peers/packages.txt`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "peers")]
    peers();
}

#[cfg(feature = "peers")]
fn peers() {
    const FOLDER: &str = "peers";
    println!("cargo::rerun-if-changed={FOLDER}");
    let list = std::fs::read_to_string(format!("{FOLDER}/libraries.txt")).expect("the list of adapters is there");
    let lines = || list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let sources = |extension: &str| -> Vec<String> {
        let names = lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|name| name.ends_with(extension)).map(|name| format!("{FOLDER}/{name}")).collect()
    };
    // The rest of a peer's code is as its package has it; these few lines are made alike, whatever the Rust profile.
    let mut c = cc::Build::new();
    c.files(sources(".c")).std("gnu11").opt_level(2).warnings(false).compile("peers_c");
    let mut cc = cc::Build::new();
    cc.files(sources(".cc")).cpp(true).std("c++17").opt_level(2).warnings(false).compile("peers_cc");
    for library in lines().flat_map(|line| line.split_whitespace().skip(1)) {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}
