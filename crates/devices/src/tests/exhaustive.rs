//! The search finds the first solution of an exhaustive one, although it skips states that have failed.

use super::partitions::{allocated, result};
use super::{claim, class, slice};
use crate::{Demand, Inventory};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A device: its kind, which says how much of the counter it consumes, and whether a claim has it.
type Card = (u8, bool);
/// A request: how many devices, and whether with admin access.
type Wanted = (usize, bool);

const LEFT: u8 = 6;

/// Looks for the devices of all requests, in order, without any shortcut. `given` has claim, request and device.
fn first_solution(
    cards: &[Card],
    claims: &[Vec<Wanted>],
    left: i16,
    given: &mut Vec<(usize, usize, usize)>,
) -> bool {
    let requests = claims.iter().enumerate().flat_map(|(claim, requests)| {
        let requests = requests.iter().enumerate();
        requests.map(move |(request, wanted)| (claim, request, *wanted))
    });
    let count = |claim, request| {
        let of = given
            .iter()
            .filter(|given| (given.0, given.1) == (claim, request));
        of.count()
    };
    let mut open =
        requests.filter(|(claim, request, (wanted, _))| count(*claim, *request) < *wanted);
    let Some((claim, request, (_, is_admin))) = open.next() else {
        return true;
    };
    let last = given
        .iter()
        .rev()
        .find(|given| (given.0, given.1) == (claim, request));
    let from = last.map_or(0, |given| given.2 + 1);
    for (index, (kind, in_use)) in cards.iter().enumerate().skip(from) {
        let mut owners = given.iter().filter(|given| given.2 == index);
        let is_free = if is_admin {
            owners.all(|given| given.0 != claim)
        } else {
            !in_use && owners.next().is_none()
        };
        let left = left - i16::from(*kind);
        if !is_free || left < 0 {
            continue;
        }
        given.push((claim, request, index));
        if first_solution(cards, claims, left, given) {
            return true;
        }
        given.pop();
    }
    false
}

fn known(cards: &[Card]) -> Inventory {
    let mut known = Inventory::default();
    known.put_class(class("gpu", "true"));
    let pool = json!({ "name": "one", "generation": 1, "resourceSliceCount": 2 });
    let sets = json!([{ "name": "s", "counters": { "c": { "value": LEFT } } }]);
    known.put_slice(slice(
        "sets",
        json!({ "pool": pool, "sharedCounters": sets }),
    ));
    let devices = cards.iter().enumerate().map(|(index, (kind, _))| {
        json!({ "name": format!("d{index}"), "attributes": { "kind": { "int": kind } },
            "consumesCounters": [{ "counterSet": "s", "counters": { "c": { "value": kind } } }] })
    });
    let devices: Vec<Value> = devices.collect();
    known.put_slice(slice("one", json!({ "pool": pool, "devices": devices })));
    for (index, _) in cards.iter().enumerate().filter(|(_, (_, in_use))| *in_use) {
        let held = json!([result(&format!("d{index}"), json!({}))]);
        known.put_claim(allocated(&format!("held-{index}"), held));
    }
    known
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn s7_142_s7_191_the_first_solution_of_an_exhaustive_search_is_found(
        cards in prop::collection::vec((0_u8..3, prop::bool::weighted(0.2)), 1..7),
        claims in prop::collection::vec(prop::collection::vec((1_usize..3, any::<bool>()), 1..3), 1..4),
    ) {
        let mut known = known(&cards);
        let names: Vec<String> = (0..claims.len()).map(|index| format!("c{index}")).collect();
        for (name, requests) in names.iter().zip(&claims) {
            let requests = requests.iter().enumerate().map(|(index, (count, is_admin))| {
                json!({ "name": format!("r{index}"),
                    "exactly": { "deviceClassName": "gpu", "count": count, "adminAccess": is_admin } })
            });
            known.put_claim(claim(name, json!({ "requests": requests.collect::<Vec<_>>() })));
        }
        let in_use = cards.iter().filter(|(_, in_use)| *in_use);
        let used: i16 = in_use.map(|(kind, _)| i16::from(*kind)).sum();
        let mut expected = Vec::new();
        let left = i16::from(LEFT) - used;
        // A counter that is overdrawn blocks every device that consumes some.
        let exists = left >= 0 && first_solution(&cards, &claims, left, &mut expected);
        let demand = Demand::new(&known, "shop", names.iter().map(String::as_str)).unwrap();
        let found = demand.allocate(&known, &super::node("one"));
        prop_assert_eq!(found.is_ok(), exists, "{:?}", found);
        let found = found.unwrap_or_default().into_iter().enumerate().flat_map(|(claim, allocation)| {
            let results = allocation.devices.results.into_iter();
            results.map(move |result| (claim, result.request[1..].parse().unwrap(), result.device[1..].parse().unwrap()))
        });
        prop_assert_eq!(found.collect::<Vec<(usize, usize, usize)>>(), expected);
    }
}
