//! A run of gates while it goes on: spinners with times on a terminal, plain lines elsewhere, nothing for scripts.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use ralph_core::gate::receipt::Receipt;
use ralph_core::gate::{Gate, GateReport};
use ralph_core::id::GateName;

use super::{FAINT, paint, remark, table};
use crate::gates::{Findable, Watch};

pub(crate) enum Live {
    Quiet,
    Lines { width: usize },
    Spinners { width: usize, bars: MultiProgress, running: HashMap<GateName, ProgressBar> },
}

impl Live {
    pub(crate) fn new(gates: &[Gate], quiet: bool) -> Self {
        let width = table::width(gates.iter().map(|gate| &gate.name));
        match () {
            () if quiet => Self::Quiet,
            () if io::stderr().is_terminal() => {
                Self::Spinners { width, bars: MultiProgress::new(), running: HashMap::new() }
            }
            () => Self::Lines { width },
        }
    }
}

impl Watch for Live {
    fn started(&mut self, gate: &Gate) {
        match self {
            Self::Quiet => {}
            Self::Lines { .. } => remark(format_args!("  running `{}`", gate.name)),
            Self::Spinners { width, bars, running } => {
                let style = ProgressStyle::with_template("{spinner:.cyan} {msg}  {elapsed}");
                let bar = bars.add(ProgressBar::new_spinner());
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                bar.set_message(format!("{:width$}  running", gate.name.as_str(), width = *width));
                bar.enable_steady_tick(Duration::from_millis(100));
                running.insert(gate.name.clone(), bar);
            }
        }
    }

    fn finished(&mut self, report: &GateReport, _receipt: Option<&Receipt>, _findable: Findable) {
        match self {
            Self::Quiet => {}
            Self::Lines { width } => remark(table::line(report, *width)),
            Self::Spinners { running, .. } => {
                // The table at the end shows it again, with everything that is known then.
                if let Some(bar) = running.remove(&report.gate) {
                    bar.finish_and_clear();
                }
            }
        }
    }

    fn changed(&mut self, files: &[String]) {
        let line = paint(FAINT, format!("  the tree changed while gates ran: {}", files.join(", ")));
        match self {
            Self::Quiet => {}
            Self::Lines { .. } => remark(line),
            Self::Spinners { bars, .. } => {
                let _terminal_gone = bars.println(line);
            }
        }
    }
}
