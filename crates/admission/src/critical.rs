//! Which pods are preempted so that a critical pod that lacks resources can be admitted (S2-005 to S2-015).

use evictd_pod::{Pod, resources};
use std::borrow::Borrow;
use std::{cmp::Ordering, fmt};

/// Status and event reason of a preempted pod (S2-017).
pub const REASON: &str = "Preempting";
/// Status and event message of a preempted pod (S2-017).
pub const MESSAGE: &str = "Preempted in order to admit critical pod";
/// The message of a victim's condition `DisruptionTarget`, whose reason is `TerminationByKubelet` (S2-018).
pub const CONDITION_MESSAGE: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";

/// How much of a resource is missing: millicores of cpu, whole units of anything else (S2-015).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Name of the resource.
    pub resource: String,
    /// The missing amount, above zero.
    pub amount: i64,
}

/// Preempting all eligible pods would not free enough (S2-007). Holds the needs that would remain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct NotEnough(pub Vec<Need>);

impl fmt::Display for NotEnough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no set of running pods found to reclaim resources: [")?;
        for Need { resource, amount } in &self.0 {
            write!(f, "(res: {resource}, q: {amount}), ")?;
        }
        f.write_str("]")
    }
}

/// Whether `pod` may be killed to let `preemptor` in (S2-005).
pub(crate) fn preemptable(preemptor: &Pod, pod: &Pod) -> bool {
    if pod.terminal {
        return false;
    }
    let outranked = preemptor.spec_priority.zip(pod.spec_priority);
    (preemptor.critical.is_some() && pod.critical.is_none())
        || outranked.is_some_and(|(preemptor, pod)| preemptor > pod)
}

/// A pod's request of `resource`: millicores of cpu, whole units of anything else. For `pods` it is always one
/// (S2-015).
pub(crate) fn request(pod: &Pod, resource: &str) -> i64 {
    resources::units(resource, pod.request(resource))
}

/// The pods to kill for `preemptor`, as indices into `pods`, in kill order: `BestEffort`, then Burstable, then
/// Guaranteed (S2-011). A pod of a higher QoS class is chosen only if the pods of the lower classes do not free
/// enough (S2-008 to S2-010).
///
/// # Errors
/// When even all eligible pods would not free enough; then no pod should be killed.
pub fn victims(
    preemptor: &Pod,
    pods: &[impl Borrow<Pod>],
    needs: &[Need],
) -> Result<Vec<usize>, NotEnough> {
    let [best_effort, burstable, guaranteed] = Group::by_qos(preemptor, pods, needs);

    let needed = Remaining::of(needs);
    // Pods of a higher class are taken only for what all pods of the lower ones cannot give.
    let softer_gone = needed.without(&best_effort).without(&burstable);
    let unmet = softer_gone.without(&guaranteed);
    if !unmet.is_empty() {
        return Err(unmet.into());
    }
    let guaranteed = guaranteed.nearest(softer_gone)?;
    let burstable = burstable.nearest(needed.without(&best_effort).without(&guaranteed))?;
    let best_effort = best_effort.nearest(needed.without(&burstable).without(&guaranteed))?;
    let kill_order = [best_effort, burstable, guaranteed];
    Ok(kill_order
        .into_iter()
        .flat_map(|group| group.pods)
        .collect())
}

/// The amounts still needed; every amount is positive.
#[derive(Debug, Clone)]
struct Remaining<'a>(Vec<Shortfall<'a>>);

#[derive(Debug, Clone)]
struct Shortfall<'a> {
    resource: &'a str,
    /// Index into the list of needs, and so the column in [`Group::requests`].
    column: usize,
    amount: i64,
}

impl<'a> Remaining<'a> {
    fn of(needs: &'a [Need]) -> Self {
        let shortfall = |(column, need): (usize, &'a Need)| Shortfall {
            resource: &need.resource,
            column,
            amount: need.amount,
        };
        let needs = needs
            .iter()
            .enumerate()
            .map(shortfall)
            .filter(|need| need.amount > 0);
        Self(needs.collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The needs that remain after every pod of `group` has terminated.
    fn without(&self, group: &Group) -> Self {
        let mut remaining = self.clone();
        remaining.subtract(|column| &group.requests[column]);
        remaining
    }

    fn subtract<'g>(&mut self, requests: impl Fn(usize) -> &'g [i64]) {
        self.0.retain_mut(|need| {
            requests(need.column).iter().all(|request| {
                need.amount = need.amount.saturating_sub(*request);
                need.amount > 0
            })
        });
    }
}

impl From<Remaining<'_>> for NotEnough {
    fn from(remaining: Remaining<'_>) -> Self {
        let need = |shortfall: Shortfall<'_>| Need {
            resource: shortfall.resource.to_owned(),
            amount: shortfall.amount,
        };
        Self(remaining.0.into_iter().map(need).collect())
    }
}

