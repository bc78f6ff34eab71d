//! Everything that a person reads about a loop, as data: one table of texts per language.
//!
//! Text for agents, usage errors and `--help` stay English and are not here. To add a text, name its key below and write
//! it in the four files under `lang/`: the compiler names the file where it is missing, and the tests compare the
//! placeholders. zh-TW is the original of the banners; the others are translations of it.

use std::fmt::Display;

use crate::model::language::Lang;
use crate::model::loop_error::ErrorKind;

mod en;
mod es;
#[cfg(test)]
mod tests;
mod zh_cn;
mod zh_tw;

impl Lang {
    pub fn words(self) -> &'static Words {
        match self {
            Self::En => &en::WORDS,
            Self::ZhTw => &zh_tw::WORDS,
            Self::ZhCn => &zh_cn::WORDS,
            Self::Es => &es::WORDS,
        }
    }
}

/// Declares the texts of a language, so that one without a text, or with one that nobody declared, does not compile.
macro_rules! words {
    ($($(#[$doc:meta])* $key:ident),+ $(,)?) => {
        /// The texts of one language. `{n}` and the like are placeholders for [`fill`].
        #[derive(Debug)]
        pub struct Words {
            $($(#[$doc])* pub $key: &'static str,)+
        }

        impl Words {
            /// Every key with its text.
            pub fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($key), self.$key)),+]
            }
        }
    };
}

words! {
    // Titles of banners
    title_started,
    title_running,
    title_resumed,
    title_limit,
    title_errors,
    title_paused,
    /// Done, and we saw it.
    title_done,
    /// Done, says the agent.
    title_claimed,
    title_stuck,
    /// Let go unverified: neither done nor waiting for a person.
    title_released,
    title_cancelled,

    // How far it is
    progress,
    progress_percent,
    iteration,
    iteration_unlimited,
    /// Where a number could stand: there is no limit.
    unlimited,

    // What it is about and what is left
    task,
    next_task,
    tasks_open,
    gates_hold,
    gates_not_accepted,
    /// Another tool's file was where ours goes; `{copy}` is where it is now.
    loop_file_copied,
    gates_failing,
    promise_wanted,
    promise_missing_but_verified,
    false_promises,
    waiting_for,

    // At the limit
    limit_reached,
    limit_confirm,
    /// `{more}` iterations are granted again; the limit that was reached may be a multiple of it.
    limit_continue,
    limit_pause,

    // After too many errors
    errors_in_a_row,
    errors_details,
    error_line,
    errors_advice,
    errors_advice_check,
    errors_advice_continue,
    errors_advice_pause,
    error_agent_execution,
    error_task_not_found,
    error_file_operation,
    error_cannot_tell,

    // How it ends or rests
    paused_saved,
    done_verified,
    done_claimed,
    /// `{n}` stops were equal.
    stuck_because,
    /// The client ends a turn after `{cap}` blocks.
    client_cap,
    cancelled_at,
    no_active_loop,
    report_written,
    report_lost,

    // Answers to whoever starts or opens a session
    loop_already_runs,
    paused_loop_here,
    nothing_holds,

    // The always-on guard
    guard_held,
    /// It was red on the tree that the prompt found, so nobody is held for it.
    guard_red_before,
    guard_freed,
    guard_holds_again,

    // Verdicts, for a status
    verdict_verified,
    verdict_claimed,
    verdict_held_of,
    verdict_held,
    verdict_waiting,
    verdict_paused,
    verdict_released,
    verdict_failed,
    verdict_stuck,
    verdict_tampered,
    verdict_cancelled,
    verdict_needs_person,
    verdict_not_judged,
    verdict_unbound,

    // Labels of a status table
    label_task,
    label_promise,
    label_tasks,
    label_iteration,
    label_errors,
    label_next,
    label_session,
    label_started,
    label_last,

    // Reasons, a sentence each
    reason_all_gates_passed,
    reason_all_markers_stated,
    reason_gates_failed,
    reason_tree_never_settled,
    reason_markers_missing,
    reason_untidy,
    reason_tidy,
    reason_definition_changed,
    reason_definition_revoked,
    reason_not_yet,
    reason_accepted_since,
    reason_passed_after_failing,
    reason_files_moved,
    reason_gates_did_not_fit,
    reason_ledger_tampered,
    ended_outside_a_stop,
    guard_rests,
    reason_cannot_tell,
    reason_promise_missing,
    reason_tasks_open,
    reason_claimed,

    // Grammar
    /// Stands between the names of a list.
    list_separator,
    /// Stands between longer items, where a list has to go into one line.
    item_separator,
}

impl Words {
    pub fn error_kind(&self, kind: ErrorKind) -> &'static str {
        match kind {
            ErrorKind::AgentExecution => self.error_agent_execution,
            ErrorKind::TaskNotFound => self.error_task_not_found,
            ErrorKind::FileOperation => self.error_file_operation,
            ErrorKind::CannotTell => self.error_cannot_tell,
        }
    }

    /// Names in a row, as this language writes them.
    pub fn list<T: Display>(&self, names: &[T]) -> String {
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(self.list_separator)
    }
}

/// Names of placeholders with what stands in their place.
pub type Values<'a> = [(&'a str, &'a dyn Display)];

/// Puts values in the place of `{name}`. A value is never searched for placeholders; one without a value stays to be seen.
pub fn fill(template: &str, values: &Values<'_>) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, from)) = rest.split_once('{') {
        filled.push_str(before);
        let named = from.split_once('}').and_then(|(name, after)| {
            values.iter().find(|(known, _)| *known == name).map(|(_, value)| (value, after))
        });
        match named {
            Some((value, after)) => {
                filled.push_str(&value.to_string());
                rest = after;
            }
            None => {
                filled.push('{');
                rest = from;
            }
        }
    }
    filled + rest
}
