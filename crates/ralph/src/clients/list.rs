//! All agent clients whose hooks ralph answers: the only place that lists them.

use std::sync::OnceLock;

use crate::clients::claude::CLAUDE;
use crate::clients::client::Client;
use crate::clients::installation::Installation;

/// The clients of the program `ralph`, the default one first.
pub(crate) static ALL: &[&Client] = &[&CLAUDE];

static OF_THIS_PROGRAM: OnceLock<&'static [&'static Client]> = OnceLock::new();

/// Sets the clients of this program, once, before anything else runs.
pub(crate) fn register(clients: &'static [&'static Client]) {
    let _set_once = OF_THIS_PROGRAM.set(clients);
}

/// The clients of this program.
pub(crate) fn all() -> &'static [&'static Client] {
    OF_THIS_PROGRAM.get().copied().unwrap_or(ALL)
}

pub(crate) fn find(name: &str) -> Option<&'static Client> {
    all().iter().copied().find(|client| client.name == name)
}

/// The names of all clients, for messages.
pub(crate) fn names() -> String {
    all().iter().map(|client| client.name).collect::<Vec<_>>().join(", ")
}

/// The first client in which `ralph init` can install our hook.
pub(crate) fn first_installable() -> Option<(&'static Client, &'static Installation)> {
    all().iter().find_map(|client| Some((*client, client.installation?)))
}

/// The text of a file without our entries; `None` if no client's settings are in it.
pub(crate) fn take_out(text: &str, before: Option<&str>) -> Option<String> {
    let installations = all().iter().filter_map(|client| client.installation);
    installations.into_iter().find_map(|installation| (installation.take_out)(text, before))
}
