//! Selects the turn that answers a request, and checks the request against the script. No network here: a request
//! body goes in, a turn comes out.

use std::mem;

use serde_json::Value;

use super::{Api, Condition, Lane, MAX_REQUESTS, Needle, Request, Script, Served, Turn};

/// How much of a request a problem quotes.
const QUOTE: usize = 2000;

/// The script in progress.
#[derive(Debug)]
pub(super) struct Stage {
    api: Api,
    lanes: Vec<Part>,
    main: Part,
    side: Part,
    served: Served,
    refused: usize,
}

/// A lane and its position.
#[derive(Debug)]
struct Part {
    lane: Lane,
    asked: usize,
}

impl Stage {
    pub(super) fn new(api: Api, script: Script) -> Self {
        Self {
            api,
            lanes: script.lanes.into_iter().map(Part::new).collect(),
            main: Part::new(script.main),
            side: Part::new(Lane::new("side").then_repeat(Turn::say("ok"))),
            served: Served::default(),
            refused: 0,
        }
    }

    /// Takes a request and returns the turn that answers it.
    pub(super) fn take(&mut self, body: Value) -> Turn {
        if self.served.requests.len() == MAX_REQUESTS {
            self.refused += 1;
            return Turn::api_error(
                400,
                "invalid_request_error",
                "the scripted model's request limit is reached",
            );
        }
        let conversation = self.api.conversation(&body);
        let (request, turn, problems) = self.part_for(&conversation).play(conversation.last_user, body);
        self.served.requests.push(request);
        self.served.problems.extend(problems);
        turn
    }

    fn part_for(&mut self, conversation: &Conversation) -> &mut Part {
        if let Some(at) = self.lanes.iter().position(|part| part.lane.takes(conversation)) {
            &mut self.lanes[at]
        } else if conversation.has_tools {
            &mut self.main
        } else {
            &mut self.side
        }
    }

    pub(super) fn requests(&self) -> usize {
        self.served.requests.len()
    }

    pub(super) fn problem(&mut self, problem: String) {
        self.served.problems.push(problem);
    }

    /// Ends the script: an expected request that never came is a problem too.
    pub(super) fn close(&mut self) -> Served {
        let mut served = mem::take(&mut self.served);
        if self.refused > 0 {
            served.problems.push(format!(
                "{} requests came after the limit of {MAX_REQUESTS} and were refused",
                self.refused
            ));
        }
        for part in self.lanes.iter().chain([&self.main]) {
            served.problems.extend(part.never_requested());
        }
        served
    }
}

impl Part {
    fn new(lane: Lane) -> Self {
        Self { lane, asked: 0 }
    }

    fn play(&mut self, last_user: String, body: Value) -> (Request, Turn, Vec<String>) {
        let turn = self.asked;
        self.asked += 1;
        let name = &self.lane.name;
        let (played, problems) = match self.lane.turns.get(turn).or(self.lane.repeat.as_ref()) {
            Some(played) => (played.clone(), played.missed(name, turn, &last_user)),
            None => {
                let problem = format!(
                    "lane `{name}` was asked for turn {turn}, its script has {}; the request said: {}",
                    self.lane.turns.len(),
                    quoted(&last_user)
                );
                (Turn::say("SCRIPT-EXHAUSTED"), vec![problem])
            }
        };
        (Request { lane: name.clone(), turn, last_user, body }, played, problems)
    }

    fn never_requested(&self) -> impl Iterator<Item = String> {
        let rest = self.lane.turns.iter().enumerate().skip(self.asked);
        rest.filter(|(_, turn)| !turn.needles.is_empty()).map(|(at, turn)| {
            let wants: Vec<_> = turn.needles.iter().map(Needle::describe).collect();
            format!(
                "lane `{}`, turn {at}: no request came for it; it wants {}",
                self.lane.name,
                wants.join(" and ")
            )
        })
    }
}

impl Lane {
    fn takes(&self, conversation: &Conversation) -> bool {
        self.conditions.iter().all(|condition| condition.holds(conversation))
    }
}

