//! Pods that the scheduler never tries, whatever the nodes have.

use evictd_pod::resource_claims::{ClaimUser, StoredClaim, claims_of};
use evictd_pod::wire::{self, PodPhase};
use std::fmt;

/// Why a pod is not tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotTried {
    /// It has scheduling gates (S5-037), by name.
    Gated(Vec<String>),
    /// It is being deleted (S5-040): `namespace/name`.
    Deleting(String),
    /// It has ended, with this phase.
    Ended(PodPhase),
    /// Its group has no object or too few pods (S5-096), in words.
    GroupIncomplete(String),
    /// One of its resource claims does not exist yet, or is not its own, in words. The queue keeps it back (`PreEnqueue`).
    NoClaim(String),
    /// No profile has its scheduler's name.
    OtherScheduler {
        /// The name of its scheduler.
        name: String,
        /// The names of the profiles.
        known: Vec<String>,
    },
}

impl NotTried {
    /// The reason in the pod itself, for one without a node; `None` if there is none.
    pub fn of(pod: &wire::Pod) -> Option<Self> {
        if pod.status.phase.has_ended() {
            return Some(Self::Ended(pod.status.phase.clone()));
        }
        if pod.metadata.deletion_timestamp.is_some() {
            return Some(Self::Deleting(pod.metadata.full_name()));
        }
        let gates = pod.spec.scheduling_gates.iter();
        let gates: Vec<String> = gates.map(|gate| gate.name.clone()).collect();
        (!gates.is_empty()).then_some(Self::Gated(gates))
    }

    /// The reason if none of these profiles is that of the pod.
    pub fn of_profiles<'n>(
        pod: &wire::Pod,
        profiles: impl IntoIterator<Item = &'n str>,
    ) -> Option<Self> {
        let name = pod.spec.scheduler_name_or_default();
        let known: Vec<String> = profiles.into_iter().map(str::to_owned).collect();
        let is_known = known.iter().any(|known| known == name);
        (!is_known).then(|| Self::OtherScheduler {
            name: name.to_owned(),
            known,
        })
    }
}

/// Why a pod cannot use one of its claims yet. `find` returns the claim of a namespace and name.
pub(crate) fn claim_problem<'c>(
    pod: &wire::Pod,
    find: impl Fn(&str, &str) -> Option<StoredClaim<'c>>,
) -> Option<String> {
    let user = ClaimUser::of(pod);
    claims_of(pod).find_map(|claim| {
        let stored = claim.name().and_then(|name| find(user.namespace, name));
        claim.problem(user, stored)
    })
}

impl fmt::Display for NotTried {
    /// In kube-scheduler's words where it has some.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gated(gates) => write!(f, "waiting for scheduling gates: [{}]", gates.join(" ")),
            Self::Deleting(pod) => write!(f, "skip schedule deleting pod: {pod}"),
            Self::Ended(phase) => write!(f, "it has ended with phase {phase}"),
            Self::GroupIncomplete(reason) | Self::NoClaim(reason) => f.write_str(reason),
            Self::OtherScheduler { name, known } => {
                let known = known.join(", ");
                write!(
                    f,
                    "its spec.schedulerName is that of another scheduler, because no profile is named {name:?}; there is {known}"
                )
            }
        }
    }
}
