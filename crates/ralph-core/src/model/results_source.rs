//! Where a gate's results are, from its config: `results: junit:target/*.xml`, or `results: tap` for its output.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::result_format::ResultFormat;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultsSource {
    pub format: ResultFormat,
    /// A glob of report files inside the repo; none means the output itself.
    pub files: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultsSourceError {
    #[error("unknown format `{0}`")]
    Format(String),
    #[error("`{0}` is not a path inside the repo")]
    Outside(String),
}

impl FromStr for ResultsSource {
    type Err = ResultsSourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (format, files) = match text.split_once(':') {
            Some((format, files)) => (format, Some(files.trim())),
            None => (text, None),
        };
        let format = format.trim();
        let format = format.parse().map_err(|_| ResultsSourceError::Format(format.to_owned()))?;
        let is_outside = |files: &&str| {
            files.is_empty() || files.starts_with(['/', '\\']) || files.split('/').any(|part| part == "..")
        };
        if let Some(outside) = files.filter(is_outside) {
            return Err(ResultsSourceError::Outside(outside.to_owned()));
        }
        let files = files.map(|files| files.trim_start_matches("./").to_owned());
        Ok(Self { format, files })
    }
}

impl fmt::Display for ResultsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.files {
            Some(files) => write!(f, "{}:{files}", self.format),
            None => write!(f, "{}", self.format),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_format_with_optional_files_inside_the_repo() {
        for text in ["tap", "junit:target/*.xml", "sarif:out/lint.sarif"] {
            assert_eq!(text.parse::<ResultsSource>().expect("a source").to_string(), text);
        }
        for text in ["", "xml", "junit:", "junit:/tmp/x.xml", "junit:a/../../x.xml"] {
            assert!(text.parse::<ResultsSource>().is_err(), "{text}");
        }
    }
}
