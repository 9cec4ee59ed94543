//! `evictd status`: the state of the running daemon and its node.

mod headline;

use super::daemon::Daemon;
use super::machine::Machine;
use super::outcome::remark;
use super::table::{amount, duration, moment, or_dash, seconds};
use anyhow::Context;
use clap::Args;
use evictd_command::{Colour, Column, Failure, Output, Row, Table, View};
use evictd_kernel::signals::{Pressure, RENEWAL};
use evictd_node::status::{
    AdmissionStatus, ConfigurationStatus, ObservedStatus, SignalStatus, Status, ThresholdStatus,
};
use evictd_node_config::Admission;
use evictd_signals::human_bytes;
use jiff::SignedDuration;

use headline::urgency;
pub(super) use headline::{headline, is_alarming};

const EXAMPLE: &str = "Example:
  evictd status
  evictd status -o json | jq '.signals[] | {signal, available, headroom}'";

/// The state of the running daemon and its node: signals, conditions, pods, last eviction, warnings.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut document = self.daemon.get("/v1/status")?;
        let machine = Machine::here();
        let line = machine.line();
        document["machine"] = serde_json::to_value(machine)?;
        let status: Status = serde_json::from_value(document.clone())
            .context("the daemon's status is not understood; is it of another version?")?;
        self.output
            .print(&document, |_, view| page(&status, &line, view))
    }
}

/// The page for people, the most urgent first.
fn page(status: &Status, machine: &str, view: View) -> String {
    let head = view.sentence(&headline(status));
    let head = view.paint(urgency(status), &head);
    let mut page = Lines {
        text: format!("{head}\n\n"),
        view,
    };
    tell_what_is_wrong(status, &mut page);
    tell_the_rest(status, machine, &mut page);
    let (signals, conditions) = (signals(status, view), conditions(status, view));
    format!("{}\n{signals}\n\n{conditions}\n", page.text)
}

/// Lines that each begin with a heading.
struct Lines {
    text: String,
    view: View,
}

impl Lines {
    fn tell(&mut self, heading: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut line = self.view.hanging(&format!("{heading:<10}"), text);
        if matches!(heading, "WARNING" | "PAUSED") {
            line = self.view.paint(Colour::Warning, &line);
        }
        self.text.push_str(&line);
        self.text.push('\n');
    }
}

fn tell_what_is_wrong(status: &Status, page: &mut Lines) {
    if let Some(pause) = &status.paused {
        let text = format!(
            "since {} {pause}; no pod is terminated",
            moment(pause.since)
        );
        page.tell("PAUSED", &text);
    }
    tell_configuration(&status.configuration, page);
    for warning in &status.warnings {
        page.tell("WARNING", warning);
    }
    if let Some(error) = &status.history.error {
        page.tell("WARNING", error);
    }
    for signal in status.signals.iter().filter(|signal| signal.is_blind()) {
        let (name, problem) = (signal.signal, state(signal));
        let text = format!("{name} is not observed: {problem}; the daemon's log names the source");
        page.tell("WARNING", &text);
    }
    for stop in &status.futile_stops {
        let text = format!(
            "evictions for {} are suspended since {}, until {} at the latest: the last ones did not help",
            stop.signal,
            moment(stop.since),
            moment(stop.until)
        );
        page.tell("WARNING", &text);
    }
    for leaving in &status.leaving {
        let until = leaving
            .until
            .map(|until| format!(", until {} at most", moment(until)));
        let text = format!(
            "{} since {}: {}{}",
            leaving.pod,
            moment(leaving.since),
            leaving.waits_for,
            until.unwrap_or_default()
        );
        page.tell("LEAVING", &text);
    }
    // No eviction frees what no pod uses, so an operator has to look there.
    for signal in &status.signals {
        if let Some(outside) = signal.in_no_pod {
            let shown = |figure| amount(Some(signal.signal), figure);
            let text = format!(
                "{} of {} of {} were used outside of pods at the last decision",
                shown(Some(outside)),
                shown(signal.capacity),
                signal.signal
            );
            page.tell("OUTSIDE", &text);
        }
    }
    for returning in &status.returning_owners {
        page.tell("WARNING", &returning.message);
    }
}

