//! The command line with which a client calls us: `ralph hook NAME --deadline SECONDS`.

use std::path::Path;

/// The command line that the client's shell runs.
pub(crate) fn write(client: &str, program: &str, deadline: u64, shared: bool) -> String {
    if shared {
        // In a shared file: does nothing if ralph is not installed.
        return format!(
            "command -v ralph >/dev/null 2>&1 || exit 0; exec ralph hook {client} --deadline {deadline}"
        );
    }
    format!("{} hook {client} --deadline {deadline}", quoted(program))
}

fn quoted(program: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if program.chars().all(plain) {
        program.to_owned()
    } else {
        format!("'{}'", program.replace('\'', r"'\''"))
    }
}

/// Whether a command line has exactly the form that we write, with a program outside of that folder. Only such a line
/// is ever run: any other command in a repo's settings is not ours.
pub(crate) fn is_as_written(client: &str, line: &str, not_below: &Path) -> bool {
    let Some((head, deadline)) = line.split_once(&format!(" hook {client} --deadline ")) else {
        return false;
    };
    let Ok(deadline) = deadline.parse() else { return false };
    let program = head.strip_prefix('\'').and_then(|head| head.strip_suffix('\'')).unwrap_or(head);
    let program = program.replace(r"'\''", "'");
    let path = Path::new(&program);
    let somebodys =
        path.is_absolute() && !path.starts_with(not_below) && path.file_name() == Some("ralph".as_ref());
    line == write(client, "", deadline, true) || somebodys && line == write(client, &program, deadline, false)
}

/// Whether a command line, or a text that contains one, calls us.
pub(crate) fn is_ours(client: &str, text: &str) -> bool {
    text.contains("ralph") && text.split(" hook ").skip(1).any(|rest| rest.starts_with(client))
}

/// The deadline in a command line.
pub(crate) fn deadline(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "--deadline");
    words.nth(1)?.trim_end_matches('s').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_command_lines_in_our_own_form_are_run() {
        let repo = Path::new("/home/user/repo");
        let write = |program: &str, deadline, shared| write("client", program, deadline, shared);
        for line in
            [write("/opt/a b/ralph", 570, false), write("/opt/ralph", 9, false), write("x", 570, true)]
        {
            assert!(is_as_written("client", &line, repo), "{line}");
            assert!(!is_as_written("another", &line, repo), "{line}");
        }
        for line in [
            "touch /tmp/x; : ralph hook client --deadline 570",
            "/opt/ralph hook client --deadline 570; touch /tmp/x",
            "/opt/ralph hook client --deadline $(touch /tmp/x)",
            "'/opt/ralph' ; 'ralph' hook client --deadline 570",
            "./ralph hook client --deadline 570",
            "/home/user/repo/ralph hook client --deadline 570",
            "/opt/evil hook client --deadline 570",
            "ralph hook client",
        ] {
            assert!(!is_as_written("client", line, repo), "{line}");
        }
    }

    #[test]
    fn a_path_with_spaces_is_quoted_for_the_shell() {
        let line = write("client", "/a b/ralph", 570, false);
        assert_eq!(line, "'/a b/ralph' hook client --deadline 570");
        assert!(is_ours("client", &line) && is_ours("client", &write("client", "x", 570, true)));
        assert!(!is_ours("another", &line) && !is_ours("client", "say hook client"));
    }
}
