//! Departures of which nothing is credited, as under the kubelet's rules.

use super::*;

#[test]
fn s1_059_where_nothing_is_credited_a_pod_is_waited_for_until_its_memory_is_back_or_30_seconds() {
    let mut bench = Bench::of(leaving("a", hard(), seconds(0)));
    bench.event(
        0,
        Event::Killed {
            uid: "a".to_owned(),
        },
    );
    let waits = |bench: &mut Bench, now, credited| {
        bench.departures.count_cycle(at(now));
        bench.departures.block(at(now), MEMORY, credited)
    };
    for _ in 0..50 {
        bench.departures.count_cycle(at(5000));
    }
    let both = |bench: &mut Bench, now| [false, true].map(|credited| waits(bench, now, credited));
    assert_eq!(both(&mut bench, 5000), [true, false], "it dies slowly");
    bench.gone(6000, "a");
    let mut pod_state = listed("a", false);
    pod_state.remaining = Some(RemainingUsage {
        memory: Some(100 << 20),
        ..RemainingUsage::default()
    });
    bench.sees(6050, pod_state);
    assert_eq!(both(&mut bench, 35_999), [true, false], "it holds memory");
    assert_eq!(both(&mut bench, 36_000), [false, false]);
}
