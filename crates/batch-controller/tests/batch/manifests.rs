//! What is generated is what lies in `packaging`.

use crate::batch;
use evictd_testkit::program::{self, page};
use std::fs;
use std::path::Path;

#[test]
fn the_packaged_manifests_are_those_that_the_program_prints() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/batch");
    for (command, file) in [("crds", "definitions.yaml"), ("policies", "policies.yaml")] {
        let printed = page(&program::run(batch().arg(command), ""));
        let packaged = fs::read_to_string(folder.join(file)).unwrap();
        assert!(
            printed == packaged,
            "{file} is out of date: evictd-batch {command} > packaging/kubernetes/batch/{file}"
        );
    }
}
