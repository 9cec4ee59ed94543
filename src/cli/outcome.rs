//! What became of a decision, in words.

use super::table::{seconds, text};
use serde_json::Value;

/// `dry run`, or `FAILED: ` and why, where the pod is still there by that; else `None`.
pub(super) fn shortfall(decision: &Value) -> Option<String> {
    let outcome = &decision["outcome"];
    let survivors = outcome["survivors"].as_array().map_or(0, Vec::len);
    if decision["dryRun"] == true {
        Some("dry run".to_owned())
    } else if !outcome["error"].is_null() {
        Some(format!("FAILED: {}", text(&outcome["error"])))
    } else if survivors > 0 && outcome["lastProcessGoneSeconds"].is_null() {
        Some(format!(
            "FAILED: processes that outlive SIGKILL: {survivors}"
        ))
    } else {
        None
    }
}

/// How long it took until the pod was gone, or why it is not.
pub(super) fn gone(decision: &Value) -> String {
    let took = decision["outcome"]["lastProcessGoneSeconds"].as_f64();
    shortfall(decision).unwrap_or_else(|| took.map_or_else(|| "-".to_owned(), seconds))
}

/// Whether it was more than words: ` [dry run]`, or nothing.
pub(super) fn remark(decision: &Value) -> String {
    shortfall(decision).map_or_else(String::new, |told| format!(" [{told}]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_ended_nobody_does_not_read_like_an_eviction() {
        let survivors = json!({ "lastProcessGoneSeconds": null, "survivors": [{ "pid": 7 }] });
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
                "FAILED: processes that outlive SIGKILL: 1",
                " [FAILED: processes that outlive SIGKILL: 1]",
            ),
        ] {
            assert_eq!(gone(&decision), told);
            assert_eq!(remark(&decision), remarked);
        }
    }
}
