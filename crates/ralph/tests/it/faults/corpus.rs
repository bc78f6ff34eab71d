//! Every input that fuzzing starts from, through the same functions.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "../../../../../fuzz/src/probes.rs"]
mod probes;

#[test]
fn no_corpus_input_makes_the_core_panic_or_run_long() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, probe) in probes::ALL.iter().chain(probes::READERS) {
        let folder = corpus.join(target);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut count = 0;
        for entry in entries {
            let path = entry.expect("an entry").path();
            let input = fs::read(&path).expect("an input");
            let begun = Instant::now();
            probe(&input);
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "{} took {:?}",
                path.display(),
                begun.elapsed()
            );
            count += 1;
        }
        assert!(count >= 3, "{target} has hardly any input");
    }
}
