export PATH=$OLD_HOME/.cargo/bin:$PATH CARGO_HOME=$OLD_HOME/.cargo RUSTUP_HOME=$OLD_HOME/.rustup CARGO_TERM_COLOR=never
run_cargo() { record rustc "$1" env CARGO_TARGET_DIR=target cargo "${@:2}"; }
crate() {
  mkdir -p src
  printf '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n' >Cargo.toml
  cat >src/lib.rs
}
many() {
  crate <<'RS'
use std::collections::HashMap;

mod other;

pub fn total(prices: &Vec<u32>) -> u32 {
    let unused = 1;
    return prices.iter().sum();
}

pub fn text() -> String {
    1
}

pub fn borrow() -> &'static str {
    let owned = String::new();
    &owned
}

pub fn call() {
    missing();
    total();
}
RS
  cat >src/other.rs <<'RS'
pub fn broken() {
    let x: u32 = "text";
    y.len();
}
RS
}
sample; crate <<<'pub fn total() -> u32 { 1 }'; run_cargo clean check
sample; crate <<<'pub fn total() -> u32 { "text" }'; run_cargo one check
sample; many; run_cargo many check
run_cargo many_short check --message-format short
CARGO_TERM_COLOR=always run_cargo colours check
sample; crate <<<'pub fn total( -> u32 { 1 }'; run_cargo syntax check
sample; crate <<<''; echo 'nonsense = [' >>Cargo.toml; run_cargo config_error check
sample; crate <<'RS'
pub fn total(prices: &Vec<u32>) -> u32 {
    let mut sum = 0;
    for i in 0..prices.len() {
        sum = sum + prices[i];
    }
    return sum;
}

pub fn compare(x: f32) -> bool {
    x == x
}
RS
run_cargo clippy clippy
run_cargo clippy_denied clippy -- -D warnings
