//! The task list of a loop, read from its file.

use std::path::{Path, PathBuf};

use ralph_core::claims::task_list::{ListedTask, TaskList};
use ralph_core::ledger::facts::SessionStop;
use ralph_core::model::finding::{Finding, TasksSeen};
use ralph_core::model::goal::ListSource;
use ralph_core::model::verdict::EvaluationError;
use ralph_core::say::banner::TaskProgress;

use crate::show::progress::view::TasksLook;
use crate::sys::files;

/// `None` if there is no list.
pub(crate) fn check(stop: &SessionStop) -> Option<Finding> {
    stop.tasks.clone().map(Finding::TaskList)
}

/// The list's progress. A list that is missing, unreadable or without checkboxes cannot be evaluated.
pub(crate) fn read(root: &Path, list: &ListSource) -> TasksSeen {
    let file = list.file.clone();
    match files::read_foreign(&root.join(&list.file)) {
        Ok(Some(text)) => seen(&TaskList::parse(&String::from_utf8_lossy(&text)), file),
        Ok(None) => TasksSeen::Trouble(EvaluationError::TaskListGone { file }),
        Err(error) => {
            TasksSeen::Trouble(EvaluationError::TaskListUnreadable { file, why: error.to_string() })
        }
    }
}

fn seen(list: &TaskList, file: String) -> TasksSeen {
    if list.total() == 0 {
        return TasksSeen::Trouble(EvaluationError::TaskListEmpty { file });
    }
    TasksSeen::List { done: list.done(), total: list.total(), next: list.next().map(in_one_line) }
}

/// A task as shown to the agent and the user.
fn in_one_line(task: &ListedTask) -> String {
    const MOST: usize = 200;
    let number = task.number.as_ref().map(|number| format!("{number} ")).unwrap_or_default();
    let agent = task.agent.as_ref().map(|agent| format!(" (agent: {agent})")).unwrap_or_default();
    let text: String = task.text.chars().take(MOST).collect();
    format!("{number}{text}{agent}")
}

/// Reads a list's progress for the live view.
pub(crate) fn progress_of(root: PathBuf, list: ListSource) -> TasksLook {
    Box::new(move || match read(&root, &list) {
        TasksSeen::List { done, total, .. } => Some(TaskProgress { done, total }),
        TasksSeen::Trouble(_) => None,
    })
}
