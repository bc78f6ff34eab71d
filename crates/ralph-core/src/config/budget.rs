//! The `budget:` of a config.

use std::time::Duration;

use crate::config::position::Position;
use crate::config::raw::{RawBudget, Scalar, Spanned};
use crate::model::budget::{Attempts, Budget};
use crate::model::config_problem::ConfigProblem;
use crate::model::duration;

pub(super) fn read(entry: Spanned<RawBudget>) -> Result<Budget, ConfigProblem> {
    let place = Position::of(&entry);
    let raw = entry.value;
    let errors = raw.errors.map(|errors| at_least_one(errors, "errors", place)).transpose()?;
    Ok(Budget {
        attempts: raw.attempts.as_ref().map(|scalar| attempts(scalar, place)).transpose()?,
        errors,
        on_exhausted: raw.on_exhausted,
        clock: raw.clock.as_ref().map(|scalar| clock(scalar, place)).transpose()?,
        stale_after: raw.stale_after.as_ref().map(|scalar| clock(scalar, place)).transpose()?,
        agent_calls: None,
        cost: None,
    })
}

fn at_least_one(number: u32, key: &str, place: Position) -> Result<u32, ConfigProblem> {
    if number == 0 {
        return Err(place.problem(format!("`{key}: 0` would allow every stop at once"), "give at least 1"));
    }
    Ok(number)
}

fn attempts(scalar: &Scalar, place: Position) -> Result<Attempts, ConfigProblem> {
    if scalar.0 == "unlimited" {
        return Ok(Attempts::Unlimited);
    }
    match scalar.0.parse() {
        Ok(number) => at_least_one(number, "attempts", place).map(Attempts::AtMost),
        Err(_) => Err(place.problem(
            format!("`attempts: {}` is not a number", scalar.0),
            "give a number, for example 5, or the word `unlimited`",
        )),
    }
}

fn clock(scalar: &Scalar, place: Position) -> Result<Option<Duration>, ConfigProblem> {
    if scalar.0 == "off" {
        return Ok(None);
    }
    duration::parse(&scalar.0).map(Some).map_err(|hint| place.problem("an invalid duration", hint))
}
