//! The sentence that explains why this pod is evicted and not the next one.

mod passed_over;
mod request_note;
#[cfg(test)]
mod tests;
mod words;

use crate::{
    ActingThreshold, Excess, PassedOver, Preference, RankedPod, RequestNote, Shares, Spared,
    Unreachable, Withheld,
};
use evictd_pod::{Critical, Quantity};
use evictd_signals::{NodeCondition, Signal, StarvedResource, human_bytes};
use serde::Serialize;
use std::cmp::Reverse;

/// How many of the pods that stay are named.
const STAYING_NAMED: usize = 2;

/// The victim chosen from a ranking.
pub struct Choice<'a> {
    /// The pod that is evicted, if any.
    pub victim: Option<&'a RankedPod>,
    /// The first pod that could have been evicted instead.
    pub runner_up: Option<&'a RankedPod>,
    /// How many pods are passed over because their end gains next to nothing.
    pub small: usize,
    /// How many evictions in a row gained too little.
    pub in_vain: Option<u32>,
}

/// Why the victim is evicted and not the runner-up, or why no pod is evicted.
pub fn why(
    acting: &ActingThreshold,
    choice: &Choice<'_>,
    withheld: Option<&Withheld>,
    shares: &Shares,
    ranked: &[RankedPod],
) -> String {
    let Choice {
        victim,
        runner_up,
        small,
        in_vain,
    } = *choice;
    let resource = acting.threshold.signal.resource();
    let gain = victim.and_then(|victim| victim.gain);
    let alone = gain.is_some_and(|gain| gain >= shares.missing());
    let mut sentence = match (victim, in_vain) {
        (Some(victim), Some(evictions)) if alone && withheld.is_none() => format!(
            "the last {evictions} evictions gained too little, and {} alone holds the {} that are missing: it {}",
            victim.pod,
            resource.amount(shares.missing()),
            victim.uses(resource)
        ),
        _ => sentence(resource, (victim, runner_up), withheld),
    };
    let signal = acting.threshold.signal;
    if victim.is_some() && small > 0 {
        let (pods, would) = if small == 1 {
            ("pod is", "it")
        } else {
            ("pods are", "they")
        };
        let missing = resource.amount(shares.missing());
        let passed_over = format!(
            "; {small} {pods} passed over: {would} would free less than 1 % of the {missing} that are missing"
        );
        sentence += &passed_over;
    }
    if let Some(until) = acting.threshold.held_until(&acting.observed) {
        sentence += "; ";
        sentence += &acting.held_words(until);
    }
    // Where most of it is in no pod, an operator has to look at the host rather than at the victim.
    let most = shares.in_no_pod > shares.pods;
    if most && !signal.is_pressure() && !matches!(withheld, Some(Withheld::NoRelief { .. })) {
        sentence += "; ";
        sentence += &shares.in_no_pod_words();
    }
    // These two leave the question which pods hold the resource, so more than the largest is named.
    if let Some(Withheld::NoRelief { .. } | Withheld::AllSpared) = withheld {
        sentence += &who_stays(signal, ranked);
    } else if let Some(passed_over) = PassedOver::largest(signal, ranked, victim) {
        sentence += "; ";
        sentence += &passed_over.sentence;
    }
    sentence
}

/// The pods that hold most of the unevictable usage: the page about the full resource must name them.
fn who_stays(signal: Signal, ranked: &[RankedPod]) -> String {
    let held = |pod: &RankedPod| pod.gain.unwrap_or_default();
    let mut stay: Vec<&RankedPod> = ranked
        .iter()
        .filter(|pod| pod.spared.is_some() && held(pod).is_positive())
        .collect();
    stay.sort_by_key(|pod| Reverse(held(pod)));
    let named = stay.iter().take(STAYING_NAMED).filter_map(|pod| {
        let holds = signal.resource().amount(held(pod));
        Some(format!("; {} holds {holds} ({})", pod.pod, pod.spared?))
    });
    let mut words: String = named.collect();
    // Files may belong to pods that have ended, which no ranking contains.
    if signal.condition() == Some(NodeCondition::DiskPressure) {
        words += "; `evictd disk` tells who holds the rest";
    }
    words
}

fn sentence(
    resource: StarvedResource,
    (victim, runner_up): (Option<&RankedPod>, Option<&RankedPod>),
    withheld: Option<&Withheld>,
) -> String {
    match (withheld, victim, runner_up) {
        (Some(withheld), ..) => withheld.to_string(),
        (None, None, _) => "no pod may be evicted".to_owned(),
        (None, Some(victim), None) => {
            format!(
                "{} is the only pod that may be evicted; it {}",
                victim.pod,
                victim.uses(resource)
            )
        }
        (None, Some(victim), Some(next)) => victim.before(next, resource),
    }
}

