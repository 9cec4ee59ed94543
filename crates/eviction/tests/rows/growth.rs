//! Who writes fastest goes first among equals, where that is asked for.

use crate::node::{MI, disk, evictd, files, priority, ranked};
use evictd_signals::Signal;
use evictd_usage::PodUsage;

#[test]
fn of_equals_on_a_disk_the_fastest_writer_is_evicted_first_where_configured() {
    let grows = |name, held: i64, disk_growth| {
        let held = disk(files(held, 1), files(0, 0), files(0, 0));
        (
            priority(name, 0),
            held.map(|held| PodUsage {
                disk_growth,
                ..held
            }),
        )
    };
    let pods = [
        grows("unknown", MI, None),
        grows("slow", MI, Some(1)),
        grows("fast", MI, Some(9)),
        grows("large", 2 * MI, None),
    ];
    let mut rules = evictd(Vec::new());
    let mut order = ["large", "unknown", "slow", "fast"];
    assert_eq!(ranked(&rules, Signal::NodefsAvailable, &pods), order);
    rules.fastest_writer_first = true;
    order[1..].reverse();
    assert_eq!(ranked(&rules, Signal::NodefsAvailable, &pods), order);
}
