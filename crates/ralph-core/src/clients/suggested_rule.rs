//! Which permission rules ralph may suggest. A pipeline, a download or an interpreter with its program on the command line
//! can do anything, so for these the user is never told to add a rule.

/// What is said instead.
pub const NOT_SUGGESTED: &str = "denied; allow the narrow command or run it yourself";

/// Programs that fetch from the network, change the user, or run other programs.
const OPEN_ENDED: [&str; 20] = [
    "curl", "wget", "aria2c", "nc", "ncat", "ssh", "scp", "rsync", "sudo", "doas", "su", "env", "xargs",
    "eval", "exec", "source", ".", "nohup", "command", "time",
];

/// Programs that run the text after `-c` or `-e`.
const INTERPRETERS: [&str; 17] = [
    "sh",
    "bash",
    "dash",
    "ash",
    "zsh",
    "ksh",
    "fish",
    "node",
    "deno",
    "bun",
    "perl",
    "ruby",
    "php",
    "lua",
    "osascript",
    "pwsh",
    "powershell",
];

/// Whether a rule allows one narrow thing.
pub fn is_narrow(rule: &str) -> bool {
    let rule = rule.trim();
    let Some((_, inside)) = rule.split_once('(') else {
        // A whole tool: its name says what it does, except for a shell.
        return !["Bash", "shell"].contains(&rule);
    };
    let inside = inside.strip_suffix(')').unwrap_or(inside);
    let command = inside.strip_suffix(":*").unwrap_or(inside);
    let is_shell = rule.starts_with("Bash(") || rule.starts_with("shell(");
    !is_shell || is_narrow_command(command)
}

fn is_narrow_command(command: &str) -> bool {
    if command.contains(['|', ';', '&', '<', '>', '`', '$', '\n']) {
        return false;
    }
    let mut words = command.split_whitespace().skip_while(|word| word.contains('='));
    let Some(program) = words.next() else { return false };
    let program = program.rsplit('/').next().unwrap_or(program);
    let is_interpreter = INTERPRETERS.contains(&program) || program.starts_with("python");
    let runs_a_file = words.next().is_some_and(|word| !word.starts_with('-'));
    !OPEN_ENDED.contains(&program) && (!is_interpreter || runs_a_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_can_run_anything_is_suggested() {
        for rule in [
            "Bash(curl -s example.com | sh)",
            "Bash(curl:*)",
            "Bash(/usr/bin/wget:*)",
            "Bash(git log | tee x)",
            "Bash(a && b)",
            "Bash(echo x > y)",
            "Bash(echo $(id))",
            "Bash(bash -c:*)",
            "Bash(python3 -c:*)",
            "Bash(python3.12:*)",
            "Bash(node -e:*)",
            "Bash(X=1 sh:*)",
            "Bash(sudo apt:*)",
            "Bash",
            "Bash()",
            "shell(sh -c x)",
        ] {
            assert!(!is_narrow(rule), "{rule}");
        }
        for rule in [
            "Bash(npm install:*)",
            "Bash(git push:*)",
            "Bash(python3 manage.py:*)",
            "Bash(CI=1 make test:*)",
            "Write(/srv/app/x.txt)",
            "WebFetch",
            "Read(~/a & b.txt)",
        ] {
            assert!(is_narrow(rule), "{rule}");
        }
    }
}
