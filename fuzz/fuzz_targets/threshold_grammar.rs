//! Lines of `<map> <signal> <value>` make a threshold configuration, or mistakes that can be told.
#![no_main]

use evictd_eviction::{Housekeeper, Rules};
use evictd_signals::{Observation, Observations, Signal, ThresholdMaps};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut maps = ThresholdMaps::default();
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(map), Some(signal), Some(value)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let map = match map {
            "hard" => &mut maps.hard,
            "soft" => &mut maps.soft,
            "grace" => &mut maps.soft_grace_period,
            _ => &mut maps.minimum_reclaim,
        };
        map.insert(signal.to_owned(), value.to_owned());
    }
    match maps.parse() {
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(!error.to_string().is_empty());
            }
        }
        Ok(thresholds) => try_out(Rules {
            thresholds,
            ..Rules::evictd()
        }),
    }
});

/// Nothing that the grammar lets through upsets the arithmetic.
fn try_out(rules: Rules) {
    let mut keeper = Housekeeper::new(rules);
    for (second, available, capacity) in [(0, 0, 0), (1, i64::MIN, i64::MAX), (2, 5, 100)] {
        let now = format!("2026-01-01T00:00:0{second}Z")
            .parse()
            .expect("a timestamp");
        let observation = Observation {
            available,
            capacity,
            time: None,
        };
        let all = Signal::ALL.into_iter().map(|signal| (signal, observation));
        keeper.observe(now, &all.collect::<Observations>());
        keeper.pressure();
        keeper.decide(
            now,
            &[] as &[evictd_pod::Pod],
            &evictd_usage::Usage::default(),
        );
        for threshold in keeper.thresholds_met() {
            serde_json::to_string(threshold).expect("JSON");
        }
    }
}
