export PATH=$OLD_HOME/.cargo/bin:$PATH CARGO_HOME=$OLD_HOME/.cargo RUSTUP_HOME=$OLD_HOME/.rustup CARGO_TERM_COLOR=never
source "$here/tools/rust_samples.sh.in"
cargo_test() { record cargo_test "$1" env CARGO_TARGET_DIR=target cargo test --offline -j1 "${@:2}"; }
sample; passing; cargo_test all_pass
sample; one; cargo_test one_failure
CARGO_TERM_COLOR=always cargo_test colours -- --color=always
cargo_test quiet -q
RUST_BACKTRACE=1 cargo_test backtrace --lib
cargo_test shown_output --lib -- --nocapture --test-threads=1
sample; twelve; cargo_test twelve_failures --no-fail-fast
sample; passing; echo 'fn broken() -> u32 { "text" }' >>src/lib.rs; cargo_test import_crash
sample; none; cargo_test no_test
sample; passing; mkdir -p tests; echo '#[test] fn aborts() { std::process::abort() }' >tests/abort.rs; cargo_test abort