/// Pods of one QoS class with their requests as integers, one column per need. The search compares all pods again
/// for each victim, so it reads only these compact arrays.
#[derive(Debug, Clone)]
struct Group {
    /// Indices into the list of pods.
    pods: Vec<usize>,
    /// Memory, then cpu: of pods with the same distance the smaller one is chosen (S2-014).
    sizes: Vec<(i64, i64)>,
    /// The requests of the pods: one vector per need, one entry per pod.
    requests: Vec<Vec<i64>>,
}

impl Group {
    fn empty(needs: usize) -> Self {
        Self {
            pods: Vec::new(),
            sizes: Vec::new(),
            requests: vec![Vec::new(); needs],
        }
    }

    /// The pods that may go for `preemptor`, in the order given: `BestEffort`, Burstable, Guaranteed (S2-006).
    fn by_qos(preemptor: &Pod, pods: &[impl Borrow<Pod>], needs: &[Need]) -> [Self; 3] {
        let mut groups = [(); 3].map(|()| Self::empty(needs.len()));
        for (index, pod) in pods.iter().map(Borrow::borrow).enumerate() {
            if preemptable(preemptor, pod) {
                groups[pod.qos as usize].push(index, pod, needs);
            }
        }
        groups
    }

    fn push(&mut self, index: usize, pod: &Pod, needs: &[Need]) {
        let size = (
            request(pod, resources::MEMORY),
            request(pod, resources::CPU),
        );
        self.pods.push(index);
        self.sizes.push(size);
        for (column, need) in self.requests.iter_mut().zip(needs) {
            column.push(match need.resource.as_str() {
                resources::MEMORY => size.0,
                resources::CPU => size.1,
                other => request(pod, other),
            });
        }
    }

    /// Moves one pod into `chosen`. As in the kubelet the last pod of the list takes the free place; this order
    /// decides later ties (S2-012).
    fn move_to(&mut self, place: usize, chosen: &mut Self) {
        chosen.pods.push(self.pods.swap_remove(place));
        chosen.sizes.push(self.sizes.swap_remove(place));
        for (from, to) in self.requests.iter_mut().zip(&mut chosen.requests) {
            to.push(from.swap_remove(place));
        }
    }

    /// Chooses the pod whose requests are nearest to the remaining need, and repeats until nothing remains
    /// (S2-012).
    fn nearest(mut self, mut remaining: Remaining<'_>) -> Result<Self, NotEnough> {
        let mut chosen = Self::empty(self.requests.len());
        let mut distances = Vec::with_capacity(self.pods.len());
        while !remaining.is_empty() {
            if self.pods.is_empty() {
                return Err(remaining.into());
            }
            let place = self.nearest_to(&remaining, &mut distances);
            remaining.subtract(|column| std::slice::from_ref(&self.requests[column][place]));
            self.move_to(place, &mut chosen);
        }
        Ok(chosen)
    }

    /// The place of the pod with the smallest distance (S2-013). Of equal distances the smaller pod wins, then the
    /// one later in the list (S2-014).
    fn nearest_to(&self, remaining: &Remaining<'_>, distances: &mut Vec<f64>) -> usize {
        distances.clear();
        distances.resize(self.pods.len(), 0.0);
        for need in &remaining.0 {
            add_distances(distances, &self.requests[need.column], need.amount);
        }
        let mut best = 0;
        for (place, distance) in distances.iter().enumerate().skip(1) {
            let nearer = match distance.total_cmp(&distances[best]) {
                Ordering::Less => true,
                Ordering::Equal => self.sizes[place] <= self.sizes[best],
                Ordering::Greater => false,
            };
            if nearer {
                best = place;
            }
        }
        best
    }
}

