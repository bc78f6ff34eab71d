export PATH=$OLD_HOME/.cargo/bin:$PATH CARGO_HOME=$OLD_HOME/.cargo RUSTUP_HOME=$OLD_HOME/.rustup CARGO_TERM_COLOR=never
source "$here/tools/rust_samples.sh.in"
nextest() { record nextest "$1" env CARGO_TARGET_DIR=target cargo nextest run --offline --build-jobs 1 "${@:2}"; }
sample; passing; nextest all_pass
sample; one; nextest one_failure
nextest colours --color=always
nextest retries --retries 1
sample; twelve; nextest twelve_failures --no-fail-fast
sample; passing; echo 'fn broken() -> u32 { "text" }' >>src/lib.rs; nextest import_crash
sample; none; nextest no_test
sample; passing; mkdir -p tests; echo '#[test] fn aborts() { std::process::abort() }' >tests/abort.rs; nextest abort --no-fail-fast
