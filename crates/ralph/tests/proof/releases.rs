//! Two consecutive releases of a package whose archive holds its tests: what the later one fixed is named, and nothing else.

use crate::{commit, prepare, repo};

#[test]
fn itsdangerous_2_1_1_fixed_the_timestamps_of_the_far_future() {
    let sandbox = repo("PYTHONPATH=src ../tools/bin/python -m pytest -q");
    sandbox.file(".gitignore", "__pycache__\n.pytest_cache\n");
    let release = |version: &str| {
        let script = r#"
            test -d ../tools || { python3 -m venv ../tools && ../tools/bin/pip -q install pytest==8.3.5 freezegun==1.5.1; }
            ../tools/bin/pip -q download --no-deps --no-binary :all: -d ../archives itsdangerous==VERSION
            rm -rf src tests
            tar -xzf ../archives/itsdangerous-VERSION.tar.gz --strip-components=1
            rm -rf src/*.egg-info PKG-INFO
        "#;
        prepare(&sandbox, &script.replace("VERSION", version));
        commit(&sandbox);
    };
    release("2.1.0");
    release("2.1.1");
    let ran = sandbox.ralph(&["prove", "--json", "--base", "HEAD~1"]).success();
    let proof = ran.json();
    let named = |kind: &str| -> Vec<String> {
        let rows = proof["rows"].as_array().expect("rows").iter().filter(|row| row["kind"] == kind);
        rows.map(|row| row["test"].as_str().expect("a test").to_owned()).collect()
    };
    assert_eq!(named("fixed"), ["TestTimestampSigner::test_malformed_future_timestamp"]);
    for kind in ["broken", "gone", "proves_nothing", "failing", "not_judged"] {
        assert!(named(kind).is_empty(), "{kind}: {proof:#}");
    }
    assert_eq!(named("unaffected").len(), 296);
}
