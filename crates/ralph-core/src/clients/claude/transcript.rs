//! Reads a session's transcript: the last tool call, and whether the user queued a cancel command for the end of the
//! turn.

use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    message: Message,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Blocks(Vec<Block>),
    Anything(serde::de::IgnoredAny),
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Block {
    r#type: String,
    id: Option<String>,
    tool_use_id: Option<String>,
}

/// The id of the last tool call in the tail of a transcript, whose first line may be incomplete.
pub fn last_tool_call(tail: &[u8]) -> Option<String> {
    let calls = |line: &[u8]| {
        // Most lines need no full parse.
        if !line.windows(8).any(|window| window == b"tool_use") {
            return None;
        }
        let row: Row = serde_json::from_slice(line).ok()?;
        let Content::Blocks(blocks) = row.message.content else { return None };
        blocks.into_iter().rev().find_map(|block| match block.r#type.as_str() {
            "tool_use" => block.id,
            "tool_result" => block.tool_use_id,
            _ => None,
        })
    };
    tail.split(|byte| *byte == b'\n').rev().find_map(calls)
}

#[derive(Deserialize)]
struct QueueRow {
    r#type: String,
    operation: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    timestamp: String,
}

impl QueueRow {
    fn cancels(&self) -> bool {
        let command = self.content.split_whitespace().next().unwrap_or_default();
        matches!(command, "/cancel-ralph" | "/ralph:cancel-ralph")
    }

    /// The client merges text and notifications into the running turn, but not commands.
    fn is_command(&self) -> bool {
        self.content.starts_with('/')
    }
}

/// When the user typed a cancel command that the client queued for the end of the turn. A queued command fires no hook
/// event, and a blocked turn does not end.
pub fn queued_cancel(tail: &[u8]) -> Option<String> {
    let mut queue: Vec<QueueRow> = Vec::new();
    for line in tail.split(|byte| *byte == b'\n') {
        if !line.windows(15).any(|window| window == b"queue-operation") {
            continue;
        }
        let Ok(row) = serde_json::from_slice::<QueueRow>(line) else { continue };
        if row.r#type != "queue-operation" {
            continue;
        }
        match row.operation.as_str() {
            "enqueue" => queue.push(row),
            "dequeue" => drop(queue.drain(..queue.len().min(1))),
            "remove" => {
                let folded = queue.iter().position(|row| !row.is_command()).unwrap_or(0);
                drop(queue.drain(folded..queue.len().min(folded + 1)));
            }
            _ => queue.clear(),
        }
    }
    queue.into_iter().find(QueueRow::cancels).map(|row| row.timestamp)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_call_is_found_by_its_use_or_its_result() {
        let call = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"t1","name":"Bash"}]}}"#;
        let result = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"out"}]}}"#;
        let words = r#"{"type":"user","message":{"content":"I said tool_use"}}"#;
        let cases = [
            (call.to_owned(), Some("t1")),
            (format!("{call}\n{words}\n"), Some("t1")),
            (format!("{call}\n{result}\n{words}\n"), Some("t2")),
            (format!("cut off tool_use\"}}]}}\n{call}"), Some("t1")),
            (words.to_owned(), None),
            (String::new(), None),
        ];
        for (tail, found) in cases {
            assert_eq!(last_tool_call(tail.as_bytes()).as_deref(), found, "{tail}");
        }
    }

    #[test]
    fn a_queued_cancel_is_seen_until_it_is_dequeued() {
        let enqueue = |what: &str| {
            format!("{{\"type\":\"queue-operation\",\"operation\":\"enqueue\",\"content\":\"{what}\"}}\n")
        };
        let dequeue = "{\"type\":\"queue-operation\",\"operation\":\"dequeue\"}\n";
        let remove = "{\"type\":\"queue-operation\",\"operation\":\"remove\"}\n";
        let all = "{\"type\":\"queue-operation\",\"operation\":\"popAll\"}\n";
        let cases = [
            (enqueue("/cancel-ralph"), true),
            (enqueue("/ralph:cancel-ralph "), true),
            (format!("{}{}", enqueue("/cancel-ralph"), enqueue("and then this")), true),
            (format!("{}{dequeue}", enqueue("/cancel-ralph")), false),
            (format!("{}{}{dequeue}", enqueue("before"), enqueue("/cancel-ralph")), true),
            (format!("{}{}{remove}", enqueue("/cancel-ralph"), enqueue("folded in")), true),
            (format!("{}{remove}", enqueue("/cancel-ralph")), false),
            (format!("{}{}{all}", enqueue("/cancel-ralph"), enqueue("x")), false),
            (format!("{dequeue}{remove}{}", enqueue("/cancel-ralph")), true),
            (enqueue("please /cancel-ralph"), false),
            (enqueue("/cancel-ralphs"), false),
            (
                "{\"type\":\"user\",\"message\":{\"content\":\"queue-operation enqueue /cancel-ralph\"}}"
                    .into(),
                false,
            ),
            (String::new(), false),
        ];
        for (tail, queued) in cases {
            assert_eq!(queued_cancel(tail.as_bytes()).is_some(), queued, "{tail}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _call = last_tool_call(&bytes);
            let _queued = queued_cancel(&bytes);
        }
    }
}
