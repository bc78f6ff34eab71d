//! Which language server a file needs, and whether it is installed: an agent that asks a server that is not there waits
//! for nothing.

use std::path::Path;

use crate::sys::env;

/// Extensions, the servers that know them (any one will do), and how to get the first.
const SERVERS: [(&[&str], &[&str], &str); 11] = [
    (&["rs"], &["rust-analyzer"], "rustup component add rust-analyzer"),
    (
        &["ts", "tsx", "js", "jsx", "mjs", "cjs", "mts", "cts"],
        &["typescript-language-server", "vtsls"],
        "npm install -g typescript-language-server typescript",
    ),
    (&["py", "pyi"], &["pyright-langserver", "pylsp", "basedpyright-langserver"], "npm install -g pyright"),
    (&["go"], &["gopls"], "go install golang.org/x/tools/gopls@latest"),
    (&["c", "h", "cc", "cpp", "cxx", "hpp", "hh"], &["clangd", "ccls"], "install clangd with LLVM"),
    (&["java"], &["jdtls"], "install Eclipse JDT LS"),
    (&["kt", "kts"], &["kotlin-language-server"], "install kotlin-language-server"),
    (&["rb"], &["ruby-lsp", "solargraph"], "gem install ruby-lsp"),
    (&["php"], &["intelephense", "phpactor"], "npm install -g intelephense"),
    (&["cs"], &["csharp-ls", "OmniSharp"], "dotnet tool install -g csharp-ls"),
    (&["lua"], &["lua-language-server"], "install lua-language-server"),
];

/// Why the server for this file cannot answer; none where one is installed, or none is known for it.
pub(crate) fn missing_for(file: &str) -> Option<String> {
    let path = env::path();
    missing_in(file, |program| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn missing_in(file: &str, is_installed: impl Fn(&str) -> bool) -> Option<String> {
    let extension = Path::new(file).extension()?.to_str()?.to_ascii_lowercase();
    let (_, servers, how) = SERVERS.iter().find(|(known, ..)| known.contains(&extension.as_str()))?;
    if servers.iter().any(|server| is_installed(server)) {
        return None;
    }
    let named = servers.join("` or `");
    Some(format!(
        "ralph: no language server for .{extension} files is installed. `{named}` is needed: {how}."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_is_named_and_an_installed_or_unknown_one_is_not() {
        let nothing = |_: &str| false;
        assert!(missing_in("src/main.rs", nothing).is_some_and(|why| why.contains("rust-analyzer")));
        assert!(missing_in("a/b.TSX", nothing).is_some_and(|why| why.contains("typescript-language-server")));
        assert_eq!(missing_in("src/main.rs", |program| program == "rust-analyzer"), None);
        assert_eq!(missing_in("x.py", |program| program == "pylsp"), None);
        assert_eq!(missing_in("README.md", nothing), None);
        assert_eq!(missing_in("Makefile", nothing), None);
    }
}
