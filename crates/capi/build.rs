//! Link options of `libsplitpoint.so`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The number rises when a program compiled with an older header would break: see "Versions" in splitpoint.h.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsplitpoint.so.0");
    // Never unloaded by dlclose: threads that write checkpoints and the handler of SIGBUS run its code.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
