//! The text after the scenario.

use super::Report;
use evictd_signals::human_bytes;

/// How this program was built: figures of one build say little of the other.
const BUILD: &str = if cfg!(debug_assertions) {
    "dev build"
} else {
    "release build"
};

/// One line: was it as expected.
pub fn verdict(report: &Report) -> String {
    let gone = list(&report.evicted, "none");
    let kills = report.kernel_oom_kills;
    let lives = list(&report.survivors, "none");
    let expected = report.expected.as_deref().unwrap_or("none");
    if report.as_expected() {
        format!("as expected: {gone} was evicted; {lives} still run")
    } else {
        format!(
            "NOT as expected: {gone} evicted instead of {expected}; still running: {lives}; kernel OOM kills: {kills}"
        )
    }
}

/// One line of 80 columns below a picture, which shows the rest.
pub fn below_picture(report: &Report) -> String {
    let reaction = report.reaction_seconds;
    let gone = reaction.map(|seconds| format!("gone after {:.0} ms", seconds * 1000.0));
    let lowest = report.lowest_available_bytes;
    let lowest = lowest.map(|bytes| format!("{} left at the lowest", human_bytes(bytes)));
    let kills = format!("kernel OOM kills: {}", report.kernel_oom_kills);
    let parts = [gone, lowest, Some(kills), Some(BUILD.to_owned())];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{}.", parts.join("; "))
}

/// A few plain lines.
pub fn summary(report: &Report, missing: Option<&str>) -> String {
    let mut lines = vec![format!("{}.", verdict(report))];
    if let Some(missing) = missing {
        lines.push(format!(
            "This was simulated with the daemon's own rules: {missing}."
        ));
    }
    if let Some(reaction) = report.reaction_seconds {
        lines.push(format!(
            "{:.0} ms from the last sample above the threshold to the exit of the last process.",
            reaction * 1000.0
        ));
    }
    if let Some(lowest) = report.lowest_available_bytes {
        lines.push(format!(
            "At the lowest, {} of memory were left; kernel OOM kills: {}.",
            human_bytes(lowest),
            report.kernel_oom_kills
        ));
    }
    lines.push(format!("evictd {}, {BUILD}.", env!("CARGO_PKG_VERSION")));
    lines.join("\n")
}

fn list(names: &[String], none: &str) -> String {
    let names: Vec<&str> = names
        .iter()
        .map(|name| name.rsplit('/').next().unwrap_or(name))
        .collect();
    match names.split_last() {
        None => none.to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}
