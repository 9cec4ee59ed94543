//! Whatever happens to the queue in whatever order, it is told of each step what became of it, or why the file is wrong.
#![no_main]

use evictd_scheduling::simulation::{Timeline, run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Ok(timeline) = serde_json::from_slice::<Timeline>(text) else {
        return;
    };
    let steps = timeline.steps.len();
    match run(timeline) {
        Err(mistakes) => assert!(mistakes.iter().all(|own| !own.field.is_empty())),
        Ok(outcome) => assert_eq!(outcome.steps.len(), steps),
    }
});
