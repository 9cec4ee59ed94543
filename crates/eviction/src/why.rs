//! The sentence that says why this pod and not the next.

use crate::{
    StarvedResource,
    decision::{ActingThreshold, Excess, Preference, RankedPod, Spared, Withheld},
};
use evictd_pod::Critical;

/// Why the victim goes rather than the runner-up, or why nobody goes.
pub(crate) fn why(
    acting: &ActingThreshold,
    victim: Option<&RankedPod>,
    runner_up: Option<&RankedPod>,
    withheld: Option<&Withheld>,
) -> String {
    let resource = acting.threshold.signal.resource();
    match (withheld, victim, runner_up) {
        (Some(withheld), ..) => withheld.to_string(),
        (None, None, _) => "nobody may go".to_owned(),
        (None, Some(victim), None) => {
            format!(
                "{} is the only pod that may go; it {}",
                victim.pod,
                victim.uses(resource)
            )
        }
        (None, Some(victim), Some(next)) => victim.before(next, resource),
    }
}

impl RankedPod {
    /// Why this pod stands before that one: the first key in which they differ.
    fn before(&self, next: &Self, resource: StarvedResource) -> String {
        let (own, other) = (&self.pod, &next.pod);
        let uses = self.uses(resource);
        if self.excess != next.excess {
            let next_uses = next.uses(resource);
            return format!("{own} {uses}, while {other}, next, {next_uses}");
        }
        if self.preference != next.preference {
            let asked = if self.preference == Preference::Prefer {
                own
            } else {
                other
            };
            return format!(
                "{own} goes before {other} because {asked} asked for it ({:?} against {:?})",
                self.preference, next.preference
            );
        }
        if self.returns != next.returns {
            return format!(
                "{own} {uses}; {other}, next, would be started right here again by its DaemonSet"
            );
        }
        if self.priority != next.priority {
            return format!(
                "{own} {uses}, and its priority {} is lower than {} of {other}, next",
                self.priority, next.priority
            );
        }
        if self.terminating != next.terminating {
            return format!("{own} {uses} and is ending anyway, unlike {other}, next");
        }
        if self.overage != next.overage {
            let next_uses = next.uses(resource);
            return format!("{own} {uses}, the most of its kind; {other}, next, {next_uses}");
        }
        format!("{own} and {other}, next, are equal in every key; {own} is first in the list")
    }

    /// `uses 300Mi, 250Mi above its request of 50Mi`.
    pub fn uses(&self, resource: StarvedResource) -> String {
        let of = match resource {
            StarvedResource::Pids => "an even share",
            _ => "its request",
        };
        match (self.usage, self.excess) {
            (Some(usage), Excess::Exceeds) if self.request.is_zero() => {
                format!("uses {} and asked for none", shown(usage, resource))
            }
            (Some(usage), Excess::Exceeds) => format!(
                "uses {}, {} above {of} of {}",
                shown(usage, resource),
                shown(usage - self.request, resource),
                self.request
            ),
            (Some(usage), _) => format!(
                "uses {}, within {of} of {}",
                shown(usage, resource),
                self.request
            ),
            (None, _) => "has no figures".to_owned(),
        }
    }
}

/// A quantity a person can read at a glance: bytes with at most four digits, counts as they are.
fn shown(quantity: evictd_pod::Quantity, resource: StarvedResource) -> String {
    match resource {
        StarvedResource::Memory | StarvedResource::EphemeralStorage => {
            human_bytes(quantity.value())
        }
        StarvedResource::Inodes | StarvedResource::Pids => quantity.value().to_string(),
    }
}

/// Bytes for people: `0`, `512Ki`, `1.2Gi`; rounded, so never for messages that are contract text.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn human_bytes(bytes: i64) -> String {
    const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value.abs() >= 99.95 || (value - value.round()).abs() < 0.05 {
        format!("{value:.0}{}", UNITS[unit])
    } else {
        format!("{value:.1}{}", UNITS[unit])
    }
}

impl std::fmt::Display for Withheld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoPods => f.write_str("there is no pod on this node"),
            Self::AllSpared => {
                f.write_str("every pod is critical, protected, out of reach or going already")
            }
            Self::DyingPodsRelease { pods, release } => {
                write!(
                    f,
                    "{} will release {}, which is enough",
                    pods.join(", "),
                    human_bytes(release.value())
                )
            }
            Self::Futile { evictions } => write!(
                f,
                "the last {evictions} evictions gained too little: what fills this node is not its pods"
            ),
            Self::DiskEvictionsOff { reason } => f.write_str(reason),
        }
    }
}

impl std::fmt::Display for Spared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Critical(Critical::Static) => "static pod",
            Self::Critical(Critical::Mirror) => "mirror of a static pod",
            Self::Critical(Critical::Priority) => "critical priority",
            Self::Protected => "protected by the configuration",
            Self::Never => "its annotation says never",
            Self::Dying => "going already",
            Self::Unreachable => "no cgroup of its own that may be touched",
        })
    }
}
