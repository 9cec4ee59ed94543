//! The Leases of the scheduler: who schedules pods, and who runs sessions.

use super::batch::TURNS;
use evictd_daemon::leadership::LeaseSettings;
use evictd_scheduling::config::LeaderElection;
use jiff::SignedDuration;
use std::time::Duration;

/// Where Volcano's Leases are.
const VOLCANO_NAMESPACE: &str = "volcano-system";

/// Of the pods of profiles.
pub(super) fn of_pods(settings: &LeaderElection) -> LeaseSettings {
    let duration = |own: SignedDuration| Duration::try_from(own).unwrap_or_default();
    LeaseSettings {
        elect: settings.leader_elect,
        namespace: settings.resource_namespace.clone(),
        name: settings.resource_name.clone(),
        lease_duration: duration(settings.lease_duration),
        renew_deadline: duration(settings.renew_deadline),
        retry_period: duration(settings.retry_period),
        memo: None,
    }
}

/// Of sessions of this scheduler's name. Volcano's scheduler takes part in it, too: both never place the same pods.
pub(super) fn of_sessions(scheduler: &str, settings: &LeaderElection) -> LeaseSettings {
    LeaseSettings {
        namespace: VOLCANO_NAMESPACE.to_owned(),
        name: scheduler.to_owned(),
        memo: Some(TURNS),
        ..of_pods(settings)
    }
}
