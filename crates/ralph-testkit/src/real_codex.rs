//! The real Codex as an agent of the driver: its package, its home, its tools.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::json;

use crate::npm_install::Package;
use crate::real_agent::{ClientVariables, hermetic, write_into};
use crate::scripted_model::{ScriptedModel, Turn};

/// The one version that the real-client tests support.
pub const CODEX_VERSION: &str = "0.166.0";

pub(crate) const CODEX: Package = Package {
    title: "Codex",
    name: "@openai/codex",
    version: CODEX_VERSION,
    folder: "codex",
    needs: "Node.js and npm",
    programs,
    start: hermetic,
};

/// The npm launcher, else the native binary: the launcher needs a newer Node.js, the binary needs none.
fn programs(modules: &Path) -> Vec<PathBuf> {
    let inside =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let vendored = inside(modules.join("@openai")).flat_map(|package| inside(package.join("vendor")));
    let native = vendored.map(|platform| platform.join("bin/codex")).filter(|program| program.is_file());
    [modules.join(".bin/codex")].into_iter().chain(native).collect()
}

/// The model is a custom provider in the config. Everything else the client would fetch (plugins, apps, updates) is
/// switched off, and so is the compression of requests, which the model does not support. An error is retried once.
const CONFIG: &str = r#"model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
enable_request_compression = false
apps = false
plugins = false

[model_providers.scripted]
name = "scripted"
base_url = "BASE_URL/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 1
stream_max_retries = 1
"#;

pub(crate) fn settle(home: &Path, model: &ScriptedModel) -> io::Result<ClientVariables> {
    write_into(home, ".codex/config.toml", &CONFIG.replace("BASE_URL", &model.base_url()))?;
    Ok(vec![("SCRIPTED_KEY", "dummy".into())])
}

/// For an unknown model the client offers no patch tool; it recognises patches in the shell command instead.
pub(crate) fn write(path: &Path, line: &str) -> Turn {
    let patch = format!("*** Begin Patch\n*** Add File: {}\n+{line}\n*** End Patch", path.display());
    Turn::tool("exec_command", json!({"cmd": format!("apply_patch <<'EOF'\n{patch}\nEOF\n")}))
}
