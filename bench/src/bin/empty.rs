//! What any Rust program costs: the yardstick of the others.

fn main() {}
