//! What Volcano ed72c7c8 answered: whether it lets in, its words and its changes, exactly.

use evictd_batch_admission::Question;
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn every_answer_of_the_real_webhook() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/webhook");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let question: Question = serde_json::from_value(case["input"].clone()).unwrap();
        let own = json!(question.answer_of_volcano().unwrap());
        if own != case["expected"] {
            let name = path.file_name().unwrap().display().to_string();
            wrong.push(format!("{name}: {own}, expected {}", case["expected"]));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{count} cases\n{}", wrong.join("\n"));
    assert!(count >= 44, "{count} cases");
}
