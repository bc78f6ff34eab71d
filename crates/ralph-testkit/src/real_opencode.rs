//! The real OpenCode as an agent of the driver: its package and its home.

use std::io;
use std::path::Path;

use serde_json::json;

use crate::npm_install::Package;
use crate::real_agent::{ClientVariables, hermetic, write_into};
use crate::scripted_model::ScriptedModel;

/// The one version that the real-client tests support.
pub const OPENCODE_VERSION: &str = "1.18.33";

pub(crate) const OPENCODE: Package = Package {
    title: "OpenCode",
    name: "opencode-ai",
    version: OPENCODE_VERSION,
    folder: "opencode",
    needs: "Node.js 20 or newer and npm",
    programs: |modules| vec![modules.join(".bin/opencode")],
    start: hermetic,
};

/// The model is a custom provider in the user's config; nothing is fetched, neither models nor updates nor language
/// servers.
pub(crate) fn settle(home: &Path, model: &ScriptedModel) -> io::Result<ClientVariables> {
    let known = |name: &str| json!({"name": name, "limit": {"context": 200_000, "output": 4096}});
    let config = json!({
        "autoupdate": false, "share": "disabled",
        "model": "scripted/scripted", "small_model": "scripted/scripted", "enabled_providers": ["scripted"],
        "provider": {"scripted": {
            "npm": "@ai-sdk/openai-compatible", "name": "Scripted",
            "options": {"baseURL": format!("{}/v1", model.base_url()), "apiKey": "dummy"},
            "models": {"scripted": known("Scripted"), "another": known("Another")},
        }},
    });
    write_into(home, ".config/opencode/opencode.json", &format!("{config:#}\n"))?;
    let off = [
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
    ];
    Ok(off.map(|name| (name, "1".to_owned())).into())
}
