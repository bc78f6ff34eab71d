//! Everything a user reads about a loop, as data: one table of texts per language.
//!
//! Texts for agents, usage errors and `--help` are English only and live elsewhere. To add a text, add its key below
//! and to the four files under `lang/`: the compiler reports missing ones, and the tests compare the placeholders. The
//! banners are translated from zh-TW.

use std::fmt::Display;

use crate::model::language::Lang;

mod en;
mod es;
#[cfg(test)]
mod tests;
mod zh_cn;
mod zh_tw;

impl Lang {
    pub fn words(self) -> &'static Texts {
        match self {
            Self::En => &en::WORDS,
            Self::ZhTw => &zh_tw::WORDS,
            Self::ZhCn => &zh_cn::WORDS,
            Self::Es => &es::WORDS,
        }
    }
}

/// Declares the texts of a language, so that a missing or undeclared text does not compile.
macro_rules! words {
    ($($(#[$doc:meta])* $key:ident),+ $(,)?) => {
        /// The texts of one language; `{n}` and the like are placeholders for [`fill`].
        #[derive(Debug)]
        pub struct Texts {
            $($(#[$doc])* pub $key: &'static str,)+
        }

        impl Texts {
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
    /// Done and verified by the gates.
    title_done,
    /// The gates pass; nothing shows the task.
    title_passing,
    /// The gates pass; no file was changed.
    title_unchanged,
    /// Ended by the agent: it cannot continue.
    title_needs_review,
    /// Reported done by the agent, not verified.
    title_claimed,
    title_stuck,
    /// Released unverified: neither done nor paused.
    title_released,
    title_cancelled,
    title_waiting,
    title_pull_request_open,
    title_ci_passed,
    title_merged,

    // Progress
    progress,
    progress_percent,
    iteration,
    iteration_unlimited,
    /// Replaces the number where there is no limit.
    unlimited,

    // The task and what is left
    task,
    next_task,
    tasks_open,
    gates_required,
    gates_not_accepted,
    shipping_not_checked,
    /// What a loop beyond the gates will do with the user's rights.
    will_open_pull_request,
    will_wait_for_ci,
    will_merge,
    /// Another tool's file was in the way; `{copy}` is its new path.
    loop_file_copied,
    gates_failing,
    promise_required,
    promise_missing_but_verified,
    false_promises,
    waiting_for,
    /// For a pull request, its CI or its merge: `{what}`.
    ship_waiting_for,
    ship_waiting_saved,

    // At the limit
    limit_reached,
    limit_confirm,
    /// `{more}` further iterations are granted; the limit reached may be a multiple of it.
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
    error_not_evaluated,

    // End or pause
    paused_saved,
    done_verified,
    done_claimed,
    /// `{n}` stops were identical.
    stuck_because,
    /// The client overrides a hook after `{cap}` blocks.
    client_cap,
    cancelled_at,
    no_active_loop,
    /// How the last loop of the repo ended: `{task}`, `{verdict}`.
    last_loop_ended,
    guard_is_on,
    guard_is_paused,
    guard_is_off,
    report_written,
    report_lost,

    // Shown when a loop is started or a session opens
    loop_already_runs,
    paused_loop_here,
    nothing_blocks,

    // The always-on guard
    guard_blocked,
    /// The gates already failed on the tree at the time of the prompt, so they do not block.
    guard_failing_before,
    guard_checks_off,
    guard_checks_on,

    // Verdicts, for a status
    verdict_verified,
    verdict_passing,
    verdict_unchanged,
    verdict_claimed,
    verdict_blocked_of,
    verdict_blocked,
    verdict_waiting,
    verdict_paused,
    verdict_released,
    verdict_failed,
    verdict_stuck,
    verdict_tampered,
    verdict_cancelled,
    verdict_needs_review,
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

    // Reasons, one sentence each
    reason_all_gates_passed,
    reason_nothing_changed,
    reason_proof_missing,
    reason_agent_blocked,
    not_shown_nothing_new,
    not_shown_passes_without,
    not_shown_cannot_be_judged,
    not_shown_no_test,
    not_shown_tests_gone,
    not_shown_red_at_start,
    not_shown_not_listed,
    reason_all_markers_stated,
    reason_gates_failed,
    reason_tree_never_settled,
    reason_markers_missing,
    reason_hygiene_failed,
    reason_hygiene_passed,
    reason_definition_changed,
    reason_definition_revoked,
    reason_not_yet,
    reason_accepted_since,
    reason_shipping_not_checked,
    reason_pull_request_open,
    reason_ci_passed,
    reason_merged,
    reason_ship_unmet,
    reason_ci_failed,
    reason_ship_needs_user,
    reason_passed_after_failing,
    reason_files_replaced,
    reason_deadline_reached,
    reason_ledger_tampered,
    ended_outside_a_stop,
    guard_paused,
    reason_not_evaluated,
    reason_promise_missing,
    reason_tasks_open,
    reason_claimed,

    // Grammar
    /// Between the names of a list.
    list_separator,
    /// Between longer items when a list is printed on one line.
    item_separator,
}

impl Texts {
    /// Joins names the way this language does.
    pub fn list<T: Display>(&self, names: &[T]) -> String {
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(self.list_separator)
    }
}

/// Placeholder names and their values.
pub type Placeholders<'a> = [(&'a str, &'a dyn Display)];

/// Replaces each `{name}` by its value. Values are not searched for placeholders; an unknown placeholder is kept.
pub fn fill(template: &str, values: &Placeholders<'_>) -> String {
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