fn tell_the_rest(status: &Status, machine: &str, page: &mut Lines) {
    let mode = if status.dry_run {
        ", DRY RUN: nothing is evicted"
    } else {
        ""
    };
    let uptime = duration(SignedDuration::from_secs(status.uptime_seconds));
    let daemon = format!(
        "evictd {} on {}, pid {}, up {uptime}, {}{mode}",
        status.version, status.node, status.pid, status.rules
    );
    page.tell("DAEMON", &daemon);
    page.tell("MACHINE", machine);
    page.tell("LAYOUT", &status.layout);
    for source in &status.sources {
        let chosen = format!("{}: {} ({})", source.port, source.chosen, source.why);
        page.tell("SOURCE", &chosen);
    }
    page.tell("OBSERVED", &observed(&status.observed));
    let call = status.last_call.map(|call| {
        let (by, at) = (call.by.as_str(), moment(call.at));
        format!("the kernel last woke the loop at {at}: {by}")
    });
    page.tell("WOKEN", &call.unwrap_or_default());
    let pods = &status.pods;
    let age = pods.age_seconds.map(|age| {
        let age = duration(SignedDuration::from_secs(age));
        format!(", as they were {age} ago")
    });
    let counted = format!(
        "{} active, {} of unknown usage, {} never evicted{}",
        pods.active,
        pods.unknown,
        pods.protected,
        age.unwrap_or_default()
    );
    page.tell("PODS", &counted);
    page.tell("ADMISSION", &admission(&status.admission));
    page.tell("LAST", &last_decision(status));
    page.tell("RECLAIM", &last_reclaim(status));
    page.tell("REMOVABLE", &removable(status));
    page.tell("HISTORY", &history(status));
}

/// Reports a configuration that was read but is not in force.
fn tell_configuration(configuration: &ConfigurationStatus, page: &mut Lines) {
    if let Some(refused) = &configuration.refused {
        let text = format!(
            "the configuration read {} is refused, that of {} stays in force:",
            moment(refused.at),
            moment(configuration.read_at)
        );
        page.tell("WARNING", &text);
        for mistake in &refused.mistakes {
            page.tell("", mistake);
        }
    }
    // A reload takes the rest of the file, so only these are named.
    if !configuration.waits_for_restart.is_empty() {
        let text = format!(
            "changed, and in force only after a restart: {}",
            configuration.waits_for_restart.join(", ")
        );
        page.tell("RESTART", &text);
    }
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Figures without a threshold.
fn observed(figures: &ObservedStatus) -> String {
    let bytes = |figure: Option<i64>| figure.map_or("unknown".to_owned(), human_bytes);
    let stalled = |pressure: Option<Pressure>| {
        pressure.map_or("unknown".to_owned(), |pressure| {
            format!(
                "some {}% full {}%",
                pressure.some_avg10, pressure.full_avg10
            )
        })
    };
    let swap = figures
        .swap
        .map_or("unknown".to_owned(), |swap| match swap.total {
            0 => "none".to_owned(),
            total => format!(
                "{} of {} free",
                bytes(i64::try_from(swap.free).ok()),
                bytes(i64::try_from(total).ok())
            ),
        });
    format!(
        "memory left {} (kernel) {} (kubelet), swap {swap}, stalled on memory {}, on I/O {}, on CPU {}; \
         figures without a threshold are up to {} s old",
        bytes(figures.mem_available_bytes),
        bytes(figures.working_set_available_bytes),
        stalled(figures.memory_pressure),
        stalled(figures.io_pressure),
        stalled(figures.cpu_pressure),
        RENEWAL.as_secs(),
    )
}

/// The mode of admission for new pods that should not be on this node, and the latest ones.
fn admission(status: &AdmissionStatus) -> String {
    let mode = match status.mode {
        Admission::Off => "off",
        Admission::Report => "report",
        Admission::Reject => "reject",
    };
    let Some(latest) = status.latest.last() else {
        return format!("{mode}; no new pod has failed admission");
    };
    let for_it = match latest.preempt.as_slice() {
        [] => String::new(),
        pods => format!(" (preempts {})", pods.join(", ")),
    };
    format!(
        "{mode}; new pods that failed admission: {}, the latest {} {}: {}: {}{for_it}",
        status.findings,
        moment(latest.time),
        latest.pod,
        latest.reason,
        latest.message.trim_end(),
    )
}

/// The text if there is no last decision.
pub(super) fn no_decision(status: &Status) -> &'static str {
    match status.history.error {
        None => "nothing was ever evicted",
        Some(_) => "unknown while the history cannot be read or written",
    }
}

fn last_decision(status: &Status) -> String {
    let Some(record) = &status.last_decision else {
        return no_decision(status).to_owned();
    };
    let passed_over = record.passed_over.as_ref();
    let passed_over = passed_over.map(|one| format!("; {}", one.sentence));
    format!(
        "{} {} for {} ({}){}: {}{}",
        moment(record.time),
        or_dash(record.pod.as_ref()),
        record.signal,
        record.kind.as_str(),
        remark(record),
        or_dash(record.message.as_ref()),
        passed_over.unwrap_or_default(),
    )
}

