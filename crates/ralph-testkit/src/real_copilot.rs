//! The real Copilot CLI as an agent of the driver: its package and its home.

use std::io;
use std::path::Path;

use crate::npm_install::Package;
use crate::real_agent::{ClientVariables, hermetic};
use crate::scripted_model::ScriptedModel;

/// The one version that the real-client tests support.
pub const COPILOT_VERSION: &str = "1.0.102";

pub(crate) const COPILOT: Package = Package {
    title: "Copilot CLI",
    name: "@github/copilot",
    version: COPILOT_VERSION,
    folder: "copilot",
    needs: "Node.js 20 or newer and npm",
    programs: |modules| vec![modules.join(".bin/copilot")],
    start: hermetic,
};

/// A custom model needs no account; in offline mode the client connects to nothing else.
pub(crate) fn settle(home: &Path, model: &ScriptedModel) -> io::Result<ClientVariables> {
    Ok(vec![
        ("COPILOT_HOME", home.join(".copilot").display().to_string()),
        ("COPILOT_OFFLINE", "true".into()),
        ("COPILOT_AUTO_UPDATE", "false".into()),
        ("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", model.base_url())),
        ("COPILOT_PROVIDER_TYPE", "openai".into()),
        ("COPILOT_PROVIDER_API_KEY", "dummy".into()),
        ("COPILOT_MODEL", "scripted".into()),
    ])
}
