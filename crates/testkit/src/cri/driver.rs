//! Makes pods and containers, which the client that is tested cannot.

use super::grpc::call;
use super::wire;
use std::io;
use std::path::Path;

/// The namespaces of the node, but one of its own for processes: so no network plugin is needed.
fn namespaces() -> wire::NamespaceOption {
    const CONTAINER: i32 = 1;
    const NODE: i32 = 2;
    wire::NamespaceOption {
        network: NODE,
        pid: CONTAINER,
        ipc: NODE,
    }
}

fn labels(pod: &wire::SandboxMetadata) -> wire::Words {
    let labels = [
        ("io.kubernetes.pod.name", &pod.name),
        ("io.kubernetes.pod.namespace", &pod.namespace),
        ("io.kubernetes.pod.uid", &pod.uid),
    ];
    labels
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .into()
}

/// A pod's sandbox, as a kubelet describes it. `cgroup_parent` is a path, or with systemd's driver a slice.
pub fn sandbox(
    (namespace, name, uid): (&str, &str, &str),
    cgroup_parent: String,
    logs: &Path,
) -> wire::SandboxConfig {
    let metadata = wire::SandboxMetadata {
        name: name.to_owned(),
        uid: uid.to_owned(),
        namespace: namespace.to_owned(),
        attempt: 0,
    };
    wire::SandboxConfig {
        labels: labels(&metadata),
        annotations: [("evictd.test/made-by".to_owned(), "driver".to_owned())].into(),
        metadata: Some(metadata),
        log_directory: logs.display().to_string(),
        linux: Some(wire::LinuxSandboxConfig {
            cgroup_parent,
            security: Some(wire::SandboxSecurity {
                namespaces: Some(namespaces()),
            }),
        }),
        ..Default::default()
    }
}

/// Makes and starts a pod's sandbox, and gives its id.
pub fn run(socket: &Path, config: &wire::SandboxConfig) -> io::Result<String> {
    let request = wire::RunSandboxRequest {
        config: Some(config.clone()),
    };
    call::<wire::ById>(socket, "RunPodSandbox", &request).map(|answer| answer.id)
}

/// Makes and starts a container, and gives its id.
pub fn start(
    socket: &Path,
    (id, sandbox): (&str, &wire::SandboxConfig),
    (name, attempt): (&str, u32),
    image: &str,
    command: &[&str],
    (memory_limit, mounts): (i64, &[wire::Mount]),
) -> io::Result<String> {
    let pod = sandbox.metadata.clone().unwrap_or_default();
    let mut labels = labels(&pod);
    labels.insert("io.kubernetes.container.name".to_owned(), name.to_owned());
    let resources = wire::LinuxResources {
        memory_limit_in_bytes: memory_limit,
        ..Default::default()
    };
    let config = wire::ContainerConfig {
        metadata: Some(wire::ContainerMetadata {
            name: name.to_owned(),
            attempt,
        }),
        image: Some(wire::ImageSpec {
            image: image.to_owned(),
        }),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        labels,
        mounts: mounts.to_vec(),
        log_path: format!("{name}/{attempt}.log"),
        linux: Some(wire::LinuxContainerConfig {
            resources: Some(resources),
            security: Some(wire::ContainerSecurity {
                namespaces: Some(namespaces()),
            }),
        }),
        ..Default::default()
    };
    let request = wire::CreateContainerRequest {
        sandbox_id: id.to_owned(),
        config: Some(config),
        sandbox_config: Some(sandbox.clone()),
    };
    let made = call::<wire::ById>(socket, "CreateContainer", &request)?;
    call::<wire::Empty>(socket, "StartContainer", &made)?;
    Ok(made.id)
}

/// Ends and removes a pod, whatever state it is in.
pub(crate) fn remove(socket: &Path, id: &str) {
    let id = wire::ById { id: id.to_owned() };
    for step in ["StopPodSandbox", "RemovePodSandbox"] {
        let _ = call::<wire::Empty>(socket, step, &id);
    }
}
