//! Publishes decisions as log lines, which under systemd are journal entries with fields to search by.

use super::Publish;
use crate::fact::{AdmissionAction, AdmissionDecision, Decided, Fact, Terminated, largest_process};
use crate::{
    delivery::{DeliveryOutcome, Publication},
    evict::EvictError,
    logging::chain,
    pause::Pause,
};
use evictd_decision::{
    Cause, Decision,
    record::{Contents, Record, Survivor},
};
use evictd_departures::{ADMITTED, Departure, Purpose};
use evictd_eviction::Returned;

/// Logs a decision; `id` is that of its record in the history, `woken_by` the event that started the cycle.
pub(crate) fn announce(
    id: &str,
    decision: &Decision,
    (dry_run, paused): (bool, Option<&Pause>),
    woken_by: Option<&str>,
) {
    let pod = decision
        .eviction
        .as_ref()
        .map(|eviction| eviction.pod.as_str());
    if decision.threshold.is_some() {
        // S1-036
        tracing::warn!(
            EVICTD_DECISION_ID = id,
            EVICTD_SIGNAL = decision.signal,
            EVICTD_KIND = decision.kind.as_str(),
            EVICTD_REASON = "EvictionThresholdMet",
            "Attempting to reclaim {}",
            decision.resource.as_str()
        );
    }
    tracing::warn!(
        MESSAGE_ID = message_id(decision.kind),
        EVICTD_DECISION_ID = id,
        EVICTD_SIGNAL = decision.signal,
        EVICTD_KIND = decision.kind.as_str(),
        EVICTD_POD = pod,
        EVICTD_POD_UID = decision.uid,
        EVICTD_WOKEN_BY = woken_by,
        "{}",
        sentence(decision, dry_run, paused),
    );
}

fn sentence(decision: &Decision, dry_run: bool, paused: Option<&Pause>) -> String {
    let Some(eviction) = decision.eviction_in_words() else {
        return decision.no_eviction();
    };
    let what = if dry_run { "would evict" } else { "evicting" };
    let paused = paused.map(|pause| format!(" (paused {pause})"));
    format!("{what} {eviction}{}", paused.unwrap_or_default())
}

/// The `MESSAGE_ID` of all admission decisions: `journalctl MESSAGE_ID=...` finds them.
const ADMISSION: &str = "75e9bc6a00454d64b59be35c4c55b94c";

/// The `MESSAGE_ID` of all decisions of a kind: `journalctl MESSAGE_ID=...` finds them.
const fn message_id(kind: Cause) -> &'static str {
    match kind {
        Cause::Hard => "09e9dd33d8f94c26bd12f79362b54123",
        Cause::Soft => "f4ebb21001584b3cba9aaec3e28363c6",
        Cause::LocalStorage => "1a650738001f4c3ebe6fc543c1376815",
    }
}

fn admission_sentence(admission: &AdmissionDecision) -> String {
    let (pod, message) = (&admission.pod, admission.message.trim_end());
    let victims = admission.preempt.join(", ");
    match &admission.act {
        AdmissionAction::Report if victims.is_empty() => {
            format!("{pod} would not be admitted: {message}")
        }
        AdmissionAction::Report => {
            format!("{pod} is critical and would be admitted by preempting {victims}: {message}")
        }
        AdmissionAction::Reject => format!("pod not admitted: {}: {message}", admission.reason),
        AdmissionAction::Preempt => {
            format!("{pod} is critical and is admitted by preempting {victims}: {message}")
        }
        AdmissionAction::Leave { preemptor, .. } => {
            format!("preempting {pod} for {preemptor}: {message}")
        }
    }
}

/// How a pod ended, in words, for the line that reports its end.
fn since(ended: &Terminated<'_>) -> String {
    match &ended.departure.purpose {
        Purpose::Eviction { signal, .. } => format!(
            "{} ms after {signal} was first seen past its threshold",
            ended.reaction().map_or(0, |reaction| reaction.as_millis()),
        ),
        Purpose::Rejection { .. } => "because it was not admitted".to_owned(),
        Purpose::Preemption { resource } => format!("because a critical pod lacks {resource}"),
        Purpose::KubeletEviction | Purpose::Deleted => "by its kubelet".to_owned(),
    }
}

/// Publishes to the log.
#[derive(Debug, Default)]
pub(crate) struct Journal;

impl Publish for Journal {
    fn publish(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Decided(fact) => decided(fact),
            Fact::Admitted(admission) => admitted(admission),
            Fact::Terminating(departure, contents) => terminating(departure, *contents),
            Fact::Terminated(ended) => terminated(ended),
            Fact::FoundGone(ended) => found_gone(ended),
            Fact::Returned(_, fact) => returned(fact),
            Fact::Reclaimed(record) => reclaimed(record),
            Fact::Published(publication) => published(publication),
            _ => {}
        }
    }
}

