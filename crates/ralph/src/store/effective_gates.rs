//! The gate definition in force: what a person accepted, whatever the file says now.

use std::io;
use std::time::Duration;

use ralph_core::config::{Config, Defaults};
use ralph_core::ledger::facts::Standing;
use ralph_core::model::foreign_text;
use ralph_core::model::id::Digest;
use ralph_core::model::layout::Layout;
use ralph_core::model::problem::Problem;
use ralph_core::model::secrets::Secrets;
use similar::{ChangeTag, TextDiff};

use crate::store::home::Home;
use crate::store::repo::{ConfigFile, Repo};
use crate::store::trust::{Acceptance, Acceptances};
use crate::sys::files;

/// What holds in a repo.
#[derive(Debug)]
pub(crate) enum Found {
    /// No config and nothing accepted: nobody asked for anything here.
    Nothing,
    /// There is a config, but no person ever accepted one.
    Untrusted(ConfigFile),
    /// Everything accepted was taken back.
    Revoked,
    InForce(Box<InForce>),
}

/// An accepted definition, and how the file of the repo stands to it.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) layout: Layout,
    /// None where nothing was accepted.
    pub(crate) sha256: Option<Digest>,
    pub(crate) config: Config,
    pub(crate) standing: Standing,
    /// The file, as it is now, cannot be read.
    pub(crate) broken: Option<Broken>,
}

#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) path: &'static str,
    pub(crate) text: String,
    pub(crate) problem: Problem,
}

impl InForce {
    /// Whether there is anything to judge by, were it only a definition that nobody can read.
    pub(crate) fn has_gates(&self) -> bool {
        self.config.enabled && (self.broken.is_some() || !self.config.gates.is_empty())
    }

    /// Where nobody accepted anything: there is no gate.
    pub(crate) fn nothing() -> Self {
        let config = Config::default();
        let (layout, sha256, standing) = (Layout::Native, None, Standing::Accepted);
        Self { layout, sha256, config, standing, broken: None }
    }
}

impl InForce {
    /// What held once and was taken back while a loop ran under it.
    pub(crate) fn revoked(layout: Layout, sha256: Option<Digest>) -> Self {
        Self { layout, sha256, standing: Standing::Revoked, ..Self::nothing() }
    }
}

impl Found {
    /// `revoked` says that there were acceptances once.
    pub(crate) fn look(
        home: &Home,
        repo: &Repo,
        accepted: &Acceptances,
        revoked: bool,
        defaults: &Defaults,
    ) -> io::Result<Self> {
        let (file, unreadable) = match repo.config() {
            Ok(file) => (file, None),
            // Once something was accepted, a file that nobody can read is a changed one.
            Err(error) if !accepted.counting.is_empty() => (None, Some(error)),
            Err(error) => return Err(error),
        };
        // The same text means something else at the place of another layout.
        let is_file = |acceptance: &&Acceptance| {
            file.as_ref()
                .is_some_and(|file| file.layout == acceptance.layout && file.sha256() == acceptance.sha256)
        };
        if let (None, Some(since), Some(file)) =
            (accepted.counting.iter().find(is_file), accepted.since.iter().find(is_file), &file)
        {
            return Ok(Self::in_force(since.layout, &file.text, Standing::AcceptedSince, None, defaults));
        }
        let Some(newest) = accepted.counting.last() else {
            return Ok(match file {
                _ if revoked => Self::Revoked,
                Some(file) => Self::Untrusted(file),
                None => Self::Nothing,
            });
        };
        let file_sha256 = file.as_ref().map(ConfigFile::sha256);
        let file_layout = file.as_ref().map(|file| file.layout);
        let same = |acceptance: &&Acceptance| {
            unreadable.is_none()
                && Some(&acceptance.sha256) == file_sha256.as_ref()
                && file_layout.is_none_or(|layout| layout == acceptance.layout)
        };
        if let Some(acceptance) = accepted.counting.iter().find(same) {
            let layout = acceptance.layout;
            let text = file.map(|file| file.text).unwrap_or_default();
            return Ok(Self::in_force(layout, &text, Standing::Accepted, None, defaults));
        }
        let text = accepted_text(home, &newest.sha256)?;
        let difference = match &unreadable {
            Some(error) => format!("the file cannot be read: {error}"),
            None => difference(&text, file.as_ref().map(|file| file.text.as_slice())),
        };
        // A file that means nothing is told with its line, which matters more than what differs.
        let broken = file.and_then(|file| parse(file.layout, &file.text, defaults).err());
        Ok(Self::in_force(newest.layout, &text, Standing::Changed { difference }, broken, defaults))
    }

    fn in_force(
        layout: Layout,
        text: &[u8],
        standing: Standing,
        broken: Option<Broken>,
        defaults: &Defaults,
    ) -> Self {
        let sha256 = Digest::of(text);
        // What was accepted could be read then; where this build cannot, the rest of the defaults still holds.
        let (config, broken) = match parse(layout, text, defaults) {
            Ok(config) => (config, broken),
            Err(unreadable) => (Config::default(), Some(unreadable)),
        };
        Self::InForce(Box::new(InForce { layout, sha256: Some(sha256), config, standing, broken }))
    }
}

/// Reads a config's bytes, keeping what is needed to draw an error.
pub(crate) fn parse(layout: Layout, bytes: &[u8], defaults: &Defaults) -> Result<Config, Broken> {
    let text = String::from_utf8_lossy(bytes);
    let path = layout.data().config;
    Config::parse(&text, layout, defaults).map_err(|problem| Broken {
        path,
        text: text.into_owned(),
        problem,
    })
}

/// The text that was accepted, checked against its own name.
fn accepted_text(home: &Home, sha256: &Digest) -> io::Result<Vec<u8>> {
    let path = home.definition_file(sha256);
    let text = files::read_if_there(&path)?.unwrap_or_default();
    if Digest::of(&text) == *sha256 {
        return Ok(text);
    }
    let what = format!(
        "{} is not the definition that was accepted; a person has to run `ralph trust`",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// What differs, line by line in the order of the files, short and harmless to show.
fn difference(accepted: &[u8], now: Option<&[u8]>) -> String {
    const MOST_LINES: usize = 40;
    /// Beyond this the difference is correct but longer than it need be: a hook waits for it.
    const LONGEST_SEARCH: Duration = Duration::from_millis(100);
    let Some(now) = now else { return "the file was removed".into() };
    let (accepted, now) = (String::from_utf8_lossy(accepted), String::from_utf8_lossy(now));
    let (old, new): (Vec<&str>, Vec<&str>) = (accepted.lines().collect(), now.lines().collect());
    let diff = TextDiff::configure().timeout(LONGEST_SEARCH).diff_slices(&old, &new);
    let changed = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    let lines: Vec<String> =
        changed.take(MOST_LINES).map(|change| format!("{}{}", change.tag(), change.value())).collect();
    let text = if lines.is_empty() { "only line ends differ".into() } else { lines.join("\n") };
    foreign_text::clean_for_agent(text.as_bytes(), &Secrets::default())
}
