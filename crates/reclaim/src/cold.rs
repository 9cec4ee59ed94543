//! Page cache that pods hold above their requests, which may be reclaimed before a pod is evicted for memory.

use evictd_pod::{Pod, Quantity, resources::MEMORY};
use evictd_usage::Usage;
use std::{borrow::Borrow, cmp::Reverse};

/// The amount to reclaim from one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColdShare {
    /// Index of the pod.
    pub index: usize,
    /// Bytes by which its working set may shrink: it keeps what it requested.
    pub bytes: u64,
}

/// From which pods to reclaim `short` bytes: those with the most page cache above their request first. A working set
/// without its anonymous memory is page cache in active use and files in memory. The kernel leaves the latter alone
/// where there is no swap. A pod whose usage is unknown, and one without a cgroup, is left out.
pub fn cold_shares<P: Borrow<Pod>>(short: u64, pods: &[P], usage: &Usage) -> Vec<ColdShare> {
    let mut shares: Vec<ColdShare> = pods
        .iter()
        .enumerate()
        .filter_map(|(index, pod)| {
            let used = usage.of(index)?;
            let (working_set, anon) = (used.working_set?.value, used.anon?.value);
            // Anonymous memory does not come back without swap, so only page cache counts as cold.
            let above = Quantity::bytes(working_set) - pod.borrow().reserved(MEMORY);
            let cache = working_set.saturating_sub(anon);
            let bytes = u64::try_from(above.value().min(cache)).ok()?;
            (bytes > 0).then_some(ColdShare { index, bytes })
        })
        .collect();
    shares.sort_by_key(|share| Reverse(share.bytes));
    // The largest come first: fewer pods then lose their cache.
    let mut left = short;
    for share in &mut shares {
        share.bytes = share.bytes.min(left);
        left -= share.bytes;
    }
    shares.retain(|share| share.bytes > 0);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_usage::{PodUsage, figure::Figure};

    const MI: i64 = 1 << 20;

    fn pod(request: &str) -> Pod {
        let pod = evictd_test_objects::pod("a").memory(request);
        Pod::from_wire(pod.parse())
    }

    fn shares(short: i64, pods: &[(&str, Option<[i64; 2]>)]) -> Vec<(usize, i64)> {
        let known: Vec<Pod> = pods.iter().map(|(request, _)| pod(request)).collect();
        let used = |figures: [i64; 2]| PodUsage {
            working_set: Some(Figure::bytes(figures[0] * MI)),
            anon: Some(Figure::bytes(figures[1] * MI)),
            ..PodUsage::default()
        };
        let usage: Usage = pods.iter().map(|(_, figures)| figures.map(used)).collect();
        let short = u64::try_from(short * MI).unwrap();
        cold_shares(short, &known, &usage)
            .iter()
            .map(|share| (share.index, i64::try_from(share.bytes).unwrap() / MI))
            .collect()
    }

    #[test]
    fn the_pods_with_the_most_cache_above_their_requests_give_the_shortage_and_no_more() {
        let pods = [
            ("10Mi", Some([60, 5])),
            ("100Mi", Some([90, 1])),
            ("10Mi", Some([300, 280])),
            ("10Mi", None),
            ("10Mi", Some([210, 10])),
        ];
        // 200 of the last, 50 of the first; of the third only 20 are cache; the second is below its request.
        assert_eq!(shares(1000, &pods), [(4, 200), (0, 50), (2, 20)]);
        assert_eq!(shares(220, &pods), [(4, 200), (0, 20)]);
        assert_eq!(shares(7, &pods), [(4, 7)]);
        assert_eq!(shares(0, &pods), []);
    }
}
