//! The pods of a round: their processes, cgroups and manifests.

use evictd_demo::Node;
use std::{
    env, fs,
    io::{Read, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// The cgroup of all pods; only a cgroup of such a name contains pods.
pub(crate) const PODS: &str = "kubepods";
/// The number of the hog; other pods have others.
pub(crate) const HOG: u32 = 4;

pub(crate) fn program() -> PathBuf {
    env::var_os("EVICTD_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_evictd").into(), Into::into)
}

pub(crate) fn uid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// The name of a pod's cgroup, as a kubelet has it.
pub(crate) fn group_of(number: u32) -> String {
    format!("{PODS}/pod{}", uid(number))
}

/// Starts a pod's process, and writes its manifest once it holds its memory. It has an emptyDir `data`.
pub(crate) fn enter(node: &mut Node, number: u32, role: &[&str]) -> Child {
    let cgroup = node.pod(&group_of(number)).expect("a pod's cgroup is made");
    let mut child = Command::new(program())
        .arg("worker")
        .args(role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the worker starts");
    node.enter(&cgroup, child.id())
        .expect("it enters its cgroup");
    let stdin = child.stdin.as_mut().expect("its input is a pipe");
    stdin.write_all(b"\n").expect("the worker listens");
    let stdout = child.stdout.as_mut().expect("its output is a pipe");
    stdout.read_exact(&mut [0]).expect("it holds its memory");
    // A Guaranteed pod's cgroup has no class above it.
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: pod-{number}, namespace: bench, uid: {}}}\n\
         spec:\n  volumes: [{{name: data, emptyDir: {{}}}}]\n  containers: [{{name: main, image: bench, resources: {{limits: {{cpu: 1, memory: 16Mi}}}}}}]\n",
        uid(number),
    );
    let file = format!("manifests/{number}.yaml");
    let file = node.directory.join(file);
    fs::write(file, manifest).expect("the manifest is written");
    child
}

/// Ends these processes, also where they were ended before.
pub(crate) fn end<'a>(children: impl Iterator<Item = &'a mut Child>) {
    for child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
}
