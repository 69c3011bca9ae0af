//! Link arguments of the preload library.

fn main() {
    // Initialised before every other library: hooks of a fork run in the order in which they were
    // registered, and ours must be the first in the child.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    // All symbols are bound when the library is loaded: binding on first use, on the fault path,
    // would run the loader's code.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rerun-if-changed=build.rs");
}
