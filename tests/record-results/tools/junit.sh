# Reports of runners whose text is recorded elsewhere.
python_tools pytest pytest pytest-xdist
node_tools vitest vitest
export PATH=$OLD_HOME/.cargo/bin:$PATH CARGO_HOME=$OLD_HOME/.cargo RUSTUP_HOME=$OLD_HOME/.rustup
report() { # report CASE FILE COMMAND…: keeps the report that the command writes
  local case=$1 file=$2
  shift 2
  rm -f "$file"
  ("$@" >/dev/null 2>&1 || true) </dev/null
  record junit "$case" cat "$file"
}
sample; mkdir tests
printf 'import pytest\n\ndef test_half():\n    assert 180 == 100, "<half> & more"\n\ndef test_passes(): pass\n\n@pytest.mark.skip\ndef test_skipped(): pass\n\nclass TestIn:\n    def test_raises(self):\n        {}["key"]\n' >tests/test_discount.py
report pytest out.xml pytest -p no:cacheprovider --junitxml=out.xml
sample; ln -s "$node_folder/node_modules" node_modules; mkdir src; echo '{"type":"module"}' >package.json
printf 'import { describe, expect, it } from "vitest"\n\ndescribe("discount", () => {\n  it("half", () => {\n    expect(180).toBe(100)\n  })\n  it("passes", () => {})\n  it.skip("later", () => {})\n})\n' >src/discount.test.js
report vitest out.xml vitest run --reporter=junit --outputFile=out.xml
record junit vitest_stdout env NO_COLOR=1 vitest run --reporter=junit
printf 'import assert from "node:assert"\nimport { describe, it } from "node:test"\n\ndescribe("discount", () => {\n  it("half", () => {\n    assert.equal(180, 100)\n  })\n  it("passes", () => {})\n})\n' >src/node.test.mjs
record junit node_stdout node --test --test-reporter=junit src/node.test.mjs
debian phpunit phpunit php-cli php-xml php-mbstring
sample; mkdir tests
printf '<?php\nuse PHPUnit\\Framework\\TestCase;\n\nfinal class DiscountTest extends TestCase\n{\n    public function testHalf(): void\n    {\n        $this->assertSame(100, 180);\n    }\n    public function testPasses(): void { $this->assertTrue(true); }\n}\n' >tests/DiscountTest.php
report phpunit out.xml phpunit --do-not-cache-result --log-junit out.xml tests
sample; mkdir -p src .config
printf '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n' >Cargo.toml
printf '#[test]\nfn half() {\n    assert_eq!(180, 100);\n}\n#[test]\nfn passes() {}\n' >src/lib.rs
printf '[profile.default.junit]\npath = "junit.xml"\n' >.config/nextest.toml
report nextest target/nextest/default/junit.xml env CARGO_TARGET_DIR=target cargo nextest run --offline --build-jobs 1