/// The first key in which two pods of a ranking differ; it decides their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecidingKey {
    /// One was deleted and its grace period is over.
    Overdue,
    /// One exceeds its request and the other does not, or the usage of one is not known.
    Excess,
    /// The preferences in their annotations.
    Preference,
    /// Priority; lower is evicted first.
    Priority,
    /// The controller of one would start it on this node again.
    Returns,
    /// One is terminating already.
    Terminating,
    /// Usage above the request.
    Overage,
    /// Its present rate of writes to disks.
    Growth,
    /// Equal in every key: the order of the list decides.
    Order,
}

/// One pod's line in a printed ranking.
#[derive(Debug, Serialize)]
pub struct Row<'a> {
    /// Counted from 1.
    pub rank: usize,
    /// The pod with every sort key.
    #[serde(flatten)]
    pub pod: &'a RankedPod,
    /// In a few words: why it ranks before the next pod, or why it is passed over.
    pub because: String,
    /// The same in a sentence with both pods' figures.
    pub why: String,
}

/// Every line of a ranking, in its order.
pub fn rows(ranked: &[RankedPod], resource: StarvedResource) -> impl Iterator<Item = Row<'_>> {
    ranked.iter().enumerate().map(move |(index, pod)| {
        let uses = || pod.uses(resource);
        let (because, why) = match (pod.spared, ranked.get(index + 1)) {
            (Some(spared), _) => (
                spared.because(),
                format!("passed over: {spared}; {}", uses()),
            ),
            (None, Some(next)) => (
                pod.because(next, resource).to_owned(),
                pod.before(next, resource),
            ),
            (None, None) => ("last".to_owned(), format!("last; {}", uses())),
        };
        Row {
            rank: index + 1,
            pod,
            because,
            why,
        }
    })
}

impl RankedPod {
    /// The key that ranks this pod before `next`.
    pub fn deciding_key(&self, next: &Self, resource: StarvedResource) -> DecidingKey {
        // The kubelet ranks process counts without the excess key (S1-061): then there is no even share.
        let excess_counts = resource != StarvedResource::Pids || !self.request.is_zero();
        if self.overdue != next.overdue {
            DecidingKey::Overdue
        } else if excess_counts && self.excess != next.excess {
            DecidingKey::Excess
        } else if self.preference != next.preference {
            DecidingKey::Preference
        } else if self.priority != next.priority {
            DecidingKey::Priority
        } else if self.returns != next.returns {
            DecidingKey::Returns
        } else if self.terminating != next.terminating {
            DecidingKey::Terminating
        } else if self.overage != next.overage {
            DecidingKey::Overage
        } else if self.growth != next.growth {
            DecidingKey::Growth
        } else {
            DecidingKey::Order
        }
    }

