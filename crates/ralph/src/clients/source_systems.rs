//! The systems that people come from, as data: by which scripts and plugins each blocks an agent, so that `ralph init --from`
//! can take them out, and what a user of it should know.

/// One system.
#[derive(Debug)]
pub(crate) struct SourceSystem {
    pub(crate) name: &'static str,
    /// Other names that its users know it by.
    pub(crate) aliases: &'static [&'static str],
    /// What the commands of its hooks end in or contain.
    pub(crate) scripts: &'static [&'static str],
    /// How the names of its plugins begin.
    pub(crate) plugins: &'static [&'static str],
    /// What it blocks, in the words of `guard:`, where that is more than the default.
    pub(crate) guard: &'static [&'static str],
    /// What is different now.
    pub(crate) notes: &'static [&'static str],
}

pub(crate) static ALL: [SourceSystem; 6] = [
    SourceSystem {
        name: "official-plugin",
        aliases: &["ralph-loop", "ralph-wiggum"],
        scripts: &["hooks/stop-hook.sh"],
        plugins: &["ralph-loop", "ralph-wiggum"],
        guard: &[],
        notes: &[
            "/ralph-loop, --completion-promise and --max-iterations work as before; a promise alone no longer ends a loop whose gates fail",
        ],
    },
    SourceSystem {
        name: "trellis",
        aliases: &[],
        scripts: &["hooks/ralph-loop.py"],
        plugins: &[],
        guard: &[],
        notes: &[
            "`verify:` of .trellis/worktree.yaml is read as it is; ralph's other settings go under `ralph:` in it",
            "without .trellis/worktree.yaml (today's Trellis) the gates are in ralph.yaml, and `trellis-check` is guarded",
        ],
    },
    SourceSystem {
        name: "cc-workflow",
        aliases: &["ideal"],
        scripts: &["hooks/verify-loop.py"],
        plugins: &[],
        guard: &[],
        notes: &[
            "`verify:` of .ideal/worktree.yaml is read as it is; ralph's other settings go under `ralph:` in it",
        ],
    },
    SourceSystem {
        name: "claude-workflow",
        aliases: &[],
        scripts: &["ralph-loop/hooks/stop-hook.sh", "hooks/stop-hook.sh"],
        plugins: &["claude-workflow"],
        guard: &[],
        notes: &["/ralph-loop --openspec works as before; REJECT and FAIL of your own agents are understood"],
    },
    SourceSystem {
        name: "zenithjoy-engine",
        aliases: &["zenithjoy"],
        scripts: &["hooks/stop.sh", "scripts/detect-phase.sh"],
        plugins: &[],
        guard: &[],
        notes: &[
            "`npm run qa:gate` is a gate; the files that it rewrites are under `writes:`",
            "pull requests and CI are not looked at: a loop with their promises does not end verified",
        ],
    },
    SourceSystem {
        name: "multi-agent-ralph-loop",
        aliases: &["multi-agent-ralph"],
        scripts: &[
            "teammate-idle-quality-gate.sh",
            "task-completed-quality-gate.sh",
            "ralph-stop-quality-gate.sh",
            "ralph-subagent-start.sh",
            "ralph-subagent-stop.sh",
            "glm5-subagent-stop.sh",
        ],
        plugins: &[],
        guard: &["session", "check", "teammates", "tasks"],
        notes: &[
            "/loop is /ralph-iterate; `ralph loop`, `ralph state` and `ralph report` are this program's",
            "its own program is called `ralph` too: remove it from PATH, or run this one by its path",
        ],
    },
];

pub(crate) fn find(name: &str) -> Option<&'static SourceSystem> {
    ALL.iter().find(|system| system.name == name || system.aliases.contains(&name))
}

/// Every name, for help and messages.
pub(crate) fn names() -> Vec<&'static str> {
    ALL.iter().map(|system| system.name).collect()
}

impl SourceSystem {
    pub(crate) fn runs(&self, command: &str) -> bool {
        self.scripts.iter().any(|script| command.contains(script))
    }

    pub(crate) fn has_plugin(&self, name: &str) -> bool {
        self.plugins.iter().any(|plugin| name.starts_with(plugin))
    }
}

/// The system whose hook a command is.
pub(crate) fn of_command(command: &str) -> Option<&'static SourceSystem> {
    ALL.iter().find(|system| system.runs(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hook_is_told_by_its_script() {
        for (command, name) in [
            ("bash ${CLAUDE_PLUGIN_ROOT}/hooks/stop-hook.sh", Some("official-plugin")),
            ("python3 \"$CLAUDE_PROJECT_DIR/.claude/hooks/ralph-loop.py\"", Some("trellis")),
            ("python3 .claude/hooks/verify-loop.py", Some("cc-workflow")),
            ("bash hooks/stop.sh", Some("zenithjoy-engine")),
            ("~/.claude/hooks/ralph-stop-quality-gate.sh", Some("multi-agent-ralph-loop")),
            ("notify-send done", None),
        ] {
            assert_eq!(of_command(command).map(|system| system.name), name, "{command}");
        }
        for system in &ALL {
            assert!(
                system.aliases.iter().all(|alias| find(alias).is_some_and(|found| found.name == system.name))
            );
        }
    }
}
