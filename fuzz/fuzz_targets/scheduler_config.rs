//! Whatever is taken for a configuration of the scheduler can be printed, read again and means the same; whatever is not is
//! told why.
#![no_main]

use evictd_document::Document;
use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration};
use libfuzzer_sys::fuzz_target;

fn read(text: &str) -> Result<Configuration, String> {
    let document = Document::new("fuzz.yaml", text.to_owned()).map_err(|error| error.to_string())?;
    let wire: KubeSchedulerConfiguration = document.parse().map_err(|error| error.to_string())?;
    Configuration::new(&wire, &[]).map_err(|mistakes| {
        let fields = mistakes.into_iter().map(|own| (own.field, own.message));
        document.wrong_fields(fields).to_string()
    })
}

fuzz_target!(|text: &str| {
    match read(text) {
        Err(told) => assert!(!told.is_empty()),
        Ok(config) => {
            let printed = config.to_json().to_string();
            let again = read(&printed).unwrap_or_else(|told| panic!("{told}\n{printed}"));
            assert_eq!(again, config);
        }
    }
});
