//! Compiles the adapters of peers and links their libraries, if the feature `peers` asks for it; else does nothing.
//!
//! `peers/libraries.txt` has one source per line, with the libraries it links; `peers/packages.txt` has their Debian
//! packages.

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
    // The rest of a peer is compiled as in its package; these few lines are compiled alike in every Rust profile.
    let mut c = cc::Build::new();
    c.files(sources(".c")).std("gnu11").opt_level(2).warnings(false).compile("peers_c");
    let mut cc = cc::Build::new();
    cc.files(sources(".cc")).cpp(true).std("c++17").opt_level(2).warnings(false).compile("peers_cc");
    for library in lines().flat_map(|line| line.split_whitespace().skip(1)) {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}
