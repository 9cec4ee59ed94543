use super::*;
use serde_json::json;

/// Lines that the version before this struct wrote in its tests on a machine: every kind of decision, in every state.
const WRITTEN_BEFORE: &str = include_str!("../../../../tests/fixtures/history/decisions.log");

fn lines() -> impl Iterator<Item = Value> {
    WRITTEN_BEFORE.lines().map(|line| {
        let json = line.splitn(3, ' ').nth(2).unwrap();
        serde_json::from_str(json).unwrap()
    })
}

fn read(line: &Value) -> Record {
    Record::deserialize(line).unwrap()
}

#[test]
fn records_of_older_versions_are_read_and_written_unchanged() {
    assert!(lines().count() > 10);
    for line in lines() {
        let again = serde_json::to_value(read(&line)).unwrap();
        assert_eq!(again, line, "{again:#}\n{line:#}");
    }
}

#[test]
fn a_line_of_the_first_versions_is_enough_to_finish_its_decision() {
    let line = json!({
        "id": "1", "time": "2026-01-01T00:00:00Z", "kind": "hard", "signal": "memory.available", "pod": "shop/hog",
        "uid": "u", "gracePeriodSeconds": 0, "outcome": null,
    });
    let record = read(&line);
    assert!(record.is_open() && !record.is_waiting() && !record.is_told());
    assert_eq!((record.boot_id, record.dry_run), (None, false));
}

#[test]
fn evidence_in_words_of_another_version_is_left_out_and_the_decision_is_kept() {
    let mut line = lines().find(|line| line["ranking"].is_array()).unwrap();
    line["threshold"]["signal"] = json!("gpu.available");
    line["resource"] = json!("gpus");
    line["withheld"] = json!({ "because": "ofSomething" });
    line["owner"] = json!(7);
    line["ranking"][0]["qos"] = json!("Platinum");
    line["ranking"][0]["preference"] = json!("perhaps");
    line["somethingNew"] = json!({ "a": [1] });
    line["outcome"] = json!({ "lastProcessGoneSeconds": 0.5, "method": "by-telepathy" });
    line["publication"] = json!({ "state": "carved in stone", "where": "Rosetta" });
    let record = read(&line);
    assert_eq!((record.threshold, record.resource), (None, None));
    assert_eq!((record.withheld, record.owner), (None, None));
    assert_eq!(
        (record.ranking[0].qos, record.ranking[0].preference),
        (None, None)
    );
    assert_eq!(record.outcome.unwrap().gone_seconds(), Some(0.5));
    assert_eq!(record.publication, Some(Publication::Unknown));
}

#[test]
fn a_line_without_a_decision_is_no_record() {
    for line in [
        json!({ "note": "of another version" }),
        json!({ "id": "1" }),
        json!([]),
        // What it would be finished by must be certain.
        json!({ "id": "1", "time": "2026-01-01T00:00:00Z", "kind": "whim" }),
        json!({ "id": "1", "time": "2026-01-01T00:00:00Z", "kind": "hard", "outcome": 7 }),
    ] {
        assert!(Record::deserialize(&line).is_err(), "{line}");
    }
}

fn notice() -> Notice {
    Notice {
        id: "1".to_owned(),
        namespace: "shop".to_owned(),
        name: "hog".to_owned(),
        uid: "u".to_owned(),
        generation: None,
        reason: "Evicted".to_owned(),
        message: "é".repeat(50_000),
        disruption_target: Some("é".repeat(50_000)),
        way: Way::Status,
        record: "x".repeat(50_000),
        time: Timestamp::UNIX_EPOCH,
    }
}

fn departure() -> Record {
    Record {
        pod: Some("shop/hog".to_owned()),
        uid: Some("u".to_owned()),
        message: Some("é".repeat(50_000)),
        ranking: vec![RankingRow::default(); 1000],
        publication: Some(Publication::waiting(notice())),
        ..Record::new(
            "1".to_owned(),
            Timestamp::UNIX_EPOCH,
            Kind::Hard,
            "memory.available",
        )
    }
}

#[test]
fn a_decision_is_open_until_its_outcome_and_its_publication_are_known() {
    let mut record = departure();
    assert!(record.is_open() && record.is_waiting() && !record.is_told());
    record.conclude(Outcome::not_started());
    assert!(record.is_open());
    record.published(Publication::Published);
    assert!(!record.is_open() && record.is_told());
    for nobody_leaves in [
        Record {
            dry_run: true,
            ..departure()
        },
        Record {
            uid: None,
            ..departure()
        },
    ] {
        assert!(!nobody_leaves.is_open());
    }
    let untold = Record {
        publication: None,
        ..departure()
    };
    assert!(untold.is_open() && !untold.is_told());
}

#[test]
fn two_records_of_a_decision_make_the_same_one_in_either_order() {
    let open = departure();
    let mut ended = departure().essential();
    ended.conclude(Outcome::not_started());
    let mut told = departure().essential();
    told.published(Publication::Published);
    let mut all = departure();
    all.conclude(Outcome::not_started());
    all.published(Publication::Published);
    for order in [
        [&open, &ended, &told],
        [&told, &open, &ended],
        [&ended, &told, &open],
        [&told, &ended, &open],
    ] {
        let mut record = order[0].clone();
        for other in &order[1..] {
            record.absorb((*other).clone());
        }
        assert_eq!(record, all);
    }
}

#[test]
fn a_brief_record_is_bounded_and_still_finishes_the_decision() {
    let record = departure().brief();
    let text = serde_json::to_string(&record).unwrap();
    assert!(text.len() < 4096, "{}", text.len());
    assert!(record.is_open() && record.is_waiting());
    let Some(Publication::Waiting { notice: Some(told) }) = record.publication else {
        panic!("nothing is owed")
    };
    assert_eq!((told.uid, told.way), ("u".to_owned(), Way::Status));
    assert_eq!(time(&told.record), Some(Timestamp::UNIX_EPOCH));
}

#[test]
fn methods_have_one_name() {
    for method in [
        Method::AlreadyGone,
        Method::Terminated,
        Method::TornDown,
        Method::CgroupKill,
        Method::FrozenKill,
        Method::RepeatedKill,
        Method::NotStarted,
        Method::Simulated,
        Method::Unknown,
    ] {
        assert_eq!(serde_json::to_value(method).unwrap(), method.as_str());
    }
}
