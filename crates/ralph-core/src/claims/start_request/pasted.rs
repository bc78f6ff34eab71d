//! A command as it stands in a document: lines that go on behind a backslash, comments, quotes that an editor has made
//! round.

/// What stands between two words.
pub(super) struct Gap {
    /// Where the next word starts.
    pub(super) end: usize,
    /// The white space, without comments; a line that goes on is one space.
    pub(super) space: String,
}

impl Gap {
    /// What stands from there to the next word. A comment is `#` and a blank, at a line's start or after an option: the number
    /// of `issue #42` and a heading inside of quotes are the task's.
    pub(super) fn at(line: &str, start: usize, after_option: bool) -> Self {
        let (mut end, mut space) = (start, String::new());
        let mut comments = after_option;
        let mut goes_on = false;
        while let Some(c) = line[end..].chars().next() {
            let rest = &line[end..];
            if c.is_whitespace() {
                comments |= c == '\n';
                space.push(c);
                end += c.len_utf8();
            } else if let Some(length) = continuation(rest) {
                (comments, goes_on) = (true, true);
                end += length;
            } else if comments && is_comment(rest) {
                end += rest.find('\n').unwrap_or(rest.len());
            } else {
                break;
            }
        }
        if goes_on && !space.contains('\n') {
            space = " ".into();
        }
        Self { end, space }
    }
}

/// The length of a backslash and the line end behind it; blanks between the two are seen by nobody who pastes.
pub(super) fn continuation(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('\\')?;
    let line_end = after.trim_start_matches([' ', '\t', '\r']);
    line_end.starts_with('\n').then(|| rest.len() - line_end.len() + 1)
}

fn is_comment(rest: &str) -> bool {
    rest.strip_prefix('#').is_some_and(|text| text.chars().next().is_none_or(char::is_whitespace))
}

/// The characters that close a quote which opens with this one.
pub(super) fn closing(open: char) -> Option<&'static [char]> {
    match open {
        '"' => Some(&['"']),
        '\'' => Some(&['\'']),
        '“' | '”' | '„' | '‟' | '＂' => Some(&['”', '“', '‟', '＂']),
        '‘' | '’' | '‚' | '‛' => Some(&['’', '‘', '‛']),
        _ => None,
    }
}