/// The last reclaim without an eviction; empty if none was tried.
fn last_reclaim(status: &Status) -> String {
    status
        .last_reclaim
        .as_ref()
        .map_or_else(String::new, |record| {
            let (time, signal) = (moment(record.time), &record.signal);
            format!("{time} for {signal}: {}", or_dash(record.message.as_ref()))
        })
}

/// The objects that could be removed without evicting a pod; empty if unknown.
fn removable(status: &Status) -> String {
    status
        .reclaimable
        .as_ref()
        .map_or_else(String::new, |found| {
            let age = duration(SignedDuration::from_secs(found.age_seconds));
            format!("{}, as of {age} ago", found.sentence())
        })
}

fn history(status: &Status) -> String {
    let waiting = match status.history.waiting {
        0 => String::new(),
        1 => ", 1 record waits for the disk".to_owned(),
        waiting => format!(", {waiting} records wait for the disk"),
    };
    let kept = counted(status.history.evictions, "eviction");
    format!("{kept} kept{waiting} (`evictd history`)")
}

/// The table of signals.
fn signals(status: &Status, view: View) -> String {
    let rows = status.signals.iter().map(|signal| {
        let show = |value| amount(Some(signal.signal), value);
        let thresholds: Vec<String> = signal.thresholds.iter().map(threshold).collect();
        Row::from(vec![
            signal.signal.to_string(),
            show(signal.available),
            show(signal.capacity),
            if thresholds.is_empty() {
                "-".to_owned()
            } else {
                thresholds.join(", ")
            },
            show(signal.headroom),
            signal.age_seconds.map_or_else(|| "-".to_owned(), seconds),
            signal.sleep_seconds.map_or_else(|| "-".to_owned(), seconds),
            state(signal),
        ])
        .coloured(colour(signal))
    });
    let columns = [
        Column::words("SIGNAL", 9),
        Column::figure("AVAILABLE", 7),
        Column::figure("CAPACITY", 3),
        Column::sentence("THRESHOLDS", 6),
        Column::figure("HEADROOM", 5),
        Column::figure("AGE", 2),
        Column::figure("NEXT SAMPLE", 1),
        Column::sentence("STATE", 8),
    ];
    Table::new(columns, rows).shown(view)
}

fn colour(signal: &SignalStatus) -> Option<Colour> {
    if is_low(signal) {
        Some(Colour::Bad)
    } else {
        let attention = signal.is_blind() || held_until(signal).is_some();
        attention.then_some(Colour::Warning)
    }
}

/// Whether the signal is below a threshold that acts, or waits for its grace period.
fn is_low(signal: &SignalStatus) -> bool {
    let mut met = signal.thresholds.iter().filter(|threshold| threshold.met);
    met.any(|threshold| threshold.held_until.is_none())
}

/// The amount that the minimum reclaim demands of a signal that is above its thresholds again.
fn held_until(signal: &SignalStatus) -> Option<i64> {
    let held = signal.thresholds.iter().filter_map(|one| one.held_until);
    held.max()
}

fn threshold(threshold: &ThresholdStatus) -> String {
    let grace = match threshold.grace_period_seconds {
        0 => String::new(),
        grace => format!(" for {}", duration(SignedDuration::from_secs(grace))),
    };
    let below = if threshold.configured.contains('>') {
        ""
    } else {
        "<"
    };
    format!("{} {below}{}{grace}", threshold.kind, threshold.configured)
}

fn state(signal: &SignalStatus) -> String {
    if let Some(why) = signal.absent.as_ref().or(signal.problem.as_ref()) {
        return why.clone();
    }
    match (is_low(signal), held_until(signal), signal.available) {
        (true, ..) => "LOW".to_owned(),
        (false, Some(until), _) => {
            format!("held until {}", amount(Some(signal.signal), Some(until)))
        }
        (false, None, None) => "not sampled yet".to_owned(),
        (false, None, Some(_)) => "ok".to_owned(),
    }
}

