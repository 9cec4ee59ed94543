//! The admission policies of cron jobs and flows, beside the webhook.

use crate::rules::check;
use serde_json::{Value, json};

#[test]
fn s6_246_cron_jobs_and_flows_keep_their_form_without_the_webhook() {
    let null = json!(null);
    let longest = "n".repeat(52);
    let longer = "n".repeat(53);
    let schedule = |text: &str| json!({"schedule": text});
    let zone = |zone: &str| json!({"schedule": "0 3 * * *", "timeZone": zone});
    let not_valid = "schedule is not a valid cron expression";
    let cases: [(&str, Value, &[&str]); 16] = [
        ("a", schedule("*/5 0-6,8 ? jan,FEB mon-fri"), &[]),
        (&longest, schedule("@every 90m"), &[]),
        ("a", schedule("@daily"), &[]),
        ("a", schedule(" 0  3 * * * "), &[]),
        ("a", schedule("0\t3 * *\t*"), &[]),
        ("a", schedule("0 3 * * *\n"), &[]),
        ("a", zone("America/Argentina/Buenos_Aires"), &[]),
        ("a", zone("Etc/GMT+5"), &[]),
        ("a", schedule("0 3 * *"), &[not_valid]),
        ("a", schedule("0 0 3 * * *"), &[not_valid]),
        ("a", schedule("@fortnightly"), &[not_valid]),
        ("a", schedule("often"), &[not_valid]),
        (
            "a",
            schedule("CRON_TZ=UTC 0 3 * * *"),
            &[
                "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
            ],
        ),
        (
            "a",
            zone(""),
            &["timeZone must be nil or non-empty string, got empty string"],
        ),
        (
            "a",
            zone("local"),
            &["timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"],
        ),
        (
            &longer,
            schedule("@daily"),
            &[
                "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)",
            ],
        ),
    ];
    for (name, spec, expected) in cases {
        let object = json!({"metadata": {"name": name, "namespace": "ml"}, "spec": spec});
        for (operation, old) in [
            ("CREATE", &null),
            ("UPDATE", &json!({"metadata": {"name": name}, "spec": {}})),
        ] {
            let change = (&object, old);
            check(
                "cronjobs",
                "/cronjobs/validate",
                operation,
                change,
                expected,
            );
        }
    }
    let unknown = json!({"metadata": {"name": "a"}, "spec": zone("../etc/passwd x")});
    check(
        "cronjobs",
        "/cronjobs/validate",
        "CREATE",
        (&unknown, &null),
        &["unknown timeZone"],
    );
    let flow = |targets: Value| {
        json!({"metadata": {"name": "f"}, "spec": {"flows": [
            {"name": "a"}, {"name": "b", "dependsOn": {"targets": targets}}]}})
    };
    let change = (&flow(json!(["a"])), &null);
    check("jobflows", "/jobflows/validate", "CREATE", change, &[]);
    let change = (&flow(json!(["a", "b"])), &null);
    check(
        "jobflows",
        "/jobflows/validate",
        "CREATE",
        change,
        &["jobflow Flow is not DAG"],
    );
}
