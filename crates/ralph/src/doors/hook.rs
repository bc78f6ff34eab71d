//! The fast entry point: one hook event on stdin, the client's dialect on stdout, exit code 0 except for the two events
//! that are blocked by exit code 2.
//!
//! On any internal error the stop is allowed with a message: a hook never traps the user. Only a decision of the engine
//! blocks.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ralph_core::clients::hook::{HookCall, HookEvent, HookReply, RenderedReply};
use ralph_core::model::secrets::Secrets;
use ralph_core::model::{duration, foreign_text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clients::client::Client;
use crate::clients::list;
use crate::loops::driver::driven;
use crate::loops::session::event::{HookOptions, NotChecked, NoticeFrequency, SessionEvent, notify_later};
use crate::loops::session::member;
use crate::store::home::Home;
use crate::store::sessions;
use crate::sys::trace;

/// The client's timeout less a margin; the installer writes both.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(570);

/// The maximum size of a hook input.
const LARGEST_INPUT: usize = 16 << 20;

/// How long to wait for the client's input.
const INPUT_PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// Parses `hook NAME [--deadline TIME] [--gate-timeout TIME]`. Anything else, including help, is left to the command line.
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
        Err(NotChecked(why)) => return reply_unreadable(client, &why),
    };
    trace::step(|| format!("read the event `{}`", (wire.event_name)(&call.event).unwrap_or("unknown")));
    let deadline = begun + options.deadline.unwrap_or(DEFAULT_DEADLINE);
    let reply = match answer(client, &call, options, deadline) {
        Ok(reply) => reply,
        Err(NotChecked(why)) => error_reply(client, &call, &why),
    };
    let exit_code = send(&(wire.render)(&reply, &call.event));
    trace::step(|| format!("answered: {}", reply.word()));
    exit_code
}

/// A client that no longer reads the reply has already decided.
fn send(answer: &RenderedReply) -> ExitCode {
    let _reader_gone = io::stdout()
        .write_all(&answer.stdout)
        .and_then(|()| io::stderr().write_all(answer.stderr.as_bytes()));
    ExitCode::from(answer.exit_code)
}

/// The reply if an event could not be handled. An allowed stop is always reported. Errors at tool events also occur at the
/// stop and are reported there.
fn error_reply(client: &Client, call: &HookCall, why: &str) -> HookReply {
    let is_stop = matches!(
        call.event,
        HookEvent::SubagentStop
            | HookEvent::Stop { .. }
            | HookEvent::TeammateIdle
            | HookEvent::TaskCompleted { .. }
    );
    let line =
        if is_stop { format!("ralph: {why}. Stop allowed, UNVERIFIED.") } else { format!("ralph: {why}.") };
    let _exit_code = print_error(&line);
    match call.event {
        HookEvent::PreToolUse { .. }
        | HookEvent::PostToolUse { .. }
        | HookEvent::PostToolUseFailure { .. }
        | HookEvent::SubagentStart
        | HookEvent::SessionEnd { .. } => return HookReply::Silent,
        _ if is_stop && !(client.wire.audience)(call).user => {
            notify_later(call, &line, NoticeFrequency::EveryTime);
        }
        _ => {}
    }
    HookReply::Notify { user: Some(line), agent: None }
}

/// The event is unknown. It may have been a stop, so the user is told that it was not checked.
fn reply_unreadable(client: &Client, why: &str) -> ExitCode {
    let line = format!("ralph: {why}; stop allowed, UNVERIFIED");
    let user = foreign_text::clean(line.as_bytes(), &Secrets::default());
    let reply = HookReply::Notify { user: Some(user), agent: None };
    let exit_code = send(&(client.wire.render)(&reply, &HookEvent::Other(String::new())));
    let _also_on_stderr = print_error(&line);
    exit_code
}

