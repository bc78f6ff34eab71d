//! Built with the change before: when the sources are put back, no tool may reuse that build. cargo is tested in `tests/it`,
//! Python's bytecode in `runners.rs`.

use crate::{commit, prepare, proven, repo};

#[test]
fn make_builds_again() {
    let sandbox = repo("make test");
    sandbox.file("Makefile", "test: built\n\tgrep -q new built\nbuilt: value\n\tcp value built\n");
    sandbox.file(".gitignore", "built\n");
    sandbox.file("value", "old\n");
    commit(&sandbox);
    sandbox.file("value", "new\n");
    assert_eq!(sandbox.verify(&[])["verdict"], "verified");
    let (proof, code) = proven(&sandbox);
    assert_eq!((proof["rows"][0]["kind"].as_str(), code), (Some("fixed"), Some(0)), "{proof:#}");
}

#[test]
fn tsc_builds_again() {
    let sandbox = repo("npx tsc -b && node dist/value.test.js");
    sandbox.file(
        "package.json",
        r#"{"name": "small", "private": true, "devDependencies": {"typescript": "5.9.3"}}"#,
    );
    sandbox.file(
        "tsconfig.json",
        r#"{"compilerOptions": {"composite": true, "incremental": true, "outDir": "dist", "rootDir": "src", "module": "commonjs", "types": []}, "include": ["src"]}"#,
    );
    sandbox.file(".gitignore", "node_modules\ndist\n*.tsbuildinfo\n");
    prepare(&sandbox, "npm install --silent --no-audit --no-fund --ignore-scripts");
    sandbox.file(
        "src/value.test.ts",
        "import { value } from \"./value\";\nif (value !== \"new\") throw new Error(value);\n",
    );
    sandbox.file("src/value.ts", "export const value: string = \"old\";\n");
    commit(&sandbox);
    sandbox.file("src/value.ts", "export const value: string = \"new\";\n");
    assert_eq!(sandbox.verify(&[])["verdict"], "verified");
    let (proof, code) = proven(&sandbox);
    assert_eq!((proof["rows"][0]["kind"].as_str(), code), (Some("fixed"), Some(0)), "{proof:#}");
}
