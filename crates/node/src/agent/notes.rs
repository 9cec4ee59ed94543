//! Log lines about pods that are leaving.

use evictd_decision::record::{Hook, HookOutcome};
use evictd_departures::{CLEANUP_TIMEOUT, Departure, Purpose};
use evictd_signals::NodeCondition;
use tracing::{info, warn};

/// The pod runs again and is terminated again.
pub(super) fn repeated(departure: &Departure) {
    let why = match departure.purpose {
        Purpose::Rejection { .. } => "was started although it was not admitted; it is terminated",
        _ => "was started again before its status was published; it is terminated again",
    };
    warn!(
        EVICTD_DECISION_ID = departure.id,
        EVICTD_POD = departure.pod,
        EVICTD_POD_UID = departure.uid,
        "{} {why}",
        departure.pod
    );
}

/// The grace period of the pod, or its kubelet's time to end it, is cut short.
pub(super) fn cut(departure: &Departure) {
    let (pod, uid) = (&departure.pod, &departure.uid);
    if departure.purpose.is_by_kubelet() {
        warn!(
            EVICTD_POD = pod,
            EVICTD_POD_UID = uid,
            "its kubelet is ending {pod}, too late for a hard threshold: its signal would be exhausted before"
        );
    } else {
        warn!(
            EVICTD_DECISION_ID = departure.id,
            EVICTD_POD = pod,
            EVICTD_POD_UID = uid,
            "a hard threshold is crossed: the grace period of {pod} ends now"
        );
    }
}

/// An eviction for disk waits for the pod's files, which outlast its processes.
pub(super) fn waits_for_files(departure: &Departure) {
    if departure.purpose.condition() == Some(NodeCondition::DiskPressure) {
        info!(
            EVICTD_POD = departure.pod,
            "waiting at most {} s until the files of {} are removed and freed",
            CLEANUP_TIMEOUT.as_secs(),
            departure.pod
        );
    }
}

/// The pre-kill hook has ended.
pub(super) fn hook_ended(departure: &Departure, hook: &Hook) {
    let detail = match hook.detail.as_str() {
        "" => String::new(),
        detail => format!(": {detail}"),
    };
    let (pod, outcome, took) = (&departure.pod, hook.outcome.as_str(), hook.milliseconds);
    let text = format!("the pre-kill hook of {pod} {outcome} after {took} ms{detail}");
    if hook.outcome == HookOutcome::Succeeded {
        info!(
            EVICTD_DECISION_ID = departure.id,
            EVICTD_POD = pod,
            "{text}"
        );
    } else {
        warn!(
            EVICTD_DECISION_ID = departure.id,
            EVICTD_POD = pod,
            "{text}"
        );
    }
}