fn print_error(line: &str) -> ExitCode {
    let line = line.strip_prefix("ralph: ").unwrap_or(line);
    let _reader_gone =
        writeln!(io::stderr(), "ralph: {}", ralph_core::model::foreign_text::for_terminal(line, &[]));
    ExitCode::SUCCESS
}

/// Reads all of stdin, with limits on time and size.
fn read_input() -> io::Result<Vec<u8>> {
    let too_slow = || io::Error::new(io::ErrorKind::TimedOut, "the hook input was not complete within 2 s");
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "the hook input is larger than 16 MiB");
    let mut stdin = io::stdin().lock();
    // Most inputs fit; a larger buffer would cost more to allocate than a second read.
    let (mut input, mut part) = (Vec::new(), [0; 1 << 12]);
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
    if is_duplicate_hook(client, call) {
        return Ok(HookReply::Silent);
    }
    // Law 4: a call without a session id belongs to no session.
    let Some(session) = &call.session else {
        let is_agent = call.event == HookEvent::SubagentStop;
        return if is_agent {
            member::on_member_stop(client, call, options, deadline)
        } else {
            Ok(HookReply::Silent)
        };
    };
    let home = Home::find()?;
    // The driver judges its agent's work; a second judge inside would block it repeatedly.
    if driven::inside_driven_agent(&home) {
        return Ok(HookReply::Silent);
    }
    let door = SessionEvent { client, call, session, home: &home, options, deadline, found: OnceCell::new() };
    let reply = match &call.event {
        HookEvent::SubagentStop => {
            if let Some(reply) = door.on_leader_stop()? {
                return Ok(reply);
            }
            let reply = member::on_member_stop(client, call, options, deadline)?;
            door.on_agent_stop(&reply)?;
            return Ok(reply);
        }
        HookEvent::TeammateIdle | HookEvent::TaskCompleted { .. } => {
            return member::on_member_stop(client, call, options, deadline);
        }
        HookEvent::SubagentStart => door.on_agent_start(),
        HookEvent::Stop { background } => door.on_session_stop(background),
        HookEvent::StopFailure { error } => door.on_turn_failure(error),
        HookEvent::UserPromptSubmit { prompt } => door.on_user_prompt(prompt),
        HookEvent::UserPromptExpansion { command, arguments } => door.on_user_command(command, arguments),
        HookEvent::SessionStart { source } => door.on_session_start(source),
        HookEvent::SessionEnd { reason } => door.on_session_end(reason),
        HookEvent::PreToolUse { tool, file } => door.on_tool_request(tool, file.as_deref()),
        HookEvent::PostToolUse { tool } => door.on_tool_used(tool),
        HookEvent::PostToolUseFailure { tool, error } => door.on_tool_failure(tool, error),
        HookEvent::Other(_) => return Ok(HookReply::Silent),
    };
    Ok(door.with_notices(reply?))
}

/// Whether the client calls us twice for this event: through the plugin and through its settings, which then take
/// precedence. Two answers would count every stop twice.
fn is_duplicate_hook(client: &Client, call: &HookCall) -> bool {
    let Some(installation) = client.installation.filter(|_| client.calls_plugin()) else { return false };
    let Some(event) = (client.wire.event_name)(&call.event) else { return false };
    client.folder_of(call).is_some_and(|folder| (installation.answers)(&folder, event))
        && settle_hook_source(call)
}

/// Whether the settings took precedence when the session began. Clients load hooks then: an entry added later by an agent
/// may never run, and would silence the only active hook.
fn settle_hook_source(call: &HookCall) -> bool {
    let (Some(session), Ok(home)) = (&call.session, Home::find()) else { return true };
    match &call.event {
        HookEvent::SessionStart { source } if source != "compact" => {
            sessions::prefer_settings_hook(&home, session).is_ok()
        }
        HookEvent::SessionEnd { .. } => sessions::forget_settings_hook(&home, session),
        _ => sessions::prefers_settings_hook(&home, session),
    }
}
