//! The unit and what it grants.

use evictd_testkit::testing::left_out;
use std::{fs, path::Path, process::Command};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

#[test]
fn the_unit_is_closed_to_all_that_it_does_not_need() {
    let name = "the_unit_is_closed_to_all_that_it_does_not_need";
    let scratch = tempfile::tempdir().unwrap();
    let unit = scratch.path().join("evictd.service");
    // The program need not be installed for this.
    let text = read("systemd/evictd.service").replace("/usr/bin/evictd run", "/bin/true");
    fs::write(&unit, text).unwrap();
    let judged = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=20", "--no-pager"])
        .arg(&unit)
        .env("SYSTEMD_COLORS", "0")
        .output();
    let Ok(judged) = judged else {
        return left_out(name, "there is no systemd-analyze");
    };
    let (shown, errors) = (
        String::from_utf8_lossy(&judged.stdout),
        String::from_utf8_lossy(&judged.stderr),
    );
    assert!(judged.status.success(), "above 2.0:\n{shown}{errors}");
    // What this systemd does not know it says here, as it would in the journal of every node.
    assert!(!errors.contains("Unknown"), "{errors}");
}

#[test]
fn every_capability_of_the_unit_is_explained_by_code_that_is_there() {
    let unit = read("systemd/evictd.service");
    let granted = |key: &str| -> Vec<String> {
        let line = unit
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap();
        line.split(' ').map(str::to_owned).collect()
    };
    let bounding = granted("CapabilityBoundingSet=");
    assert_eq!(bounding, granted("AmbientCapabilities="));
    for capability in &bounding {
        assert!(unit.contains(&format!("\n# {capability} ")), "{capability}");
    }
    let comments = unit
        .lines()
        .filter(|line| line.starts_with("# CAP_") || line.starts_with("#   "));
    for comment in comments {
        for file in comment
            .split(['(', ')'])
            .filter(|word| word.starts_with("src/"))
        {
            assert!(Path::new(ROOT).join(file).exists(), "{file}");
        }
    }
}
