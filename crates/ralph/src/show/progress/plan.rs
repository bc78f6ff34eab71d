//! The plan of a loop, shown before anything runs (`--dry-run` prints only this).

use ralph_core::clients::list;
use ralph_core::clients::profile::{Profile, Value};
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::model::budget::Attempts;
use ralph_core::model::drive_options::{AgentContext, DriveOptions};
use ralph_core::model::duration;
use ralph_core::model::limits::{Limits, WithOrigin};
use ralph_core::model::ship::{ShipPlan, Until};
use ralph_core::model::short_id::ShortId;

use crate::show::progress::lines::{counted, one_line};

/// A plan for display.
pub(crate) struct PlanSheet<'a>(pub(crate) &'a DrivePlan);

impl PlanSheet<'_> {
    /// All lines: the task, the agent and its permissions, the gates, and the limits.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut sheet = Sheet::default();
        sheet.put("task", one_line(&self.0.goal.task, 400));
        sheet.put("loop", ShortId::of(&self.0.loop_id).to_string());
        self.show_agent(&mut sheet);
        self.show_checks(&mut sheet);
        self.show_limits(&mut sheet);
        sheet.put("context", self.context());
        sheet.put("saves", self.checkpoints());
        sheet.lines
    }

    fn show_agent(&self, sheet: &mut Sheet) {
        let Profile { name, program, may, note, environment, .. } = &self.0.profile;
        let model = self.0.options.model.as_ref().map(|model| format!(", model {}", one_line(model, 80)));
        let name = one_line(name, 200);
        let program = one_line(program, 200);
        let runs = if name == program { String::new() } else { format!(" (runs `{program}`)") };
        sheet.put("agent", format!("{name}{runs}{}", model.unwrap_or_default()));
        sheet.more(environment.iter().map(|(variable, value)| match value {
            Value::Literal(text) => format!("with {variable}={}", one_line(text, 200)),
            Value::From(other) => format!("with {variable} from {other}"),
            Value::Unset => format!("without {variable}"),
        }));
        sheet.put("allowed", one_line(may, 300));
        sheet.more(self.0.allow.iter().map(|rule| format!("{} (your config)", one_line(rule, 250))));
        if let Some(note) = note {
            sheet.put("note", one_line(note, 300));
        }
    }

    fn show_checks(&self, sheet: &mut Sheet) {
        let width =
            self.0.gates.iter().map(|gate| gate.name.as_str().chars().count()).max().unwrap_or(0).min(24);
        let gates = self.0.gates.iter().map(|gate| {
            let (name, run) = (one_line(gate.name.as_str(), 60), one_line(&gate.run, 200));
            let advisory = if gate.advisory { "  (advisory: never blocks)" } else { "" };
            // A gate without a name of its own is named by its command.
            if name == run { format!("{run}{advisory}") } else { format!("{name:width$}  {run}{advisory}") }
        });
        sheet.list("gates", gates, "none: nothing can be verified");
        if let Some(list) = &self.0.goal.list {
            sheet.put("tasks", format!("every checkbox in {}", one_line(&list.file, 200)));
        }
        if let Some(ship) = &self.0.goal.ship {
            sheet.put("until", until(ship));
            sheet.more([format!("the agent may also commit: {}", list::COMMITS.join(", "))].into_iter());
        } else if let Some(promise) = &self.0.goal.promise {
            sheet.put("promise", format!("the agent states: {}", one_line(promise, 200)));
        }
    }

    fn show_limits(&self, sheet: &mut Sheet) {
        let Limits { attempts, clock, cost, no_progress, errors, .. } = &self.0.limits;
        let iterations = match attempts.value {
            Attempts::AtMost(most) => counted(most as usize, "iteration"),
            Attempts::Unlimited => "no iteration limit".into(),
        };
        let mut limits = vec![with_origin(&iterations, attempts)];
        limits.push(match clock.value {
            Some(most) => with_origin(&format!("{} in total", duration::show(most)), clock),
            None => with_origin("no time limit", clock),
        });
        limits.push(match cost.value {
            Some(most) => with_origin(&most.to_string(), cost),
            None => with_origin("no cost limit", cost),
        });
        if let Some(equal) = no_progress.value {
            limits.push(with_origin(&format!("{equal} iterations without progress"), no_progress));
        }
        limits.push(with_origin(&format!("{} in a row", counted(errors.value as usize, "error")), errors));
        let DriveOptions { longest_run, longest_silence, .. } = &self.0.options;
        limits.push(format!(
            "one run of the agent: at most {}, silent for at most {}",
            duration::show(*longest_run),
            duration::show(*longest_silence)
        ));
        sheet.list("limits", limits.into_iter(), "nothing");
    }

    fn context(&self) -> String {
        match self.0.options.memory {
            AgentContext::Fresh => "fresh in every iteration".into(),
            AgentContext::Continue if self.0.profile.resume.is_some() => {
                "the agent's session is continued in every iteration".into()
            }
            AgentContext::Continue => {
                "fresh in every iteration: this client cannot continue a session".into()
            }
        }
    }

    fn checkpoints(&self) -> String {
        if self.0.options.checkpoints {
            "the tree of every iteration; `ralph diff N` shows one".into()
        } else {
            "no checkpoints".into()
        }
    }
}

/// What ralph will do with the user's rights.
fn until(ship: &ShipPlan) -> String {
    let opens = format!(
        "ralph commits what is left, pushes it to {} and opens a pull request, with your git and `gh`",
        one_line(&ship.repository, 100)
    );
    let waits = format!("waits for CI at most {}", duration::show(ship.settings.ci_timeout));
    match ship.until {
        Until::Verified => "verified".into(),
        Until::Pr => format!("pr: {opens}"),
        Until::Ci => format!("ci: {opens}, {waits}"),
        Until::Merged => format!("merged: {opens}, {waits}, and merges ({})", ship.settings.merge.code()),
    }
}

fn with_origin<T>(text: &str, sourced: &WithOrigin<T>) -> String {
    format!("{text} ({})", sourced.origin)
}

/// Lines with headings in a separate column.
#[derive(Default)]
struct Sheet {
    lines: Vec<String>,
}

impl Sheet {
    fn put(&mut self, heading: &str, text: String) {
        self.lines.push(format!("{heading:9} {text}").trim_end().to_owned());
    }

    fn more(&mut self, texts: impl Iterator<Item = String>) {
        for text in texts {
            self.put("", text);
        }
    }

    fn list(&mut self, heading: &str, mut texts: impl Iterator<Item = String>, none: &str) {
        self.put(heading, texts.next().unwrap_or_else(|| none.to_owned()));
        self.more(texts);
    }
}

#[cfg(test)]
mod tests;
