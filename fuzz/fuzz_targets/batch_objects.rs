//! Whatever is taken for a question to the webhook, a step of the controllers or a configuration of sessions is answered, and the
//! same twice; whatever is not is told why.
#![no_main]

use evictd_batch_admission::Question;
use evictd_batch_objects::Compat;
use evictd_batch::conf::Conf;
use evictd_batch_jobs::reconcile::{JobCase, QueueCase};
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;

/// Asks twice what a document comes to, if it is one of this kind.
fn ask<Asked: DeserializeOwned, Answer: Serialize, Refusal: Display>(
    text: &str,
    answer: impl Fn(&Asked) -> Result<Answer, Refusal>,
) {
    let Ok(asked) = serde_json::from_str::<Asked>(text) else {
        return;
    };
    let answered = || match answer(&asked) {
        Ok(answer) => serde_json::to_string(&answer).expect("JSON"),
        Err(refusal) => refusal.to_string(),
    };
    let told = answered();
    assert!(!told.is_empty());
    assert_eq!(told, answered());
}

fuzz_target!(|text: &str| {
    ask(text, Question::answer);
    for compat in [Compat::EVICTD, Compat::VOLCANO] {
        ask(text, |job: &JobCase| job.answer(compat, Timestamp::UNIX_EPOCH));
    }
    ask(text, QueueCase::answer);
    match Conf::read(text) {
        Ok(conf) => assert!(conf.warnings.iter().all(|warning| !warning.message.is_empty())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