impl Condition {
    fn holds(&self, conversation: &Conversation) -> bool {
        match self {
            Self::FirstUser(needle) => conversation.users.first().is_some_and(|text| text.contains(needle)),
            Self::AnyUser(needle) => conversation.users.iter().any(|text| text.contains(needle)),
            Self::LastUser(needle) => conversation.last_user.contains(needle),
            Self::System(needle) => conversation.system.contains(needle),
        }
    }
}

impl Turn {
    fn missed(&self, lane: &str, at: usize, last_user: &str) -> Vec<String> {
        let missed = self.needles.iter().filter(|needle| !needle.holds(last_user));
        let tell = |needle: &Needle| {
            let (wants, said) = (needle.describe(), quoted(last_user));
            format!("lane `{lane}`, turn {at} wants {wants}; the request said: {said}")
        };
        missed.map(tell).collect()
    }
}

impl Needle {
    fn holds(&self, text: &str) -> bool {
        match self {
            Self::Present(needle) => text.contains(needle),
            Self::Absent(needle) => !text.contains(needle),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Present(needle) => format!("a request with {needle:?}"),
            Self::Absent(needle) => format!("a request without {needle:?}"),
        }
    }
}

/// The author of a part of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    Model,
    /// The user, and what the client sends to the model in the user's name: tool results, feedback.
    User,
    /// The client itself.
    Other,
}

/// A part of a conversation.
pub(super) struct Item {
    pub(super) voice: Voice,
    pub(super) text: String,
}

/// The text of a request, grouped by author.
pub(super) struct Conversation {
    users: Vec<String>,
    last_user: String,
    system: String,
    has_tools: bool,
}

impl Conversation {
    pub(super) fn new(items: impl IntoIterator<Item = Item>, system: String, has_tools: bool) -> Self {
        let items: Vec<Item> = items.into_iter().collect();
        // Everything that is not from the model counts, whatever role the client gives it.
        let spoken = items.iter().rposition(|item| item.voice == Voice::Model);
        let since = &items[spoken.map_or(0, |at| at + 1)..];
        let last_user = since.iter().map(|item| item.text.as_str()).collect::<Vec<_>>().join("\n");
        let users = items.into_iter().filter(|item| item.voice == Voice::User).map(|item| item.text);
        Self { users: users.collect(), last_user, system, has_tools }
    }
}

