//! The outcome of a decision, in words.

use super::table::seconds;
use evictd_decision::record::{Outcome, Record};

/// `dry run`, or `FAILED: ` and the reason, if the pod is still there; else `None`.
pub(super) fn shortfall(record: &Record) -> Option<String> {
    if record.dry_run {
        return Some("dry run".to_owned());
    }
    match record.outcome.as_ref()? {
        Outcome::Failed { error } => Some(format!("FAILED: {}", error.trim_end())),
        Outcome::Ended(ended) => {
            let survivors = ended.survivors.len();
            let some = survivors > 0 && ended.last_process_gone_seconds.is_none();
            some.then(|| format!("FAILED: processes that survived SIGKILL: {survivors}"))
        }
    }
}

/// How long the pod took to end, or why it has not.
pub(super) fn gone(record: &Record) -> String {
    let took = record.outcome.as_ref().and_then(Outcome::gone_seconds);
    shortfall(record).unwrap_or_else(|| took.map_or_else(|| "-".to_owned(), seconds))
}

/// ` [dry run]` for a decision that was not carried out, else empty.
pub(super) fn remark(record: &Record) -> String {
    shortfall(record).map_or_else(String::new, |shortfall| format!(" [{shortfall}]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_decision_without_an_eviction_does_not_read_like_one() {
        let survivor = json!({ "pid": 7, "name": "deaf", "state": "D" });
        let survivors = json!({ "lastProcessGoneSeconds": null, "survivors": [survivor] });
        for (decision, told, remarked) in [
            (
                json!({ "outcome": { "lastProcessGoneSeconds": 0.12 } }),
                "120ms",
                "",
            ),
            (json!({}), "-", ""),
            (json!({ "dryRun": true }), "dry run", " [dry run]"),
            (
                json!({ "outcome": { "error": "not permitted" } }),
                "FAILED: not permitted",
                " [FAILED: not permitted]",
            ),
            (
                json!({ "outcome": survivors }),
                "FAILED: processes that survived SIGKILL: 1",
                " [FAILED: processes that survived SIGKILL: 1]",
            ),
        ] {
            let mut record = decision;
            record["id"] = json!("1");
            record["time"] = json!("2026-01-01T00:00:00Z");
            record["kind"] = json!("hard");
            let record: Record = serde_json::from_value(record).unwrap();
            assert_eq!(gone(&record), told);
            assert_eq!(remark(&record), remarked);
        }
    }
}
