//! Finds secrets in text: values of variables with secret-looking names, keys in known formats, passwords in URLs.

/// Values that must not be shown, in all common encodings.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Vec<String>);

/// Shorter values are ordinary words such as `true`, not secrets.
const SHORTEST_SECRET: usize = 8;

const REDACTED: &str = "[redacted]";

impl Secrets {
    /// Selects variables with secret-looking names.
    pub fn from_variables<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut values: Vec<String> = variables
            .into_iter()
            .filter(|(name, value)| names_a_secret(name) && value.len() >= SHORTEST_SECRET)
            .flat_map(|(_, value)| [value.to_owned(), base64(value.as_bytes()), percent(value)])
            .collect();
        // The longest first, so that a value containing another is redacted whole.
        values.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        values.dedup();
        Self(values)
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.0 {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), REDACTED);
            }
        }
        text
    }
}

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "AUTH", "DSN"].iter().any(|word| name.contains(word))
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    text
}

fn percent(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Redacts keys in known formats.
pub(crate) fn redact_known_keys(text: &str) -> String {
    const PREFIXES: [(&str, usize); 17] = [
        ("sk-", 20),
        ("sk_live_", 20),
        ("rk_live_", 20),
        ("hf_", 25),
        ("SG.", 40),
        ("ghp_", 20),
        ("gho_", 20),
        ("ghs_", 20),
        ("github_pat_", 30),
        ("glpat-", 16),
        ("xoxb-", 16),
        ("xoxp-", 16),
        ("AKIA", 20),
        ("ASIA", 20),
        ("AIza", 35),
        ("npm_", 30),
        ("eyJ", 40),
    ];
    let key_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let looks_like_one =
        |word: &str| PREFIXES.iter().any(|(prefix, least)| word.len() >= *least && word.starts_with(prefix));
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(key_char) {
        redacted.push_str(&rest[..start]);
        let word_end = rest[start..].find(|c| !key_char(c)).map_or(rest.len(), |end| start + end);
        let word = &rest[start..word_end];
        redacted.push_str(if looks_like_one(word) { REDACTED } else { word });
        rest = &rest[word_end..];
    }
    redacted.push_str(rest);
    redact_private_keys(&redact_passwords_in_urls(&redacted))
}

/// `scheme://user:password@host`.
fn redact_passwords_in_urls(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        redacted.push_str(before);
        let authority =
            after.find(|c: char| c == '/' || c.is_whitespace()).map_or(after, |end| &after[..end]);
        rest = after;
        if let Some((userinfo, _host)) = authority.rsplit_once('@')
            && let Some((user, _password)) = userinfo.split_once(':')
        {
            redacted.push_str(user);
            redacted.push(':');
            redacted.push_str(REDACTED);
            rest = &after[userinfo.len()..];
        }
    }
    redacted.push_str(rest);
    redacted
}

fn redact_private_keys(text: &str) -> String {
    if !text.contains("PRIVATE KEY-----") {
        return text.to_owned();
    }
    let mut inside = false;
    let mut lines = Vec::new();
    // Not `lines`, to keep the last line end.
    for line in text.split('\n') {
        let begins = line.contains("-----BEGIN") && line.contains("PRIVATE KEY-----");
        if begins {
            lines.push(REDACTED);
        }
        inside |= begins;
        if !inside {
            lines.push(line);
        }
        inside &= !(line.contains("-----END") && line.contains("PRIVATE KEY-----"));
    }
    lines.join("\n")
}