    /// In a few words: the key that ranks this pod before `next`.
    pub fn because(&self, next: &Self, resource: StarvedResource) -> &'static str {
        match self.deciding_key(next, resource) {
            DecidingKey::Overdue => "deleted, and should be gone",
            DecidingKey::Excess => match self.excess {
                Excess::UnknownFirst => "no figures: the kubelet puts it first",
                Excess::Exceeds
                    if matches!(resource, StarvedResource::Pids | StarvedResource::Io) =>
                {
                    "above an even share"
                }
                Excess::Exceeds => "above its request",
                _ if next.excess == Excess::NoGain => "the next would give nothing back",
                _ => "the next has no figures",
            },
            DecidingKey::Preference if self.preference == Preference::Prefer => {
                "prefers to be evicted early"
            }
            DecidingKey::Preference => "the next prefers to be evicted late",
            DecidingKey::Returns => "the next would be started here again",
            DecidingKey::Priority => "lower priority",
            DecidingKey::Terminating => "terminating anyway",
            DecidingKey::Overage => match (resource, self.excess) {
                (StarvedResource::Pids, _) => "more processes",
                (StarvedResource::Inodes, _) => "more inodes above its request",
                (StarvedResource::Io, _) => "read and wrote more",
                (_, Excess::Within) => "less of its request left",
                _ => "more above its request",
            },
            DecidingKey::Growth => "writes faster",
            DecidingKey::Order => "equal; first in the list",
        }
    }

    /// One sentence: why this pod ranks before `next`.
    pub fn before(&self, next: &Self, resource: StarvedResource) -> String {
        let (pod, other) = (&self.pod, &next.pod);
        let (uses, next_uses) = (self.uses(resource), next.uses(resource));
        match self.deciding_key(next, resource) {
            DecidingKey::Overdue => {
                format!("{pod} {uses}, was deleted and should be gone, unlike {other}, next")
            }
            DecidingKey::Excess => format!("{pod} {uses}, while {other}, next, {next_uses}"),
            DecidingKey::Preference if self.preference == Preference::Prefer => {
                format!("{pod} {uses} and prefers to be evicted early, unlike {other}, next")
            }
            DecidingKey::Preference => {
                format!("{pod} {uses}; {other}, next, prefers to be evicted late")
            }
            DecidingKey::Returns => format!(
                "{pod} {uses}; {other}, next, would be started here again at once by its DaemonSet"
            ),
            DecidingKey::Priority => format!(
                "{pod} {uses}, and its priority {} is lower than {} of {other}, next",
                self.priority, next.priority
            ),
            DecidingKey::Terminating => {
                format!("{pod} {uses} and is terminating anyway, unlike {other}, next")
            }
            DecidingKey::Overage if self.excess == Excess::Within => {
                format!(
                    "{pod} {uses}, with the least of its request left; {other}, next, {next_uses}"
                )
            }
            DecidingKey::Overage => {
                format!("{pod} {uses}, the most of its kind; {other}, next, {next_uses}")
            }
            DecidingKey::Growth => format!(
                "{pod} {uses} and grows by {}/s; {other}, next, uses as much and grows less",
                human_bytes(self.growth.unwrap_or_default())
            ),
            DecidingKey::Order => format!(
                "{pod} {uses}; {other}, next, is its equal in every key and stands after it in the list"
            ),
        }
    }

    /// `uses 300Mi, 250Mi above its request of 50Mi`.
    pub fn uses(&self, resource: StarvedResource) -> String {
        let Some(usage) = self.usage else {
            return match self.excess {
                Excess::UnknownFirst => "has no figures, which the kubelet puts first",
                _ => "has no figures",
            }
            .to_owned();
        };
        let more = self.at_least || self.partly_unknown;
        let at_least = if more { "at least " } else { "" };
        let uses = match resource {
            StarvedResource::Memory if !self.swap.is_zero() => {
                let (all, swap) = (human_bytes(usage.value()), human_bytes(self.swap.value()));
                format!("uses {all} ({swap} of it in swap)")
            }
            StarvedResource::Memory | StarvedResource::EphemeralStorage => {
                format!("uses {at_least}{}", human_bytes(usage.value()))
            }
            StarvedResource::Io => format!("read and wrote {}", human_bytes(usage.value())),
            StarvedResource::Inodes => format!("uses {at_least}{} inodes", usage.value()),
            StarvedResource::Pids => format!("runs {} processes", usage.value()),
        };
        let (request, note) = (self.request, self.request_note.as_deref());
        let asked = human_bytes(request.value());
        match (resource, self.excess) {
            (StarvedResource::Inodes, _) => uses,
            (StarvedResource::Pids, _) if request.is_zero() => uses,
            (StarvedResource::Io, Excess::Exceeds) => {
                let above = human_bytes((usage - request).value());
                format!("{uses}, {above} above an even share of {asked}")
            }
            (StarvedResource::Io, _) => format!("{uses}, within an even share of {asked}"),
            (StarvedResource::Pids, Excess::Exceeds) => {
                let above = (usage - request).value();
                format!("{uses}, {above} above an even share of {request}")
            }
            (StarvedResource::Pids, _) => format!("{uses}, within an even share of {request}"),
            _ if request.is_zero() => match note {
                Some(note @ RequestNote::Uncounted(_)) => format!("{uses}, and {note}"),
                Some(note) => format!("{uses} and has none allocated ({note})"),
                None => format!("{uses} and requested none"),
            },
            (_, excess) => {
                let mut words = if excess != Excess::Within && usage > request {
                    let above = human_bytes((usage - request).value());
                    format!("{uses}, {above} above its request of {asked}")
                } else {
                    format!("{uses}, within its request of {asked}")
                };
                if let Some(note) = note {
                    words = format!("{words} (what is allocated; {note})");
                }
                words
            }
        }
    }
}

