//! Which pods wait while a pressure signal is past its threshold, and whether they wait for the node's resources or
//! only at limits of their own.
//!
//! The kernel's figure of the node includes a pod that waits at its own limit (`memory.max`, `memory.high`, `io.max`).
//! Such a pod costs no other pod anything. Therefore the part of the pressure that such limits explain is taken out,
//! and the rest is compared with the threshold again.

use evictd_signals::pressure::{PressureLimit, Stall};

/// How long the tasks of one cgroup, and of all below it, were stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupStall {
    /// All of it.
    pub all: Stall,
    /// The part of it at a limit of the cgroup itself or of one below it. `None`: stalled, but it is not known whether at
    /// such a limit.
    pub at_own_limit: Option<Stall>,
}

/// The pressure of cgroups on the resource of one signal, at the time of a decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Parallel to the pods; `None`: not known.
    pub pods: Vec<Option<GroupStall>>,
    /// Cgroups beside those of the pods, such as `system.slice`.
    pub others: Vec<GroupStall>,
}

/// Where a pressure comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StallCause {
    /// No pod's own pressure is known.
    Unknown,
    /// More tasks wait than those at limits of their own.
    Contention,
    /// The limits of these pods explain the pressure: index of the pod and its figure in hundredths of a percent, the
    /// largest first. Empty where only other cgroups wait.
    OwnLimits(Vec<(usize, u16)>),
}

impl Stalls {
    /// Where the pressure of the node comes from, whose figure is `node` in hundredths of a percent.
    pub fn cause(&self, limit: PressureLimit, node: u16) -> StallCause {
        if self.pods.iter().all(Option::is_none) {
            return StallCause::Unknown;
        }
        let figure = |stall: &Stall| stall.figure(limit.share, limit.average);
        // A stall of unknown origin proves no contention.
        let limited = |group: &GroupStall| {
            let limited = group.at_own_limit.as_ref().map_or(u16::MAX, figure);
            limited.min(figure(&group.all))
        };
        let pods = self.pods.iter().enumerate();
        let pods = pods.filter_map(|(index, group)| Some((index, group.as_ref()?)));
        let groups = || self.pods.iter().flatten().chain(&self.others);
        // All tasks of the node are stalled only while those of each cgroup are stalled or idle. Some task of the node
        // is stalled only while some task of a cgroup is. So the figure of the node is at most the sum.
        let explained = groups().map(limited).fold(0, u16::saturating_add);
        let unexplained = node.saturating_sub(explained);
        let unexplained = if explained == 0 {
            unexplained
        } else {
            unexplained.saturating_sub(node / LAG)
        };
        let elsewhere = groups().map(|group| figure(&group.all) - limited(group));
        let rest = elsewhere.max().unwrap_or(0).max(unexplained);
        // A threshold with a minimum reclaim is met below its own value, too.
        if rest > limit.most.min(node.saturating_sub(1)) {
            return StallCause::Contention;
        }
        let mut at_limits: Vec<(usize, u16)> = pods
            .map(|(index, group)| (index, limited(group)))
            .filter(|(_, figure)| *figure > 0)
            .collect();
        at_limits.sort_by_key(|(_, figure)| std::cmp::Reverse(*figure));
        let largest = at_limits.first().map_or(0, |(_, figure)| *figure);
        at_limits.retain(|(_, figure)| *figure >= largest / 2);
        StallCause::OwnLimits(at_limits)
    }
}

