//! The fast door: one hook event on stdin, the client's dialect on stdout, exit code 0 but for those two events that are held by
//! exit code 2.
//!
//! Whatever goes wrong in here, the stop goes through with a message: a hook never traps a person. Only a decision of
//! the engine holds anybody.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ralph_core::clients::hook::{HookCall, HookEvent, HookReply, Rendered};
use ralph_core::model::secrets::Secrets;
use ralph_core::model::{duration, foreign_text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clients::client::Client;
use crate::clients::list;
use crate::loops::driver::driven;
use crate::loops::session::event::{HookOptions, NotChecked, Often, SessionEvent, tell_later};
use crate::loops::session::member;
use crate::store::home::Home;
use crate::store::sessions;

/// What the client was told to wait, less a margin; the installer writes both.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(570);

/// A hook input larger than this is not one.
const LARGEST_INPUT: usize = 16 << 20;

/// A client that writes nothing for this long is not going to.
const INPUT_PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// Reads `hook NAME [--deadline TIME] [--gate-timeout TIME]`. Anything else, help too, is for the other door.
pub(crate) fn called(arguments: &[OsString]) -> Option<(&'static Client, HookOptions)> {
    let words: Vec<&str> = arguments.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let (name, mut words) = words.strip_prefix(&["hook"])?.split_first()?;
    let client = list::find(name)?;
    let mut options = HookOptions::default();
    while let [name, value, rest @ ..] = words {
        match *name {
            "--deadline" => options.deadline = Some(duration::parse(value).ok()?),
            "--gate-timeout" => {
                duration::parse(value).ok()?;
                options.gate_timeout = Some((*value).to_owned());
            }
            _ => return None,
        }
        words = rest;
    }
    words.is_empty().then_some((client, options))
}

pub(crate) fn run(client: &'static Client, options: &HookOptions) -> ExitCode {
    let begun = Instant::now();
    let wire = &client.wire;
    let call = match read_input().map_err(NotChecked::from).and_then(|bytes| Ok((wire.parse)(&bytes)?)) {
        Ok(call) => call,
        Err(NotChecked(why)) => return unreadable(client, &why),
    };
    let deadline = begun + options.deadline.unwrap_or(DEFAULT_DEADLINE);
    let reply = match answer(client, &call, options, deadline) {
        Ok(reply) => reply,
        Err(NotChecked(why)) => went_wrong(client, &call, &why),
    };
    send(&(wire.render)(&reply, &call.event))
}

/// A client that does not listen any more has made up its mind.
fn send(answer: &Rendered) -> ExitCode {
    let _gone = io::stdout()
        .write_all(&answer.stdout)
        .and_then(|()| io::stderr().write_all(answer.stderr.as_bytes()));
    ExitCode::from(answer.exit_code)
}

/// What is said when an event could not be answered. A stop that goes through for it is never silent. What goes wrong with
/// every tool goes wrong at the stop too, and is told there.
fn went_wrong(client: &Client, call: &HookCall, why: &str) -> HookReply {
    let is_stop = matches!(
        call.event,
        HookEvent::SubagentStop
            | HookEvent::Stop { .. }
            | HookEvent::TeammateIdle
            | HookEvent::TaskCompleted { .. }
    );
    let line = if is_stop {
        format!("ralph: {why}. The stop goes through UNVERIFIED.")
    } else {
        format!("ralph: {why}.")
    };
    let _exit_code = complain(&line);
    match call.event {
        HookEvent::PreToolUse { .. }
        | HookEvent::PostToolUse { .. }
        | HookEvent::PostToolUseFailure { .. }
        | HookEvent::SubagentStart
        | HookEvent::SessionEnd { .. } => return HookReply::Silent,
        _ if is_stop && !(client.wire.audience)(call).user => tell_later(call, &line, Often::EveryTime),
        _ => {}
    }
    HookReply::Tell { person: Some(line), agent: None }
}

/// Nobody knows what it was. Where it may have been a stop, the user reads that it was not checked.
fn unreadable(client: &Client, why: &str) -> ExitCode {
    let line = format!("ralph: {why}; the stop goes through UNVERIFIED");
    let person = foreign_text::clean(line.as_bytes(), &Secrets::default());
    let told = HookReply::Tell { person: Some(person), agent: None };
    let exit_code = send(&(client.wire.render)(&told, &HookEvent::Other(String::new())));
    let _also_on_stderr = complain(&line);
    exit_code
}

fn complain(line: &str) -> ExitCode {
    let line = line.strip_prefix("ralph: ").unwrap_or(line);
    let _nobody_listens =
        writeln!(io::stderr(), "ralph: {}", ralph_core::model::foreign_text::for_terminal(line, &[]));
    ExitCode::SUCCESS
}

/// Reads all of stdin, but not for ever and not without end.
fn read_input() -> io::Result<Vec<u8>> {
    let too_slow = || io::Error::new(io::ErrorKind::TimedOut, "the hook input did not end within 2 s");
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "the hook input is larger than 16 MiB");
    let mut stdin = io::stdin().lock();
    // Most inputs fit; a larger part would cost more to lay out than to read in two.
    let (mut input, mut part) = (Vec::new(), [0; 1 << 14]);
    loop {
        let ready = loop {
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&INPUT_PATIENCE)) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        if ready == 0 {
            return Err(too_slow());
        }
        match stdin.read(&mut part) {
            Ok(0) => return Ok(input),
            Ok(count) => input.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if input.len() > LARGEST_INPUT {
            return Err(too_large());
        }
    }
}

