# What contributors type; each line works without `just` too.

# Format, lints, docs: seconds once built
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

# Every test that needs nothing but Rust and git; words after it are a filter
test *filter:
    cargo test --workspace --locked {{ filter }}

# Write generated files anew: the snapshots of all texts, the event schema, the transcript in the guide
bless:
    INSTA_UPDATE=always cargo test -p ralph-core --lib --locked
    INSTA_UPDATE=always RALPH_BLESS=1 cargo test -p ralph --lib --test it --locked -- schema guide texts show

# Measure, and write bench/RESULTS.md
bench:
    cargo run --release -p ralph-bench --locked

# The real clients, offline, with a scripted model (npm fetches them once, 1 GB)
e2e *filter:
    cargo test -p ralph -p ralph-testkit --test e2e --test agents --test claude --locked {{ filter }}

# A kill or an error at every system call, a full disk, a sandbox (needs strace)
faults *filter:
    cargo test -p ralph --test faults --locked {{ filter }}

# The README's two commands with nothing but Rust, git, sh and coreutils on PATH
plain:
    tests/plain-path/run

# What must pass before a change lands
ci:
    .ci/run