fn decided(decided: &Decided<'_>) {
    let id = decided.id();
    let woken_by = decided.record.woken_by.as_deref();
    let why_not = (decided.dry_run(), decided.paused);
    announce(id, decided.decision, why_not, woken_by);
}

fn admitted(admission: &AdmissionDecision) {
    tracing::warn!(
        MESSAGE_ID = ADMISSION,
        EVICTD_DECISION_ID = admission.id,
        EVICTD_SIGNAL = admission.signal(),
        EVICTD_KIND = admission.kind().as_str(),
        EVICTD_POD = admission.pod.full_name(),
        EVICTD_POD_UID = admission.pod.uid,
        EVICTD_REASON = admission.reason,
        "{}",
        admission_sentence(admission)
    );
}

fn terminating(departure: &Departure, contents: Option<&Contents>) {
    if let Some(largest) = largest_process(departure, contents) {
        tracing::info!(
            EVICTD_DECISION_ID = departure.id,
            EVICTD_POD = departure.pod,
            EVICTD_POD_UID = departure.uid,
            "the largest process of {} is {largest}",
            departure.pod
        );
    }
}

fn terminated(ended: &Terminated<'_>) {
    let departure = ended.departure;
    match &ended.result {
        // A refusal by a budget is normal operation, not an error.
        Err(EvictError::Blocked { why, .. }) => tracing::warn!(
            EVICTD_DECISION_ID = departure.id,
            EVICTD_POD = departure.pod,
            EVICTD_POD_UID = departure.uid,
            "{} is not evicted for now: its disruption budget does not allow it, or the API server did not answer: {why}",
            departure.pod
        ),
        Err(error) => tracing::error!(
            EVICTD_DECISION_ID = departure.id,
            EVICTD_POD = departure.pod,
            EVICTD_POD_UID = departure.uid,
            "{} was not evicted: {}",
            departure.pod,
            chain(error)
        ),
        Ok(termination) if termination.gone_at.is_some() => tracing::warn!(
            EVICTD_DECISION_ID = departure.id,
            EVICTD_POD = departure.pod,
            EVICTD_POD_UID = departure.uid,
            "{} is gone: {}, {} ({})",
            departure.pod,
            match termination.processes {
                1 => "1 process".to_owned(),
                many => format!("{many} processes"),
            },
            since(ended),
            termination.method.as_str()
        ),
        Ok(termination) => tracing::error!(
            EVICTD_DECISION_ID = departure.id,
            EVICTD_POD = departure.pod,
            EVICTD_POD_UID = departure.uid,
            "{} is not gone: {}",
            departure.pod,
            survivors(&termination.survivors)
        ),
    }
}

/// `2 processes have survived SIGKILL, first busybox (pid 7, state D)`
fn survivors(all: &[Survivor]) -> String {
    let count = match all.len() {
        1 => "1 process has".to_owned(),
        many => format!("{many} processes have"),
    };
    let first = all.first().map(|first| {
        let Survivor { pid, name, state } = first;
        format!(", first {name} (pid {pid}, state {state})")
    });
    format!("{count} survived SIGKILL{}", first.unwrap_or_default())
}

fn found_gone(ended: &Terminated<'_>) {
    let departure = ended.departure;
    tracing::warn!(
        EVICTD_DECISION_ID = departure.id,
        EVICTD_POD = departure.pod,
        EVICTD_POD_UID = departure.uid,
        "{} is gone; it ended at an unknown time before this start",
        departure.pod
    );
}

fn returned(returned: &Returned) {
    tracing::warn!(
        EVICTD_REASON = "EvictedAgain",
        "{}",
        returned.sentence("this node")
    );
}

/// The log lists this many of the removals of a dry run.
const REMOVALS_LOGGED: usize = 20;

fn reclaimed(record: &Record) {
    let Some(done) = &record.reclaimed else {
        return;
    };
    tracing::warn!(
        EVICTD_DECISION_ID = record.id,
        EVICTD_SIGNAL = record.signal.as_ref(),
        EVICTD_KIND = record.kind.as_str(),
        EVICTD_RECLAIMED_BYTES = done.bytes(),
        EVICTD_RECLAIMED_CONTAINERS = done.containers,
        EVICTD_RECLAIMED_IMAGES = done.images,
        "reclaim for {}: {}",
        record.signal,
        done.sentence()
    );
    for removal in done.would_remove.iter().take(REMOVALS_LOGGED) {
        tracing::info!(EVICTD_DECISION_ID = record.id, "would remove {removal}");
    }
    let more = done.would_remove.len().saturating_sub(REMOVALS_LOGGED);
    if more > 0 {
        let id = &record.id;
        tracing::info!("would remove {more} more; `evictd history {id}` lists all");
    }
}