/// The newest text is at the end.
fn quoted(text: &str) -> String {
    match text.char_indices().rev().nth(QUOTE) {
        None => format!("{text:?}"),
        Some((at, _)) => format!("…{:?}", &text[at..]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Answer;
    use super::*;

    fn body(messages: &Value) -> Value {
        json!({"tools": [{"name": "Bash"}], "messages": messages})
    }

    fn asking(text: &str) -> Value {
        body(&json!([{"role": "user", "content": text}]))
    }

    fn said(turn: &Turn) -> &str {
        match &turn.answer {
            Answer::Say(text) => text,
            other => panic!("not words: {other:?}"),
        }
    }

    #[test]
    fn text_since_the_last_model_message_is_that_of_every_later_message() {
        let conversation = Api::Messages.conversation(&body(&json!([
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": [{"type": "text", "text": "spoken"}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "result"}]},
                {"type": "text", "text": "<system-reminder>note</system-reminder>"}]},
            {"role": "user", "content": "feedback"},
        ])));
        assert_eq!(conversation.last_user, "result\n<system-reminder>note</system-reminder>\nfeedback");
        assert_eq!(conversation.users[0], "first");
    }

    #[test]
    fn a_request_reads_the_same_for_every_service() {
        let responses = Api::Responses.conversation(&json!({
            "instructions": "rules",
            "tools": [{"name": "exec_command"}],
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "note"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "first"}]},
                {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c"},
                {"type": "function_call_output", "call_id": "c", "output": "result"},
            ],
        }));
        let chat = Api::Chat.conversation(&json!({
            "tools": [{"type": "function", "function": {"name": "bash"}}],
            "messages": [
                {"role": "system", "content": "rules"},
                {"role": "user", "content": [{"type": "text", "text": "first"}]},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "function": {"name": "bash"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "result"},
            ],
        }));
        let gemini = Api::Gemini.conversation(&json!({
            "systemInstruction": {"parts": [{"text": "rules"}]},
            "tools": [{"functionDeclarations": [{"name": "write_file"}]}],
            "contents": [
                {"role": "user", "parts": [{"text": "first"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "write_file", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"response": {"output": "result"}}}]},
            ],
        }));
        for conversation in [responses, chat, gemini] {
            assert_eq!(conversation.users, ["first", "result"]);
            assert_eq!(conversation.last_user, "result");
            assert_eq!(conversation.system, "rules");
            assert!(conversation.has_tools);
        }
        let side = json!({"contents": [], "tools": [{"googleSearch": {}}]});
        assert!(
            !Api::Gemini.conversation(&side).has_tools,
            "a search of the service's own is no tool of the client"
        );
    }

    #[test]
    fn a_lane_takes_a_request_only_when_all_its_conditions_hold() {
        let lane = Lane::new("check").when_first_user_contains("SUB").when_last_user_contains("TASK");
        let mut stage = Stage::new(
            Api::Messages,
            Script::new().lane(lane.turn(Turn::say("from the lane"))).main(vec![Turn::say("from main")]),
        );
        assert_eq!(said(&stage.take(asking("SUB only"))), "from main");
        assert_eq!(said(&stage.take(asking("SUBTASK"))), "from the lane");
        assert_eq!(stage.close().problems, Vec::<String>::new());
    }

    #[test]
    fn a_request_without_tools_that_no_lane_takes_gets_a_side_answer() {
        let mut stage = Stage::new(Api::Messages, Script::new());
        assert_eq!(said(&stage.take(json!({"messages": [{"role": "user", "content": "a title?"}]}))), "ok");
        let served = stage.close();
        assert_eq!(served.requests[0].lane, "side");
        assert!(served.problems.is_empty());
    }

    #[test]
    fn expected_and_unexpected_needles_are_checked() {
        let turns = vec![Turn::say("a").expecting("YES"), Turn::say("b").expecting_not("NO")];
        let mut stage = Stage::new(Api::Messages, Script::new().main(turns));
        stage.take(asking("maybe"));
        stage.take(asking("NO"));
        let problems = stage.close().problems;
        assert_eq!(
            problems,
            [
                r#"lane `main`, turn 0 wants a request with "YES"; the request said: "maybe""#,
                r#"lane `main`, turn 1 wants a request without "NO"; the request said: "NO""#,
            ]
        );
    }

    #[test]
    fn an_expected_turn_that_is_never_requested_is_a_problem() {
        let mut stage = Stage::new(
            Api::Messages,
            Script::new().main(vec![Turn::say("a"), Turn::say("b").expecting("YES")]),
        );
        stage.take(asking("go"));
        assert_eq!(
            stage.close().problems,
            [r#"lane `main`, turn 1: no request came for it; it wants a request with "YES""#]
        );
    }

    #[test]
    fn running_out_is_a_problem_unless_a_turn_repeats() {
        let mut stage = Stage::new(Api::Messages, Script::new());
        assert_eq!(said(&stage.take(asking("go"))), "SCRIPT-EXHAUSTED");
        assert_eq!(stage.close().problems.len(), 1);

        let mut stage = Stage::new(Api::Messages, Script::new().then_repeat(Turn::say("again")));
        assert_eq!(said(&stage.take(asking("go"))), "again");
        assert_eq!(said(&stage.take(asking("go"))), "again");
        assert!(stage.close().problems.is_empty());
    }

    #[test]
    fn the_request_after_the_limit_is_refused_and_reported() {
        let mut stage = Stage::new(Api::Messages, Script::new().then_repeat(Turn::say("again")));
        for _ in 0..MAX_REQUESTS {
            assert_eq!(said(&stage.take(asking("go"))), "again");
        }
        assert!(matches!(stage.take(asking("go")).answer, Answer::ApiError { status: 400, .. }));
        let served = stage.close();
        assert_eq!(served.requests.len(), MAX_REQUESTS);
        assert_eq!(served.problems, ["1 requests came after the limit of 80 and were refused"]);
    }

    #[test]
    fn a_long_request_is_quoted_from_its_end() {
        let quote = quoted(&format!("{}é-end", "ä".repeat(5000)));
        assert!(quote.starts_with('…') && quote.ends_with("é-end\""));
    }
}
