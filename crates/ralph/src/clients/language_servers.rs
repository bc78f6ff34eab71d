//! Which language server a file needs, and whether it is installed: an agent would wait in vain for a missing one.

use std::path::Path;

use crate::sys::env;

/// Extensions, their servers (any one is enough), and how to install the first.
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

/// Why no server can answer for this file; `None` if one is installed, or none is known for it.
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
    Some(format!("ralph: no language server for .{extension} files is installed. Install `{named}`: {how}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_only_a_missing_server() {
        let nothing = |_: &str| false;
        assert!(missing_in("src/main.rs", nothing).is_some_and(|why| why.contains("rust-analyzer")));
        assert!(missing_in("a/b.TSX", nothing).is_some_and(|why| why.contains("typescript-language-server")));
        assert_eq!(missing_in("src/main.rs", |program| program == "rust-analyzer"), None);
        assert_eq!(missing_in("x.py", |program| program == "pylsp"), None);
        assert_eq!(missing_in("README.md", nothing), None);
        assert_eq!(missing_in("Makefile", nothing), None);
    }
}
