#![no_main]

#[path = "../src/probes.rs"]
mod probes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| probes::results_shellcheck(bytes));
