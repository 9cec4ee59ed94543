//! Pods as a real kubelet 1.36.2 reports them, with its own answers beside them.
#![allow(clippy::unwrap_used, reason = "tests")]

use evictd_pod::Pod;
use serde_json::Value;
use std::{fs, path::Path};

/// The real pods among the fuzzer's kept inputs.
fn pods() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/pod_manifest");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let real = files.filter(|file| file.file_name().to_string_lossy().starts_with("real-"));
    real.map(|file| serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap())
        .collect()
}

fn read(pod: &Value) -> Pod {
    Pod::from_wire(serde_json::from_value(pod.clone()).unwrap())
}

#[test]
fn s2_025_the_class_we_work_out_is_the_one_the_kubelet_reports() {
    let mut classes = Vec::new();
    for mut pod in pods() {
        let reported = pod["status"]["qosClass"].take();
        assert_eq!(
            read(&pod).qos.as_str(),
            reported,
            "{}",
            pod["metadata"]["name"]
        );
        classes.push(reported);
    }
    classes.sort_by_key(ToString::to_string);
    classes.dedup();
    assert_eq!(classes.len(), 3, "one of each class at least");
}

#[test]
fn s1_046_s1_063_s1_068_sources_priorities_and_resizes_are_read_from_pods() {
    for pod in pods() {
        let read = read(&pod);
        let first = &pod["spec"]["containers"][0]["resources"]["requests"]["memory"];
        assert_eq!(
            read.memory_request.to_string(),
            first.as_str().unwrap_or("0")
        );
        assert_eq!(read.critical, None, "its source is the API");
        assert_eq!(read.priority(), 0);
        assert!(!read.terminal);
        assert_eq!(read.uid, pod["metadata"]["uid"].as_str().unwrap());
        let id = read.containers[0].id.as_deref().unwrap();
        assert_eq!(id.len(), 64);
        let local: Vec<_> = read.volumes.iter().filter(|volume| volume.local).collect();
        assert_eq!(
            local.len(),
            usize::from(read.name == "bu"),
            "projected tokens are not local"
        );
    }
}
