//! The schedule, the time zone and the name of a cron job (S6-246). Its job template is not looked at.

use super::field::quoted;
use evictd_batch_workflows::schedule::{Schedule, zone};
use evictd_batch_workflows::{CronJob, CronJobSpec};
use evictd_pod::names;

/// Names of jobs end with the minutes since 1970, and are labels.
const LONGEST_NAME: usize = 52;

/// Everything that is wrong with a cron job; nothing if it is right.
pub(super) fn check(cron: &CronJob) -> String {
    let spec = format!("{}{}", schedule(&cron.spec), time_zone(&cron.spec));
    let parts = [spec.trim().to_owned(), name(&cron.metadata.name)];
    let wrong: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    wrong.join("; ")
}

fn schedule(spec: &CronJobSpec) -> &'static str {
    let text = &spec.schedule;
    if text.is_empty() {
        " schedule is required, but got empty"
    } else if text.contains("TZ") {
        " schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
    } else if Schedule::parse(text).is_err() {
        "schedule is not a valid cron expression"
    } else {
        ""
    }
}

fn time_zone(spec: &CronJobSpec) -> String {
    let Some(name) = &spec.time_zone else {
        return String::new();
    };
    if name.is_empty() {
        return " timeZone must be nil or non-empty string, got empty string".to_owned();
    }
    let parts = name.split('/').filter(|part| !is_zone_part(part));
    let unknown = " unknown timeZone".repeat(parts.count().min(8));
    let invalid = if name.eq_ignore_ascii_case("Local") {
        " timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"
    } else if zone(name).is_err() {
        " invalid timeZone"
    } else {
        ""
    };
    unknown + invalid
}

fn is_zone_part(part: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    (1..=14).contains(&part.len())
        && part.bytes().all(allowed)
        && !matches!(part, "." | "..")
        && !part.starts_with('-')
}

fn name(name: &str) -> String {
    if name.len() > LONGEST_NAME {
        return format!(
            "cronJob name must be no more than {LONGEST_NAME} characters to accommodate job name suffix (max 63 total)"
        );
    }
    let wrong = names::qualified(name);
    if wrong.is_empty() {
        return String::new();
    }
    format!(
        "invalid cronJob name {}: {}",
        quoted(name),
        wrong.join("; ")
    )
}
