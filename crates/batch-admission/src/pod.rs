//! Pods of our scheduler: how many of a job's pods may be taken at a time (S6-085).

use super::Settings;
use super::field::quoted;
use evictd_batch_objects::{BUDGET_MAX_UNAVAILABLE, BUDGET_MIN_AVAILABLE};
use evictd_pod::wire::Pod;

/// How many have to stay, and how many may go.
const BUDGETS: [&str; 2] = [BUDGET_MIN_AVAILABLE, BUDGET_MAX_UNAVAILABLE];

/// The first thing that is wrong with the annotations of a new pod.
pub(super) fn check(pod: &Pod, settings: &Settings) -> Result<(), String> {
    if !settings.scheduler_names.contains(&pod.spec.scheduler_name) {
        return Ok(());
    }
    let mut given = 0;
    for key in BUDGETS {
        if let Some(value) = pod.metadata.annotations.get(key) {
            given += 1;
            budget(key, value)?;
        }
    }
    if given > 1 {
        let keys = BUDGETS.join(" ");
        return Err(format!(
            "not allow configure multiple annotations <[{keys}]> at same time"
        ));
    }
    Ok(())
}

/// A positive number, or a percentage between 1 and 99.
fn budget(key: &str, value: &str) -> Result<(), String> {
    if let Ok(number) = value.parse::<i32>() {
        if number > 0 {
            return Ok(());
        }
        let value = quoted(value);
        return Err(format!(
            "invalid value <{value}> for {key}, it must be a positive integer"
        ));
    }
    // A percent sign counts anywhere in the text, as it does in Volcano.
    let share = value.replace('%', "");
    match share.parse::<i64>() {
        Ok(1..=99) => Ok(()),
        Ok(_) => {
            let value = quoted(value);
            Err(format!(
                "invalid value <{value}> for {key}, it must be a valid percentage which between 1% ~ 99%"
            ))
        }
        Err(error) => {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let why = match error.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let share = quoted(&share);
            Err(format!(
                "invalid value strconv.Atoi: parsing {share}: {why} for {key}"
            ))
        }
    }
}
