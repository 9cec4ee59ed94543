//! Pods of whatever shape that come to a cluster of whatever objects are placed on a node that is there, or told why not; or the
//! file is wrong and says where.
#![no_main]

use evictd_scheduling::simulation::{SequenceFile, run_sequence};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Ok(file) = serde_json::from_slice::<SequenceFile>(text) else {
        return;
    };
    let outcome = file
        .read(jiff::Timestamp::UNIX_EPOCH)
        .and_then(|sequence| run_sequence(&sequence, &mut |_, _| {}));
    match outcome {
        Err(mistakes) => assert!(mistakes.iter().all(|own| !own.field.is_empty())),
        Ok(outcome) => {
            for (pod, node) in &outcome.placed {
                let is_there = outcome.nodes.iter().any(|own| own.name == *node);
                assert!(is_there, "{pod} is on {node}");
            }
        }
    }
});