/// Adds to each pod's distance the square of the part of `need` that its request does not cover (S2-013). The
/// operations and their order are the kubelet's, so that rounding produces the same ties.
#[allow(
    clippy::cast_precision_loss,
    reason = "the kubelet compares in f64 as well; an exact result would differ from its choice"
)]
fn add_distances(distances: &mut [f64], requests: &[i64], need: i64) {
    for (distance, request) in distances.iter_mut().zip(requests) {
        let open = need.saturating_sub(*request).max(0) as f64;
        let part = open / need as f64;
        *distance += part * part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_test_objects::{Object, pod};
    use serde_json::json;

    fn made(object: &Object) -> Pod {
        Pod::from_wire(object.parse())
    }

    fn critical() -> Pod {
        made(&pod("c").priority(2_000_000_000))
    }

    fn best_effort() -> Pod {
        made(&pod("b"))
    }

    /// A Burstable pod that requests so many millicores and bytes.
    fn burstable(cpu: i64, memory: i64) -> Pod {
        made(&pod("b").cpu(&format!("{cpu}m")).memory(&memory.to_string()))
    }

    fn need(resource: &str, amount: i64) -> Need {
        Need {
            resource: resource.to_owned(),
            amount,
        }
    }

    #[test]
    fn s2_005_which_pods_may_be_preempted_for_which() {
        let of = |priority: i32| pod("p").priority(priority);
        let mirror = pod("p").annotation("kubernetes.io/config.mirror", "x");
        let critical = 2_000_000_000;
        let table = [
            (critical, pod("p"), true),
            (critical, of(critical), false),
            (2_000_001_000, of(critical), true),
            (5, of(4), true),
            (5, pod("p"), false),
            (critical, mirror, false),
            (critical, pod("p").phase("Failed"), false),
        ];
        for (priority, other, may) in table {
            let preemptor = made(&of(priority));
            let found = preemptable(&preemptor, &made(&other));
            assert_eq!(found, may, "{priority} {other:?}");
        }
    }

    #[test]
    fn s2_007_the_error_names_the_remaining_shortfall() {
        let needs = [need("cpu", 300), need("memory", 50), need("pods", 1)];
        let error = victims(&critical(), &[burstable(100, 70)], &needs).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no set of running pods found to reclaim resources: [(res: cpu, q: 200), ]"
        );
    }

    #[test]
    fn s2_006_the_group_is_the_qos_class_whatever_the_order_of_the_list() {
        let burstable = || burstable(100, 0);
        let pods = [burstable(), best_effort(), burstable(), best_effort()];
        let needs = [need("cpu", 200), need("pods", 4)];
        let chosen = victims(&critical(), &pods, &needs).unwrap();
        let classes: Vec<&str> = chosen.iter().map(|i| pods[*i].qos.as_str()).collect();
        assert_eq!(
            classes,
            ["BestEffort", "BestEffort", "Burstable", "Burstable"]
        );
    }

    #[test]
    fn s2_009_s2_010_a_higher_qos_class_gives_only_the_rest_of_the_need() {
        let pods = [best_effort(), burstable(500, 0), best_effort()];
        let of = |needs: &[Need]| victims(&critical(), &pods, needs).unwrap();
        // Both BestEffort pods together free enough: no Burstable pod is chosen.
        assert_eq!(of(&[need("pods", 2)]), [2, 0]);
        // The Burstable pod is chosen for its cpu. It also frees one of the two `pods`, so only one BestEffort pod
        // is needed.
        assert_eq!(of(&[need("cpu", 500), need("pods", 1)]), [1]);
        assert_eq!(of(&[need("cpu", 500), need("pods", 2)]), [2, 1]);
    }

    #[test]
    fn s2_017_s2_018_the_words_on_a_victim() {
        assert_eq!(REASON, "Preempting");
        assert_eq!(MESSAGE, "Preempted in order to admit critical pod");
        assert_eq!(
            CONDITION_MESSAGE,
            "Pod was preempted by Kubelet to accommodate a critical pod."
        );
    }

    #[test]
    fn s2_008_to_s2_011_firm_promises_only_where_soft_ones_cannot_help() {
        let amounts = json!({ "cpu": "1", "memory": "1Gi" });
        let resources = json!({ "requests": amounts, "limits": amounts });
        let guaranteed = made(&pod("g").set("/spec/containers/0/resources", resources));
        let pods = [
            guaranteed,
            burstable(400, 0),
            best_effort(),
            burstable(600, 0),
        ];
        let of = |needs: &[Need]| victims(&critical(), &pods, needs).unwrap();
        assert_eq!(of(&[need("cpu", 1000)]), [3, 1]);
        assert_eq!(of(&[need("cpu", 1100)]), [1, 0]);
        assert_eq!(of(&[need("cpu", 1000), need("pods", 3)]), [2, 3, 1]);
        assert_eq!(of(&[]), [0; 0]);
    }

    #[test]
    fn s2_012_the_last_pod_takes_the_place_of_the_one_chosen() {
        let pods = [900, 100, 100, 100].map(|cpu| burstable(cpu, 0));
        // Of equals the later one is chosen. The last pod has moved to place 0, so the last place now holds pod 2.
        let chosen = victims(&critical(), &pods, &[need("cpu", 950)]).unwrap();
        assert_eq!(chosen, [0, 2]);
    }

    #[test]
    fn s2_013_s2_014_nearest_then_smallest_then_last() {
        let table = [
            ([burstable(400, 0), burstable(500, 0)], 1),
            ([burstable(500, 0), burstable(400, 0)], 0),
            ([burstable(2000, 0), burstable(1500, 0)], 1),
            ([burstable(1500, 7), burstable(2000, 5)], 1),
            ([burstable(1500, 5), burstable(1500, 5)], 1),
        ];
        for (pods, first) in table {
            let chosen = victims(&critical(), &pods, &[need("cpu", 500)]).unwrap();
            assert_eq!(chosen, [first], "{pods:?}");
        }
    }
}