fn conditions(status: &Status, view: View) -> String {
    let rows = status.conditions.iter().map(|condition| {
        vec![
            condition.condition.clone(),
            if condition.raised { "True" } else { "False" }.to_owned(),
            condition.since.map_or_else(|| "-".to_owned(), moment),
        ]
    });
    let columns = ["CONDITION", "STATUS", "SINCE"].map(|heading| Column::words(heading, 1));
    Table::new(columns, rows).shown(view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_node::status::RefusedConfiguration;
    use evictd_signals::Signal;

    fn signal(name: Signal, problem: Option<&str>) -> SignalStatus {
        let mut signal = SignalStatus::new(name);
        signal.problem = problem.map(str::to_owned);
        signal.available = problem.is_none().then_some(1 << 30);
        signal.thresholds.push(ThresholdStatus {
            kind: "hard".to_owned(),
            configured: "100Mi".to_owned(),
            ..ThresholdStatus::default()
        });
        signal
    }

    #[test]
    fn a_daemon_that_cannot_see_does_not_say_that_all_is_calm() {
        let memory = || signal(Signal::MemoryAvailable, Some("its source cannot be read"));
        let mut status = Status {
            signals: vec![signal(Signal::PidAvailable, None)],
            ..Status::default()
        };
        assert!(headline(&status).starts_with("Calm"));
        status.signals.push(memory());
        let told = "memory.available is not observed: nothing is evicted for it.";
        assert_eq!(headline(&status), told);
        let page = page(&status, "", View::WHOLE);
        let warning = "WARNING   memory.available is not observed: its source cannot be read; ";
        for shown in [told, warning, "hard <100Mi"] {
            assert!(page.contains(shown), "{shown} in\n{page}");
        }
        status
            .signals
            .push(signal(Signal::NodefsAvailable, Some("its source hangs")));
        let told =
            "memory.available, nodefs.available are not observed: nothing is evicted for them.";
        assert_eq!(headline(&status), told);
    }

    #[test]
    fn settings_that_were_read_and_are_not_in_force_are_named() {
        let mut status = Status::default();
        let quiet = page(&status, "", View::WHOLE);
        assert!(
            !quiet.contains("WARNING") && !quiet.contains("RESTART"),
            "{quiet}"
        );
        assert!(quiet.contains("HISTORY   0 evictions kept"), "{quiet}");
        assert!(
            quiet.contains("LAST      nothing was ever evicted"),
            "{quiet}"
        );
        status.configuration.waits_for_restart =
            vec!["pods.source".to_owned(), "socket".to_owned()];
        let mistake = "f.yaml:3:1: dryRunn: unknown key; did you mean dryRun?";
        status.configuration.refused = Some(RefusedConfiguration {
            mistakes: vec![mistake.to_owned()],
            ..RefusedConfiguration::default()
        });
        status.history.error = Some("cannot open the history /h: Read-only".to_owned());
        status.history.waiting = 1;
        let page = page(&status, "", View::WHOLE);
        for shown in [
            "is refused, that of ",
            mistake,
            "RESTART   changed, and in force only after a restart: pods.source, socket",
            "LAST      unknown while the history cannot be read or written",
            "0 evictions kept, 1 record waits for the disk",
        ] {
            assert!(page.contains(shown), "{shown} in\n{page}");
        }
    }

    #[test]
    fn an_exhausted_signal_without_a_threshold_is_not_calm() {
        let unwatched = |name, available, capacity| SignalStatus {
            available: Some(available),
            capacity: Some(capacity),
            ..SignalStatus::new(name)
        };
        let status = |signal| Status {
            signals: vec![signal, signal_with_threshold()],
            ..Status::default()
        };
        let inodes = status(unwatched(Signal::NodefsInodesFree, 0, 13_107_200));
        let told = "nodefs.inodesFree is exhausted (0 of 13107200 left) and has no threshold: no pod is evicted for it.";
        assert_eq!(headline(&inodes), told);
        assert_eq!(urgency(&inodes), Colour::Bad);
        // Full swap is no shortage, and what cannot be measured is not exhausted.
        for signal in [
            unwatched(Signal::SwapAvailable, 0, 1 << 30),
            unwatched(Signal::NodefsInodesFree, 0, 0),
            unwatched(Signal::PidAvailable, 100, 32_768),
        ] {
            assert!(headline(&status(signal)).starts_with("Calm"));
        }
    }

    fn signal_with_threshold() -> SignalStatus {
        signal(Signal::PidAvailable, None)
    }

    #[test]
    fn signals_that_a_node_may_lack_are_no_warning() {
        let mut swap = signal(Signal::SwapAvailable, Some(""));
        (swap.problem, swap.absent) = (None, Some("none here: there is no swap".to_owned()));
        let status = Status {
            signals: vec![swap],
            ..Status::default()
        };
        assert!(headline(&status).starts_with("Calm"));
        assert!(signals(&status, View::WHOLE).contains("none here: there is no swap"));
    }
}
