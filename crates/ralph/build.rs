//! How the program is linked.

use std::env;

#[expect(clippy::disallowed_methods, reason = "a build script has nothing but variables")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        // At a fixed address the loader has no pointers to correct in our tables, a tenth of what a hook call takes. The
        // libraries, the stack and the heap are still put anywhere.
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
