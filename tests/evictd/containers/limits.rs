//! Limits of pods on local storage that real containers exceed: in a volume, and in a log.

use super::{APP, Site, plain, scratch};
use crate::daemon::names;
use serde_json::{Value, json};

#[test]
fn s1_069_s1_071_a_volume_and_a_log_over_their_limits_cost_their_pods_and_nobody_else() {
    let Some(mut site) = Site::new("a_volume_and_a_log_over_their_limits") else {
        return;
    };
    let limited = |name: &str, limit: &str| json!({ "name": name, "image": APP, "resources": { "limits": { "ephemeral-storage": limit } } });
    // The limit of the whole pod is not reached.
    let two = json!([limited("main", "2Mi"), limited("side", "20Mi")]);
    let fills = site.pod("fills", &plain(), &scratch(&json!("2Mi")));
    let talks = site.pod("talks", &two, &scratch(&Value::Null));
    let fine = site.pod("fine", &two, &scratch(&json!("2Mi")));
    let ends = site.pod(
        "ends",
        &json!([limited("main", "10Mi")]),
        &scratch(&Value::Null),
    );
    let write = |mebibytes: u32| {
        format!("dd if=/dev/zero of=/scratch/data bs=1M count={mebibytes}; exec sleep 1000")
    };
    let talk = |bytes: u32| format!("yes 'a line of a log' | head -c {bytes}; exec sleep 1000");
    let fills = site.run(&fills, &write(3));
    let talks = site.run(&talks, &talk(4 << 20));
    // Where the kubelet keeps /dev/termination-log of the container.
    let kept = site
        .kubelet()
        .join("pods")
        .join(&ends.uid)
        .join("containers/main");
    std::fs::create_dir_all(&kept).unwrap();
    let script = "dd if=/dev/zero of=/kept/log bs=1M count=30; exec sleep 1000";
    let mounts: [(&std::path::Path, &str); 1] = [(&kept, "/kept")];
    let command = ["sh", "-c", script];
    let ends = site
        .containerd
        .container_with(&ends.pod, ("main", 0), APP, &command, &mounts);
    let ends = ends.unwrap();
    let modest = format!("yes 'a line' | head -c 100000; {}", write(1));
    let fine = site.run(&fine, &modest);
    let daemon = site.daemon(&[("memory.available", "1Mi")], "");
    let mut decisions = daemon.evicted(3);
    decisions.sort_by_key(|decision| decision["pod"].to_string());
    assert_eq!(names(&decisions), ["shop/ends", "shop/fills", "shop/talks"]);
    let expected = [
        (
            "ephemeralpodfs.limit",
            "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. ",
        ),
        (
            "emptydirfs.limit",
            "Usage of EmptyDir volume \"scratch\" exceeds the limit \"2Mi\". ",
        ),
        (
            "ephemeralcontainerfs.limit",
            "Container main exceeded its local ephemeral storage limit \"2Mi\". ",
        ),
    ];
    // The kubelet's sentence, and then what was measured.
    for (decision, (signal, words)) in decisions.iter().zip(expected) {
        let message = decision["message"].as_str().unwrap();
        assert_eq!(decision["signal"], signal);
        assert!(message.starts_with(words), "{message}");
    }
    daemon.eventually("the runtime knows of all ends", |_| {
        [&ends, &fills, &talks].iter().all(|one| !site.lives(one))
    });
    daemon.some_turns_pass();
    assert!(site.lives(&fine));
    assert_eq!(daemon.evictions().len(), 3);
    // The API server is told in the same words.
    for (pod, (_, words)) in ["ends", "fills", "talks"].iter().zip(expected) {
        let told = site.cluster.admin.get("pods", &format!("shop/{pod}"));
        let told = told.unwrap();
        assert_eq!(told["status"]["reason"], "Evicted");
        let message = told["status"]["message"].as_str().unwrap();
        assert!(message.starts_with(words), "{message}");
    }
}
