//! The added lines of `git diff --unified=0`. The hunk header gives the number of lines, so an added line that looks
//! like a header is not mistaken for one.

/// An added line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    pub file: String,
    /// From 1.
    pub number: u32,
    pub line: String,
}

/// All added lines of a diff, in order; unreadable parts are skipped.
pub fn lines(diff: &[u8], on: &mut dyn FnMut(Added)) {
    let mut file = None;
    let mut hunk = Hunk::default();
    for line in diff.split(|byte| *byte == b'\n') {
        match line.first() {
            Some(b'-') if hunk.removed > 0 => hunk.removed -= 1,
            Some(b'+') if hunk.added > 0 => {
                hunk.added -= 1;
                let number = hunk.number;
                hunk.number = hunk.number.saturating_add(1);
                if let Some(file) = &file {
                    let line = String::from_utf8_lossy(&line[1..]).into_owned();
                    on(Added { file: String::clone(file), number, line });
                }
            }
            // `\ No newline at end of file`
            Some(b'\\') => {}
            _ => {
                let text = String::from_utf8_lossy(line);
                if let Some(name) = text.strip_prefix("+++ ") {
                    file = name_in(name);
                } else if let Some(head) = text.strip_prefix("@@ ") {
                    hunk = Hunk::of(head).unwrap_or_default();
                }
            }
        }
    }
}

/// The rest of the current hunk.
#[derive(Debug, Default)]
struct Hunk {
    removed: u32,
    added: u32,
    /// The number of the next added line.
    number: u32,
}

impl Hunk {
    /// `-3,2 +5 @@ …`
    fn of(head: &str) -> Option<Self> {
        let mut words = head.split(' ');
        let (_, removed) = range(words.next()?.strip_prefix('-')?)?;
        let (number, added) = range(words.next()?.strip_prefix('+')?)?;
        Some(Self { removed, added, number })
    }
}

/// `5` or `5,3`
fn range(text: &str) -> Option<(u32, u32)> {
    match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

/// `b/a file` with a tab behind it, `"b/with \"quotes\""`, or `/dev/null`, which is not a file.
fn name_in(text: &str) -> Option<String> {
    let text = text.trim_end_matches('\r').trim_end_matches('\t');
    let name = match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(quoted) => unquoted(quoted)?,
        None => text.to_owned(),
    };
    name.strip_prefix("b/").map(str::to_owned)
}

/// Reverses C-style quoting.
fn unquoted(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            digit @ b'0'..=b'3' => {
                let mut octal =
                    || rest.next().filter(|digit| (b'0'..=b'7').contains(digit)).map(|d| d - b'0');
                let (second, third) = (octal()?, octal()?);
                (digit - b'0') * 64 + second * 8 + third
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(diff: &str) -> Vec<(String, u32, String)> {
        let mut all = Vec::new();
        lines(diff.as_bytes(), &mut |added| all.push((added.file, added.number, added.line)));
        all
    }

    fn added(file: &str, number: u32, line: &str) -> (String, u32, String) {
        (file.into(), number, line.into())
    }

    #[test]
    fn added_lines_have_their_file_and_number() {
        let diff = "diff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- a/src/a.rs\n+++ b/src/a.rs\n\
                    @@ -3,2 +3,3 @@ fn x() {\n-old\n-older\n+new\n++++ b/not-a-file\n+newest\n\
                    @@ -9,0 +11 @@\n+one\n\\ No newline at end of file\n\
                    diff --git a/gone b/gone\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
                    diff --git a/with space b/with space\n--- a/with space\t\n+++ b/with space\t\n@@ -0,0 +1 @@\n+y\n\
                    --- /dev/null\n+++ \"b/tab\\tand \\303\\251 \\\"q\\\"\"\n@@ -0,0 +1,1 @@\n+z\n";
        assert_eq!(
            read(diff),
            [
                added("src/a.rs", 3, "new"),
                added("src/a.rs", 4, "+++ b/not-a-file"),
                added("src/a.rs", 5, "newest"),
                added("src/a.rs", 11, "one"),
                added("with space", 1, "y"),
                added("tab\tand é \"q\"", 1, "z"),
            ]
        );
    }

    #[test]
    fn text_that_is_not_a_diff_adds_nothing() {
        for text in [
            "",
            "+x",
            "@@ -1 +1 @@\n+no file",
            "+++ b/f\n@@ nonsense @@\n+x",
            "+++ b/f\n@@ -1 +1,99999999999 @@\n+x",
        ] {
            assert_eq!(read(text), [], "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            lines(&bytes, &mut |_| {});
        }

        #[test]
        fn no_name_makes_it_panic(name in "\"?(b/)?[\\\\a-z0-9\"\t ]{0,20}\"?") {
            let _name = name_in(&name);
        }
    }
}
