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

/// Containers that have ended, with their exit codes.
pub fn ended(socket: &Path) -> io::Result<Vec<(String, i32)>> {
    const EXITED: i32 = 2;
    let list: wire::Containers = call(socket, "ListContainers", &wire::Empty {})?;
    let mut ended = Vec::new();
    for container in list.items {
        if container.state == EXITED {
            let id = wire::ById { id: container.id };
            let answer: wire::ContainerStatusResponse = call(socket, "ContainerStatus", &id)?;
            let code = answer.status.map_or(0, |status| status.exit_code);
            ended.push((id.id, code));
        }
    }
    Ok(ended)
}

/// Asks a container to end, and ends it after so many seconds.
pub fn stop(socket: &Path, id: &str, seconds: i64) -> io::Result<()> {
    let request = wire::StopContainerRequest {
        id: id.to_owned(),
        timeout: seconds,
    };
    call::<wire::Empty>(socket, "StopContainer", &request).map(|_| ())
}

/// Ends all that runs in a pod; its containers are still listed.
pub fn stop_pod(socket: &Path, id: &str) -> io::Result<()> {
    let id = wire::ById { id: id.to_owned() };
    call::<wire::Empty>(socket, "StopPodSandbox", &id).map(|_| ())
}

/// Ends and removes a pod, whatever state it is in.
pub(crate) fn remove(socket: &Path, id: &str) {
    let id = wire::ById { id: id.to_owned() };
    for step in ["StopPodSandbox", "RemovePodSandbox"] {
        let _ = call::<wire::Empty>(socket, step, &id);
    }
}
