//! Whatever is taken for a configuration can be printed, read again and means the same; whatever is not is told why.
#![no_main]

use evictd_node_config::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match parse("fuzz.yaml", text) {
        Err(refused) => assert!(!refused.to_string().is_empty()),
        Ok(loaded) => {
            let printed = loaded.effective.to_yaml();
            let again = parse("printed.yaml", &printed)
                .unwrap_or_else(|refused| panic!("{refused}\n{printed}"));
            assert_eq!(again.effective.rules(), loaded.effective.rules());
        }
    }
});
