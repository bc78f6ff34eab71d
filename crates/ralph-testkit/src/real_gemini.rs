//! The real Gemini CLI as an agent of the driver: its package and its home.

use std::io;
use std::path::Path;

use serde_json::json;

use crate::npm_install::Package;
use crate::real_agent::{ClientVariables, hermetic, write_into};
use crate::scripted_model::ScriptedModel;

/// The one version that the real-client tests support.
pub const GEMINI_CLI_VERSION: &str = "0.61.0";

pub(crate) const GEMINI: Package = Package {
    title: "Gemini CLI",
    name: "@google/gemini-cli",
    version: GEMINI_CLI_VERSION,
    folder: "gemini-cli",
    needs: "Node.js 20 or newer and npm",
    programs: |modules| vec![modules.join(".bin/gemini")],
    start: hermetic,
};

/// Without a model name the client first asks another model which one to use, and does not accept a scripted answer.
const MODEL: &str = "gemini-2.5-flash";

pub(crate) fn settle(home: &Path, model: &ScriptedModel) -> io::Result<ClientVariables> {
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "model": {"name": MODEL},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "general": {"enableAutoUpdate": false},
    });
    write_into(home, ".gemini/settings.json", &format!("{settings:#}\n"))?;
    Ok(vec![
        ("GEMINI_API_KEY", "dummy".into()),
        ("GOOGLE_GEMINI_BASE_URL", model.base_url()),
        ("GEMINI_TELEMETRY_ENABLED", "false".into()),
        ("NO_BROWSER", "1".into()),
        // It writes a report of every error to the folder for temporary files.
        ("TMPDIR", home.display().to_string()),
    ])
}
