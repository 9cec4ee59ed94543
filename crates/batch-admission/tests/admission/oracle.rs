//! What Volcano ed72c7c8 answered: whether it lets in, its words and its changes, exactly.

use evictd_batch_admission::Question;
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn every_answer_of_the_real_webhook() {
    check("webhook", 44);
}

#[test]
fn every_answer_of_the_real_webhook_about_cron_jobs_flows_and_hyper_nodes() {
    check("webhook-more", 14);
}

fn check(folder: &str, least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/oracle")
        .join(folder);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let question: Question = serde_json::from_value(case["input"].clone()).unwrap();
        let own = json!(question.answer_of_volcano().unwrap());
        let mut expected = case["expected"].clone();
        // An empty message is none.
        if expected["message"] == "" {
            expected.as_object_mut().unwrap().remove("message");
        }
        if own != expected {
            let name = path.file_name().unwrap().display().to_string();
            wrong.push(format!("{name}: {own}, expected {expected}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{count} cases\n{}", wrong.join("\n"));
    assert!(count >= least, "{count} cases");
}