impl Shares {
    /// `the pods that may be evicted hold 12Mi together (that of 2 is unknown)`
    fn may_go_words(&self) -> String {
        let known = self.resource.amount(self.may_go);
        let words = format!("the pods that may be evicted hold {known} together");
        match self.unknown {
            // Without this number, pods whose usage nothing reports would seem to hold nothing.
            0 => words,
            unknown => format!("{words} (the usage of {unknown} of them is unknown)"),
        }
    }

    /// `116Mi of 192Mi are in no pod`
    pub fn in_no_pod_words(&self) -> String {
        let outside = match self.resource {
            StarvedResource::Inodes | StarvedResource::Pids => self.in_no_pod.value().to_string(),
            resource => resource.amount(self.in_no_pod),
        };
        let capacity = self.resource.amount(self.capacity);
        format!("{outside} of {capacity} are used outside of pods")
    }
}

impl std::fmt::Display for Withheld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoPods => f.write_str("there is no pod on this node"),
            Self::AllSpared => {
                f.write_str("every pod is critical, protected, out of reach or already terminating")
            }
            // A pod that already holds nothing would make a sentence about zero bytes.
            Self::DyingPodsRelease { pods, release, .. } if release.is_zero() => {
                let pods = pods.join(", ");
                write!(
                    f,
                    "{pods} is already terminating; its effect is known only once it is gone"
                )
            }
            Self::DyingPodsRelease {
                pods,
                release,
                resource,
            } => {
                write!(
                    f,
                    "{} will release {}, which is enough",
                    pods.join(", "),
                    resource.amount(*release)
                )
            }
            Self::NoIo => f.write_str(
                "no pod is known to read or write much (its cgroup tells, in io.stat or blkio)",
            ),
            Self::Futile { evictions } => {
                write!(f, "the last {evictions} evictions gained too little")
            }
            Self::NoRelief {
                shares,
                growth: Some(growth),
            } => {
                f.write_str(&growth.words(shares.resource))?;
                let amount = |quantity: Quantity| shares.resource.amount(quantity);
                write!(
                    f,
                    "; {}, and {} are missing; {}",
                    shares.may_go_words(),
                    amount(shares.short),
                    shares.in_no_pod_words()
                )
            }
            Self::NoRelief {
                shares,
                growth: None,
            } => {
                let amount = |quantity: Quantity| shares.resource.amount(quantity);
                write!(
                    f,
                    "{}, and {} are missing",
                    shares.may_go_words(),
                    amount(shares.short)
                )?;
                if shares.on_the_way.is_positive() {
                    write!(
                        f,
                        " ({} of it already being released)",
                        amount(shares.on_the_way)
                    )?;
                }
                write!(f, "; {}", shares.in_no_pod_words())
            }
            Self::OwnLimits { pods } if pods.is_empty() => {
                f.write_str("only programs beside the pods wait, at limits of their own")
            }
            Self::OwnLimits { pods } => write!(
                f,
                "only {} waits, at a limit of its own; no other pod is the worse for it (evictAtOwnLimit)",
                pods.join(", ")
            ),
            Self::MemoryLeft {
                available,
                capacity,
            } => write!(
                f,
                "{} of {} of the memory is available, so that no pod waits for want of it",
                human_bytes(available.value()),
                human_bytes(capacity.value())
            ),
            Self::OwnPressureUnknown => f.write_str(
                "the pressure of no pod is known (cgroup v2 has it), so that it is not known which one causes it",
            ),
            Self::HoldsTooLittle { least } => write!(
                f,
                "no pod that may be evicted holds as much as {}, a hundredth of the memory",
                human_bytes(least.value())
            ),
            Self::DiskEvictionsOff { reason } => f.write_str(reason),
            Self::ReadOnlyFilesystem => f.write_str(
                "its filesystem is read-only, so that nothing on it can be removed; look for errors of the disk, and \
                 mount it for writing",
            ),
        }
    }
}

impl Spared {
    /// In a few words: why the pod is passed over, including reasons that pass soon.
    pub fn because(self) -> String {
        match self {
            Self::Unreachable(why @ (Unreachable::Budget | Unreachable::Failed)) => {
                format!("passed over for now: {why}")
            }
            lasting => format!("never evicted: {lasting}"),
        }
    }
}

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoCgroup => "no cgroup of its own that may be touched",
            Self::Budget => "its disruption budget does not allow it",
            Self::Failed => "its termination has just failed",
        })
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
            Self::Dying => "already terminating",
            Self::Unreachable(why) => return why.fmt(f),
        })
    }
}
