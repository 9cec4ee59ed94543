//! The leases of the scheduler: one to schedule pods, one to run batch sessions.

use super::batch::RESERVATIONS;
use evictd_daemon::leadership::LeaseSettings;
use evictd_scheduling::config::LeaderElection;
use jiff::SignedDuration;
use std::time::Duration;

/// The namespace of Volcano's leases.
const VOLCANO_NAMESPACE: &str = "volcano-system";

/// The lease to schedule the pods of the profiles.
pub(super) fn of_pods(settings: &LeaderElection) -> LeaseSettings {
    let duration = |signed: SignedDuration| Duration::try_from(signed).unwrap_or_default();
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

/// The lease to run batch sessions under this scheduler name. It is Volcano's, so that both never place the same pods.
pub(super) fn of_sessions(scheduler: &str, settings: &LeaderElection) -> LeaseSettings {
    LeaseSettings {
        namespace: VOLCANO_NAMESPACE.to_owned(),
        name: scheduler.to_owned(),
        memo: Some(RESERVATIONS),
        ..of_pods(settings)
    }
}
