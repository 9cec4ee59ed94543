//! The work for a claim is bounded, whatever it contains.

use super::*;

#[test]
fn an_impossible_claim_ends_within_the_limit() {
    let mut known = inventory();
    // All devices differ, so that none can be skipped, and each pair of requests is contradictory.
    let devices: Vec<Value> = (0..64)
        .map(|index| gpu(&format!("g{index:02}"), "h100", index))
        .collect();
    known.put_slice(slice("one", json!({ "devices": devices })));
    let requests: Vec<Value> = (0..16)
        .map(
            |index| json!({ "name": format!("r{index}"), "exactly": { "deviceClassName": "gpu" } }),
        )
        .collect();
    let constraints =
        json!([{ "requests": ["r14", "r15"], "matchAttribute": "gpu.example.com/socket" }]);
    let problem = devices_for(
        &mut known,
        json!({ "requests": &requests, "constraints": constraints }),
    );
    assert_eq!(problem, Err(Problem::TooExpensive));
    // Equal devices are tried once.
    let devices: Vec<Value> = (0..64)
        .map(|index| gpu(&format!("g{index:02}"), "h100", index % 2))
        .collect();
    known.put_slice(slice("one", json!({ "devices": devices })));
    let other = json!([{ "requests": ["r6", "r7"], "matchAttribute": "gpu.example.com/none" }]);
    let requests = &requests[..8];
    let problem = devices_for(
        &mut known,
        json!({ "requests": requests, "constraints": other }),
    );
    assert_eq!(problem, Err(Problem::NotEnough));
}

/// An expression that is true and costs about 700 000 units.
fn costly(number: usize) -> String {
    format!("lists.range(1000).all(x, lists.range(98).all(y, x + y >= -{number}))")
}

fn with_selectors(expressions: &[String]) -> Value {
    let selectors = expressions.iter();
    let selectors: Vec<_> = selectors
        .map(|expression| json!({ "cel": { "expression": expression } }))
        .collect();
    json!({ "requests": exactly(json!({ "selectors": selectors })) })
}

#[test]
fn costly_selectors_end_the_search_on_a_node_even_if_cached() {
    let mut known = inventory();
    let devices: Vec<Value> = (0..64)
        .map(|index| gpu(&format!("g{index:02}"), "h100", index))
        .collect();
    known.put_slice(slice("one", json!({ "devices": devices })));
    let selectors: Vec<String> = (1..=31).map(costly).collect();
    let problem = devices_for(&mut known, with_selectors(&selectors));
    assert_eq!(problem, Err(Problem::Interrupted));
    // At some point no selector is evaluated any more, and the result stays.
    let mut asked = Vec::new();
    while asked.last() != Some(&0) {
        let demand = Demand::new(&known, "shop", ["c"]).unwrap();
        let problem = demand.allocate(&known, &node("one")).unwrap_err();
        assert_eq!(problem, Problem::TooExpensive);
        asked.push(demand.units_asked());
        assert!(asked.len() < 4, "{asked:?}");
    }
    let problem = devices_for(&mut known, with_selectors(&selectors[..5]));
    assert_eq!(problem.unwrap(), ["r=g00"]);
}

#[test]
fn an_attempt_evaluates_costly_selectors_on_a_few_nodes_and_the_next_continues() {
    let mut known = inventory();
    let names: Vec<&'static str> = (0..40)
        .map(|number| &*format!("node-{number}").leak())
        .collect();
    for name in &names {
        let pool = json!({ "name": name, "generation": 1, "resourceSliceCount": 1 });
        let spec = json!({ "nodeName": name, "pool": pool, "devices": [gpu("a", "h100", 0)] });
        known.put_slice(slice(name, spec));
    }
    known.put_claim(claim("c", with_selectors(&[costly(1)])));
    let mut attempts = Vec::new();
    while attempts.last() != Some(&names.len()) {
        let demand = Demand::new(&known, "shop", ["c"]).unwrap();
        let fits = |name: &&&'static str| match demand.allocate(&known, &node(name)) {
            Ok(_) => true,
            Err(problem) => {
                assert_eq!(problem, Problem::Interrupted);
                false
            }
        };
        attempts.push(names.iter().filter(fits).count());
        assert!(demand.units_asked() < 6_000_000);
        assert!(attempts.len() < 10, "{attempts:?}");
    }
    assert!(attempts.is_sorted() && attempts[0] > 4, "{attempts:?}");
}

#[test]
fn selector_results_are_cached_until_the_slice_changes() {
    let mut known = inventory();
    let text = "device.attributes['gpu.example.com'].model == 'h100'";
    known.put_claim(claim("c", with_selectors(&[text.to_owned()])));
    let asked = |known: &Inventory| {
        let demand = Demand::new(known, "shop", ["c"]).unwrap();
        let given = demand
            .allocate(known, &node("one"))
            .map(|allocations| names(&allocations[0]));
        (given.ok(), demand.units_asked() > 0)
    };
    let first = Some(vec!["r=a".to_owned()]);
    assert_eq!(asked(&known), (first.clone(), true));
    assert_eq!(asked(&known), (first.clone(), false));
    // A selector of another claim with the same text is cached.
    known.remove_claim("shop", "c");
    known.put_claim(claim("c", with_selectors(&[text.to_owned()])));
    assert_eq!(asked(&known), (first, false));
    let devices = json!({ "devices": [gpu("a", "a100", 0), gpu("b", "h100", 0)] });
    known.put_slice(slice("one", devices));
    assert_eq!(asked(&known), (Some(vec!["r=b".to_owned()]), true));
}

#[test]
fn a_claim_with_too_long_selectors_is_rejected() {
    let mut known = inventory();
    let long = |number: usize| format!("{number} > 0 || '{}' == ''", "x".repeat(9_000));
    let selectors: Vec<String> = (1..=8).map(long).collect();
    known.put_claim(claim("c", with_selectors(&selectors)));
    let problem = "claim shop/c: its selectors have more than 65536 bytes";
    assert_eq!(
        allocate(&known, &["c"]),
        Err(Problem::Claim(problem.to_owned()))
    );
    known.put_claim(claim("c", with_selectors(&selectors[..7])));
    assert!(!matches!(allocate(&known, &["c"]), Err(Problem::Claim(_))));
}
