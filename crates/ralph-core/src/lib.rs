//! The pure core of ralph: values in, decision out. No file, clock, environment, process or thread; its manifest and its
//! `clippy.toml` hold that.
//!
//! In reading order:
//! - [`id`], [`duration`]: names and lengths of time
//! - [`layout`], [`preset`], [`budget`]: what differs between repos and systems, as data
//! - [`config`]: what a repo asks for; [`gate`]: a command that passes or fails, its outcome, plan and receipt
//! - [`detect`]: which gates a project could have
//! - [`wire`]: what clients say and hear
//! - `prose`: which lines of a text are its writer's own words
//! - [`control_word`]: what a person says to a loop
//! - [`completion_marker`], [`state_file`]: claims and state of other layouts
//! - [`promise`]: what a session's loop asks its agent to state; [`agent_report`]: the typed line that ends an agent's part
//! - [`task_list`]: boxes to be ticked, and which task comes next
//! - [`start_request`], [`control_word`]: what a person says to a loop
//! - [`completion_marker`], [`state_file`], [`loop_file`]: claims and state of other layouts and of the official plugin
//! - [`hygiene`]: what nobody means to leave behind in the lines they add
//! - [`foreign_text`], [`visible_text`], [`secrets`], [`excerpt`], [`feedback`]: what the agent and the person are told
//! - [`results`]: what test runners, compilers and linters print, as data
//! - [`role_briefing`]: what an agent hears that is called into a judged session
//! - [`lang`], [`banner`], [`loop_error`], [`telling`]: what a person reads about a loop, in four languages
//! - [`goal`], [`transcript`]: what a session's loop is for, and whether a tool was called; [`note`]: what is noted about it
//! - [`drive`]: what a driven loop does next; [`agent_profile`], [`driver_prompt`]: how it calls a headless agent, and
//!   what it asks of it
//! - [`stream`]: what that agent prints, as events; [`money`]: what it costs
//! - [`ledger`], [`state`], [`facts`], [`verdict`]: what we remember, what is, what was seen, how it ends
//! - [`loop_report`]: what came of a loop, for people and scripts
//! - [`decide`](mod@decide): may it stop now? [`life`]: what else happens to a loop

pub mod agent_profile;
pub mod agent_report;
pub mod banner;
pub mod budget;
pub mod completion_marker;
pub mod config;
pub mod control_word;
pub mod decide;
pub mod detect;
pub mod drive;
pub mod driver_prompt;
pub mod duration;
pub mod excerpt;
pub mod facts;
pub mod feedback;
pub mod foreign_text;
pub mod gate;
pub mod goal;
pub mod hygiene;
pub mod id;
pub mod lang;
pub mod layout;
pub mod ledger;
pub mod life;
pub mod loop_error;
pub mod loop_file;
pub mod loop_report;
pub mod money;
pub mod note;
pub mod preset;
pub mod promise;
mod prose;
pub mod results;
pub mod role_briefing;
pub mod secrets;
pub mod start_request;
pub mod state;
pub mod state_file;
pub mod stream;
pub mod task_list;
pub mod telling;
pub mod transcript;
pub mod verdict;
pub mod visible_text;
pub mod wire;
