//! Whatever is taken for the input of a batch session comes to an end, and to the same one twice; whatever is not is told why.
#![no_main]

use evictd_batch_objects::Compat;
use evictd_batch::session::{Objects, Setting, simulate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(objects) = serde_json::from_str::<Objects>(text) else {
        return;
    };
    let run = || match simulate(&objects, &Setting::default(), Compat::EVICTD) {
        Ok((outcome, warnings)) => (serde_json::to_string(&outcome).ok(), warnings),
        Err(error) => (None, vec![error.to_string()]),
    };
    assert_eq!(run(), run());
});