/// The kernel updates the averages of two cgroups up to two seconds apart: that is less than a fourth of an average over
/// ten seconds.
const LAG: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_signals::Signal;
    use proptest::prelude::*;

    /// A cgroup that was stalled so many percent of the time, and so many of them at its own limit.
    fn group(all: u16, own: Option<u16>) -> GroupStall {
        let stall = |percent: u16| Stall {
            some: [percent * 100; 3],
            full: [percent * 100; 3],
        };
        GroupStall {
            all: stall(all),
            at_own_limit: own.map(stall),
        }
    }

    fn limit(text: &str) -> PressureLimit {
        PressureLimit::parse(Signal::MemoryPsi, text).unwrap()
    }

    fn cause(node: u16, pods: &[Option<GroupStall>], others: &[GroupStall]) -> StallCause {
        let stalls = Stalls {
            pods: pods.to_vec(),
            others: others.to_vec(),
        };
        stalls.cause(limit("some avg10 > 20%"), node * 100)
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn the_cause_of_a_stall_is_found() {
        use StallCause::{Contention, OwnLimits, Unknown};
        let calm = || Some(group(0, Some(0)));
        let waits = |all, own| Some(group(all, Some(own)));
        let of = |pods: &[(usize, u16)]| {
            OwnLimits(pods.iter().map(|(index, p)| (*index, p * 100)).collect())
        };
        let table = [
            ("nothing is known", 60, vec![None, None], vec![], Unknown),
            (
                "nothing is known but of the host",
                60,
                vec![None],
                vec![group(60, Some(0))],
                Unknown,
            ),
            (
                "one pod at its own limit",
                60,
                vec![waits(60, 60), calm(), calm()],
                vec![],
                of(&[(0, 60)]),
            ),
            (
                "its average is newer",
                60,
                vec![waits(90, 90), calm()],
                vec![],
                of(&[(0, 90)]),
            ),
            (
                "its average is older",
                60,
                vec![waits(46, 46), calm()],
                vec![],
                of(&[(0, 46)]),
            ),
            (
                "the others hardly wait",
                60,
                vec![waits(60, 60), waits(5, 0)],
                vec![],
                of(&[(0, 60)]),
            ),
            (
                "the others wait as well",
                60,
                vec![waits(60, 60), waits(25, 0)],
                vec![],
                Contention,
            ),
            (
                "the host waits as well",
                60,
                vec![waits(60, 60), calm()],
                vec![group(25, Some(0))],
                Contention,
            ),
            (
                "the limit explains a part",
                60,
                vec![waits(20, 20), calm()],
                vec![],
                Contention,
            ),
            (
                "no pod is at a limit",
                60,
                vec![waits(60, 0), calm()],
                vec![],
                Contention,
            ),
            (
                "nobody who is known waits",
                60,
                vec![calm(), calm()],
                vec![],
                Contention,
            ),
            (
                "a program of the host at its own limit",
                60,
                vec![calm()],
                vec![group(60, Some(60))],
                of(&[]),
            ),
            (
                "two at their own limits",
                60,
                vec![waits(30, 30), waits(45, 45)],
                vec![],
                of(&[(1, 45), (0, 30)]),
            ),
            (
                "a small one beside them",
                60,
                vec![waits(60, 60), waits(4, 4)],
                vec![],
                of(&[(0, 60)]),
            ),
            (
                "it may be at its limit",
                60,
                vec![Some(group(60, None)), calm()],
                vec![],
                of(&[(0, 60)]),
            ),
            (
                "another pod is unknown",
                60,
                vec![waits(60, 60), None],
                vec![],
                of(&[(0, 60)]),
            ),
            (
                "much that is not known",
                90,
                vec![waits(30, 30), None],
                vec![],
                Contention,
            ),
            (
                "met for the minimum reclaim",
                16,
                vec![calm(), calm()],
                vec![],
                Contention,
            ),
            (
                "the same at a limit",
                16,
                vec![waits(16, 16)],
                vec![],
                of(&[(0, 16)]),
            ),
        ];
        for (case, node, pods, others, expected) in table {
            assert_eq!(cause(node, &pods, &others), expected, "{case}");
        }
    }

    #[test]
    fn the_figure_is_the_one_that_the_threshold_names() {
        let stall = Stall {
            some: [6000, 100, 0],
            full: [0; 3],
        };
        let own = GroupStall {
            all: stall,
            at_own_limit: Some(stall),
        };
        let stalls = Stalls {
            pods: vec![Some(own)],
            others: Vec::new(),
        };
        let cause = |text| stalls.cause(limit(text), 6000);
        assert_eq!(
            cause("some avg10 > 20%"),
            StallCause::OwnLimits(vec![(0, 6000)])
        );
        assert_eq!(cause("full avg10 > 20%"), StallCause::Contention);
        assert_eq!(cause("some avg60 > 20%"), StallCause::Contention);
    }

    proptest! {
        /// Pods that do not wait, whatever their number, change nothing; and a pod that waits more at its own limit never
        /// makes a contention of what was none.
        #[test]
        fn more_at_an_own_limit_is_never_more_contention(
            node in 21_u16..100,
            pods in prop::collection::vec((0_u16..=100, 0_u16..=100), 1..6),
            more in 1_u16..50,
        ) {
            let of = |pods: &[(u16, u16)]| -> Vec<_> {
                pods.iter().map(|(all, own)| Some(group(*all, Some((*own).min(*all))))).collect()
            };
            let before = cause(node, &of(&pods), &[]);
            let mut calm = of(&pods);
            calm.extend([Some(group(0, Some(0))), None]);
            prop_assert_eq!(&before, &cause(node, &calm, &[]));
            let mut worse = pods;
            worse[0].0 += more;
            worse[0].1 = worse[0].1.min(worse[0].0 - more) + more;
            if before != StallCause::Contention {
                prop_assert!(cause(node, &of(&worse), &[]) != StallCause::Contention);
            }
        }
    }
}