fn answer(
    client: &'static Client,
    call: &HookCall,
    options: &HookOptions,
    deadline: Instant,
) -> Result<HookReply, NotChecked> {
    if is_second_voice(client, call) {
        return Ok(HookReply::Silent);
    }
    // Law 4: a call that names no session belongs to none.
    let Some(session) = &call.session else {
        let is_agent = call.event == HookEvent::SubagentStop;
        return if is_agent { member::stops(client, call, options, deadline) } else { Ok(HookReply::Silent) };
    };
    let home = Home::find()?;
    // The driver judges what its agent leaves; a second judge inside would hold it again and again.
    if driven::are_we_driven(&home) {
        return Ok(HookReply::Silent);
    }
    let door = SessionEvent { client, call, session, home: &home, options, deadline, found: OnceCell::new() };
    let reply = match &call.event {
        HookEvent::SubagentStop => {
            let reply = member::stops(client, call, options, deadline)?;
            door.agent_stops(&reply)?;
            return Ok(reply);
        }
        HookEvent::TeammateIdle | HookEvent::TaskCompleted { .. } => {
            return member::stops(client, call, options, deadline);
        }
        HookEvent::SubagentStart => door.agent_starts(),
        HookEvent::Stop { background } => door.session_stops(background),
        HookEvent::StopFailure { error } => door.turn_fails(error),
        HookEvent::UserPromptSubmit { prompt } => door.person_says(prompt),
        HookEvent::UserPromptExpansion { command, arguments } => door.person_commands(command, arguments),
        HookEvent::SessionStart { source } => door.session_starts(source),
        HookEvent::SessionEnd { reason } => door.session_ends(reason),
        HookEvent::PreToolUse { tool, file } => door.tool_is_wanted(tool, file.as_deref()),
        HookEvent::PostToolUse { tool } => door.tool_was_used(tool),
        HookEvent::PostToolUseFailure { tool, error } => door.tool_failed(tool, error),
        HookEvent::Other(_) => return Ok(HookReply::Silent),
    };
    Ok(door.with_what_waits(reply?))
}

/// Whether the client calls us twice for this event: as the plugin's hook, and by an entry in its settings, which then
/// has the word. Two voices would count every stop twice.
fn is_second_voice(client: &Client, call: &HookCall) -> bool {
    let Some(installation) = client.installation.filter(|_| client.calls_plugin()) else { return false };
    let Some(event) = (client.wire.event_name)(&call.event) else { return false };
    client.folder_of(call).is_some_and(|folder| (installation.answers)(&folder, event))
        && settle_first_voice(call)
}

/// Whether the settings had the word when the session began. A client takes up its hooks then: an entry that an agent
/// puts there later may never be run, and would silence the only voice there is.
fn settle_first_voice(call: &HookCall) -> bool {
    let (Some(session), Ok(home)) = (&call.session, Home::find()) else { return true };
    match &call.event {
        HookEvent::SessionStart { source } if source != "compact" => {
            sessions::give_settings_the_word(&home, session).is_ok()
        }
        HookEvent::SessionEnd { .. } => sessions::take_the_word_from_settings(&home, session),
        _ => sessions::settings_have_the_word(&home, session),
    }
}
