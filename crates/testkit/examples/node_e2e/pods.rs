//! The pods of the suite.

use serde_json::{Value, json};

/// Where a pod's volume is mounted.
const MOUNT: &str = "/test-mnt";
/// The image of every pod: busybox.
pub(crate) const IMAGE: &str = "e2e/busybox:1";

/// What a pod writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Its container's writable layer.
    Layer,
    /// A volume on disk, with this limit in MiB.
    EmptyDir(Option<u32>),
    /// A volume in memory, with this limit in MiB.
    Memory(u32),
}

fn pod(name: &str, container: &str, command: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": crate::NAMESPACE},
        "spec": {
            "nodeName": crate::NODE, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": container, "image": IMAGE, "command": ["sh", "-c", command]}],
        },
    })
}

/// A pod that uses next to nothing.
pub(crate) fn innocent() -> Value {
    let mut pod = pod(
        "innocent-pod",
        "innocent-container",
        "while true; do sleep 5; done",
    );
    let amounts = json!({"memory": "50Mi", "ephemeral-storage": "50Mi"});
    pod["spec"]["containers"][0]["resources"] = json!({"requests": amounts, "limits": amounts});
    pod
}

/// A pod that repeats a command so often, with `i` counting, and then sleeps.
fn repeats(name: &str, times: u64, storage: Storage, command: &str) -> Value {
    let script = format!(
        "i=0; while [ $i -lt {times} ]; do {command} i=$(($i+1)); done; while true; do sleep 5; done"
    );
    let mut pod = pod(
        &format!("{name}-pod"),
        &format!("{name}-container"),
        &script,
    );
    let mebibytes = |limit: u32| format!("{limit}Mi");
    let volume = match storage {
        Storage::Layer => return pod,
        Storage::EmptyDir(None) => json!({}),
        Storage::EmptyDir(Some(limit)) => json!({"sizeLimit": mebibytes(limit)}),
        Storage::Memory(limit) => json!({"medium": "Memory", "sizeLimit": mebibytes(limit)}),
    };
    let spec = &mut pod["spec"];
    spec["volumes"] = json!([{"name": "test-volume", "emptyDir": volume}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "test-volume", "mountPath": MOUNT}]);
    pod
}

fn file(storage: Storage) -> String {
    match storage {
        Storage::Layer => "file".to_owned(),
        _ => format!("{MOUNT}/file"),
    }
}

/// A pod that creates so many empty files.
pub(crate) fn inodes(name: &str, files: u64, storage: Storage) -> Value {
    let touch = format!("touch {}${{i}}.txt;", file(storage));
    repeats(name, files, storage, &touch)
}

/// A pod that writes so many files of 1 MiB. A limit in MiB is its request for ephemeral storage, too.
pub(crate) fn disk(name: &str, files: u64, storage: Storage, limit: Option<u32>) -> Value {
    let write = format!(
        "dd if=/dev/urandom of={}${{i}} bs=1048576 count=1 2>/dev/null; sleep .1;",
        file(storage)
    );
    let mut pod = repeats(name, files, storage, &write);
    if let Some(limit) = limit {
        let amounts = json!({"ephemeral-storage": format!("{limit}Mi")});
        pod["spec"]["containers"][0]["resources"] = json!({"requests": amounts, "limits": amounts});
    }
    pod
}

/// A pod that starts so many processes.
pub(crate) fn processes(name: &str, number: u64) -> Value {
    repeats(
        name,
        number,
        Storage::Layer,
        "/bin/sleep 0.01; (/bin/sleep 3600)&",
    )
}

/// A pod that takes 12 MiB every `pause` seconds; with a limit in MiB, which is its request, too, up to 80 % of that.
pub(crate) fn memory(name: &str, container: &str, pause: u32, limit: Option<u32>) -> Value {
    let most = limit.map_or(u32::MAX, |limit| limit / 5 * 4);
    // Each piece is a string of its own. What awk begins with is some MiB.
    let script = format!(
        "exec awk 'BEGIN {{ p = sprintf(\"%1048575s\", \"\"); while (n + 12 <= {most}) {{ for (k = 0; k < 12; k++) \
         a[n++] = p k % 10; system(\"sleep {pause}\") }} while (1) system(\"sleep 5\") }}'"
    );
    let mut pod = pod(name, container, &script);
    if let Some(limit) = limit {
        let amounts = json!({"memory": format!("{limit}Mi")});
        pod["spec"]["containers"][0]["resources"] = json!({"requests": amounts, "limits": amounts});
    }
    pod
}

/// The same pod in the class of the suite with a high priority.
pub(crate) fn important(mut pod: Value) -> Value {
    pod["spec"]["priorityClassName"] = crate::HIGH_PRIORITY.into();
    pod
}

/// A pod that shows that one can be started.
pub(crate) fn late() -> Value {
    pod(
        "test-admit-pod",
        "test-admit-pod",
        "while true; do sleep 5; done",
    )
}