fn published(publication: &Publication) {
    let pod = &publication.pod;
    let info_line = |sentence: String| {
        tracing::info!(
            EVICTD_DECISION_ID = publication.id,
            EVICTD_POD = pod,
            EVICTD_POD_UID = publication.uid,
            "{sentence}"
        );
    };
    match &publication.outcome {
        DeliveryOutcome::Published => {
            info_line(format!("the API server knows the decision about {pod}"));
        }
        DeliveryOutcome::Recorded(why) => {
            info_line(format!("the decision about {pod} is only recorded: {why}"));
        }
        DeliveryOutcome::NotPublished(why) if why == ADMITTED => {
            info_line(format!("the notice about {pod} is dropped: {why}"));
        }
        DeliveryOutcome::NotPublished(why) => tracing::error!(
            EVICTD_DECISION_ID = publication.id,
            EVICTD_POD = pod,
            EVICTD_POD_UID = publication.uid,
            "the decision about {pod} is not published: {why}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_kernel::kill::Termination;
    use evictd_testkit::testing::logged;
    use jiff::SignedDuration;
    use jiff::Timestamp;

    #[test]
    fn processes_that_survive_are_told_in_words() {
        let one = Survivor {
            pid: 7,
            name: "busybox".to_owned(),
            state: 'D',
        };
        let told = "1 process has survived SIGKILL, first busybox (pid 7, state D)";
        assert_eq!(survivors(std::slice::from_ref(&one)), told);
        let told = "2 processes have survived SIGKILL, first busybox (pid 7, state D)";
        assert_eq!(survivors(&[one.clone(), one]), told);
    }

    #[test]
    fn journalctl_explains_every_kind_of_decision() {
        let catalog = include_str!("../../../../packaging/evictd.catalog");
        let entries: Vec<&str> = catalog.split("\n-- ").skip(1).collect();
        for kind in [Cause::Hard, Cause::Soft, Cause::LocalStorage] {
            let of_kind = |entry: &&&str| entry.starts_with(message_id(kind));
            assert_eq!(entries.iter().filter(of_kind).count(), 1, "{kind:?}");
        }
        // Each entry has the fields that its reader needs, and none that no decision has.
        for entry in entries {
            assert!(entry.contains("\nSubject: "), "{entry}");
            for field in entry.split('@').skip(1).step_by(2) {
                assert!(field.starts_with("EVICTD_"), "{field}");
            }
        }
    }

    #[test]
    fn a_published_notice_is_logged_for_each_kind_of_decision_and_only_a_failure_is_an_error() {
        let log = |outcome| {
            let publication = Publication {
                id: "1".to_owned(),
                pod: "shop/cart".to_owned(),
                uid: "u".to_owned(),
                outcome,
            };
            logged(|| published(&publication))
        };
        let admitted = || DeliveryOutcome::NotPublished(ADMITTED.to_owned());
        let refused = || DeliveryOutcome::NotPublished("forbidden".to_owned());
        let all = [
            (DeliveryOutcome::Published, " INFO "),
            (DeliveryOutcome::Recorded("the pod is gone"), " INFO "),
            (admitted(), " INFO "),
            (refused(), " ERROR "),
        ];
        for (outcome, level) in all {
            let log = log(outcome);
            assert!(log.contains(level) && log.contains("shop/cart"), "{log}");
            for words in ["its status", "eviction"] {
                assert!(!log.contains(words), "{log}");
            }
        }
    }

    fn departure(kind: Cause, signal: &str) -> Departure {
        let now = Timestamp::UNIX_EPOCH;
        let purpose = Purpose::Eviction {
            cause: kind,
            signal: signal.to_owned(),
            crossed_at: now,
            clear_at: now,
        };
        let name = ["1", "shop/cart", "u"].map(str::to_owned).into();
        Departure::new(name, purpose, now, SignedDuration::ZERO)
    }

    #[test]
    fn a_budget_that_blocks_is_no_error() {
        let blocked = EvictError::Blocked {
            why: "the disruption budget cart needs 1 healthy pods".to_owned(),
            again: std::time::Duration::ZERO,
        };
        let ended = Terminated {
            now: Timestamp::UNIX_EPOCH,
            departure: &departure(Cause::Soft, "memory.available"),
            result: &Err(blocked),
            hook: None,
            contents: None,
        };
        let log = logged(|| terminated(&ended));
        assert!(log.contains(" WARN ") && !log.contains("ERROR"), "{log}");
        assert!(
            log.contains("shop/cart is not evicted for now: its disruption budget"),
            "{log}"
        );
        assert!(log.contains("the disruption budget cart needs"), "{log}");
    }

    #[test]
    fn a_crossing_is_logged_in_both_directions() {
        for (kind, signal) in [
            (Cause::Hard, "memory.available"),
            (Cause::Soft, "memory.psi"),
            (Cause::LocalStorage, "emptydirfs.limit"),
        ] {
            let now = Timestamp::UNIX_EPOCH;
            let termination = Termination {
                gone_at: Some(now),
                ..Termination::not_begun()
            };
            let said = since(&Terminated {
                now,
                departure: &departure(kind, signal),
                result: &Ok(termination),
                hook: None,
                contents: None,
            });
            let expected = format!("0 ms after {signal} was first seen past its threshold");
            assert_eq!(said, expected);
        }
    }
}
