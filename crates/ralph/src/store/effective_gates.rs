//! The effective gate definition: what the user accepted, whatever the file says now.

use std::io;
use std::time::Duration;

use ralph_core::config::{Config, Defaults};
use ralph_core::ledger::facts::DefinitionStatus;
use ralph_core::model::config_problem::ConfigProblem;
use ralph_core::model::foreign_text;
use ralph_core::model::id::Digest;
use ralph_core::model::layout::Layout;
use ralph_core::model::secrets::Secrets;
use similar::{ChangeTag, TextDiff};

use crate::store::acceptance::{Acceptance, Acceptances};
use crate::store::home::Home;
use crate::store::repo::{ConfigFile, Repo};
use crate::sys::files;

/// The gates found for a repo.
#[derive(Debug)]
pub(crate) enum GatesLookup {
    /// No config and nothing accepted.
    Nothing,
    /// There is a config, but none was ever accepted.
    Untrusted(ConfigFile),
    /// All acceptances were revoked.
    Revoked,
    Effective(Box<EffectiveGates>),
}

/// An accepted definition, and how the repo's file differs from it.
#[derive(Clone, Debug)]
pub(crate) struct EffectiveGates {
    pub(crate) layout: Layout,
    /// `None` if nothing was accepted.
    pub(crate) sha256: Option<Digest>,
    pub(crate) config: Config,
    pub(crate) definition_status: DefinitionStatus,
    /// The error if the current file cannot be read.
    pub(crate) broken: Option<BrokenConfig>,
}

#[derive(Clone, Debug)]
pub(crate) struct BrokenConfig {
    pub(crate) path: &'static str,
    pub(crate) text: String,
    pub(crate) problem: ConfigProblem,
}

impl EffectiveGates {
    /// Whether there is anything to judge by, even an unreadable definition.
    pub(crate) fn has_gates(&self) -> bool {
        self.config.enabled && (self.broken.is_some() || !self.config.gates.is_empty())
    }

    /// The same for a loop that ships: claims about the code are left out of its tree.
    pub(crate) fn for_shipping(self) -> Self {
        Self { config: self.config.for_shipping(), ..self }
    }

    /// No gates: nothing was accepted.
    pub(crate) fn nothing() -> Self {
        let config = Config::default();
        let (layout, sha256, standing) = (Layout::Native, None, DefinitionStatus::Accepted);
        Self { layout, sha256, config, definition_status: standing, broken: None }
    }
}

impl EffectiveGates {
    /// A definition that was revoked while a loop ran under it.
    pub(crate) fn revoked(layout: Layout, sha256: Option<Digest>) -> Self {
        Self { layout, sha256, definition_status: DefinitionStatus::Revoked, ..Self::nothing() }
    }
}

impl GatesLookup {
    /// `revoked` says that there were acceptances once.
    pub(crate) fn lookup(
        home: &Home,
        repo: &Repo,
        accepted: &Acceptances,
        revoked: bool,
        defaults: &Defaults,
    ) -> io::Result<Self> {
        let (file, unreadable) = match repo.config() {
            Ok(file) => (file, None),
            // Once something was accepted, an unreadable file counts as a changed one.
            Err(error) if !accepted.counting.is_empty() => (None, Some(error)),
            Err(error) => return Err(error),
        };
        // The same text has another meaning in another layout.
        let is_file = |acceptance: &&Acceptance| {
            file.as_ref()
                .is_some_and(|file| file.layout == acceptance.layout && file.sha256() == acceptance.sha256)
        };
        if let (None, Some(since), Some(file)) =
            (accepted.counting.iter().find(is_file), accepted.since.iter().find(is_file), &file)
        {
            return Ok(Self::effective(
                since.layout,
                &file.text,
                DefinitionStatus::AcceptedSince,
                None,
                defaults,
            ));
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
            return Ok(Self::effective(layout, &text, DefinitionStatus::Accepted, None, defaults));
        }
        let text = accepted_text(home, &newest.sha256)?;
        let difference = match &unreadable {
            Some(error) => format!("cannot read the file: {error}"),
            None => difference(&text, file.as_ref().map(|file| file.text.as_slice())),
        };
        // A parse error with its line is more useful than the difference.
        let broken = file.and_then(|file| parse(file.layout, &file.text, defaults).err());
        Ok(Self::effective(newest.layout, &text, DefinitionStatus::Changed { difference }, broken, defaults))
    }

    fn effective(
        layout: Layout,
        text: &[u8],
        standing: DefinitionStatus,
        broken: Option<BrokenConfig>,
        defaults: &Defaults,
    ) -> Self {
        let sha256 = Digest::of(text);
        // The definition was valid when accepted; if this build cannot parse it, the defaults apply.
        let (config, broken) = match parse(layout, text, defaults) {
            Ok(config) => (config, broken),
            Err(unreadable) => (Config::default(), Some(unreadable)),
        };
        Self::Effective(Box::new(EffectiveGates {
            layout,
            sha256: Some(sha256),
            config,
            definition_status: standing,
            broken,
        }))
    }
}

/// Parses a config, keeping the text for error messages.
pub(crate) fn parse(layout: Layout, bytes: &[u8], defaults: &Defaults) -> Result<Config, BrokenConfig> {
    let text = String::from_utf8_lossy(bytes);
    let path = layout.data().config;
    Config::parse(&text, layout, defaults).map_err(|problem| BrokenConfig {
        path,
        text: text.into_owned(),
        problem,
    })
}

/// The accepted text, checked against its digest.
fn accepted_text(home: &Home, sha256: &Digest) -> io::Result<Vec<u8>> {
    let path = home.definition_file(sha256);
    let text = files::read_if_there(&path)?.unwrap_or_default();
    if Digest::of(&text) == *sha256 {
        return Ok(text);
    }
    let what = format!(
        "{} does not match the accepted definition; run `ralph trust` to accept the gates again",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// The differing lines, in file order, shortened and safe to print.
fn difference(accepted: &[u8], now: Option<&[u8]>) -> String {
    const MOST_LINES: usize = 40;
    /// Above this the difference is not minimised, because a hook waits for it.
    const LONGEST_SEARCH: Duration = Duration::from_millis(100);
    let Some(now) = now else { return "the file was removed".into() };
    let (accepted, now) = (String::from_utf8_lossy(accepted), String::from_utf8_lossy(now));
    let (old, new): (Vec<&str>, Vec<&str>) = (accepted.lines().collect(), now.lines().collect());
    let diff = TextDiff::configure().timeout(LONGEST_SEARCH).diff_slices(&old, &new);
    let changed = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    let lines: Vec<String> =
        changed.take(MOST_LINES).map(|change| format!("{}{}", change.tag(), change.value())).collect();
    let text = if lines.is_empty() { "only line endings differ".into() } else { lines.join("\n") };
    foreign_text::clean_for_agent(text.as_bytes(), &Secrets::default())
}
