//! Containers of a real runtime that is asked by CRI, with `emptyDir` volumes as a kubelet makes and removes them.

use super::processes::Driver;
use super::runtime::{Exits, Runtime};
use crate::cri::{driver, wire};
use nix::mount::{MsFlags, mount, umount};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

const LOGS: &str = "/var/log/pods";
/// How often it looks which containers have ended, as a kubelet does.
const PERIOD: Duration = Duration::from_secs(1);

/// Runs pods of one container each. A dead container stays until it is removed, as with a kubelet; its pod's
/// volumes do not.
#[derive(Debug)]
pub struct CriContainers {
    socket: PathBuf,
    root: PathBuf,
    driver: Driver,
    running: Arc<Mutex<BTreeMap<String, Running>>>,
}

#[derive(Debug, Clone)]
struct Running {
    sandbox: String,
    volumes: PathBuf,
    exits: Exits,
}

impl CriContainers {
    /// `root` is the kubelet's root directory, below which it keeps volumes; the driver must be the runtime's.
    pub fn start(
        socket: impl Into<PathBuf>,
        root: impl Into<PathBuf>,
        driver: Driver,
    ) -> io::Result<Self> {
        let containers = Self {
            socket: socket.into(),
            root: root.into(),
            driver,
            running: Arc::default(),
        };
        let (socket, running) = (
            containers.socket.clone(),
            Arc::downgrade(&containers.running),
        );
        std::thread::Builder::new()
            .name("containers".to_owned())
            .spawn(move || watch(&socket, &running))?;
        Ok(containers)
    }

    /// Makes the pod's volumes; a container's mounts.
    fn volumes(&self, pod: &Value, container: &Value) -> io::Result<(PathBuf, Vec<wire::Mount>)> {
        let place = self.root.join("pods").join(text(&pod["metadata"]["uid"]));
        let container_dir = place.join("containers").join(text(&container["name"]));
        fs::create_dir_all(container_dir)?;
        let volumes = place.join("volumes/kubernetes.io~empty-dir");
        for volume in list(&pod["spec"]["volumes"]) {
            let directory = volumes.join(text(&volume["name"]));
            fs::create_dir_all(&directory)?;
            if volume["emptyDir"]["medium"] == "Memory" {
                let size = bytes(&volume["emptyDir"]["sizeLimit"]);
                mount_tmpfs(&directory, size)?;
            }
        }
        let mounts = list(&container["volumeMounts"])
            .map(|mount| wire::Mount {
                container_path: text(&mount["mountPath"]),
                host_path: volumes.join(text(&mount["name"])).display().to_string(),
            })
            .collect();
        Ok((volumes, mounts))
    }

    fn with<T>(&self, id: &str, act: impl FnOnce(Running) -> T) -> Option<T> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let found = running.get(id).cloned();
        drop(running);
        found.map(act)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// An amount in Mi or in bytes; others do not occur here.
fn bytes(amount: &Value) -> Option<i64> {
    let text = amount.as_str()?;
    match text.strip_suffix("Mi") {
        Some(mebibytes) => mebibytes.parse::<i64>().ok()?.checked_mul(1 << 20),
        None => text.parse().ok(),
    }
}

fn mount_tmpfs(directory: &Path, size: Option<i64>) -> io::Result<()> {
    let options = size.map(|size| format!("size={size}"));
    let tmpfs = Some("tmpfs");
    mount(
        tmpfs,
        directory,
        tmpfs,
        MsFlags::empty(),
        options.as_deref(),
    )
    .map_err(Into::into)
}

impl Runtime for CriContainers {
    fn start(&mut self, pod: &Value, container: &Value, exits: &Exits) -> io::Result<String> {
        let metadata = &pod["metadata"];
        let [namespace, name, uid] = ["namespace", "name", "uid"].map(|key| text(&metadata[key]));
        let container_name = text(&container["name"]);
        let logs = Path::new(LOGS).join(format!("{namespace}_{name}_{uid}"));
        fs::create_dir_all(logs.join(&container_name))?;
        let (volumes, mounts) = self.volumes(pod, container)?;
        let mut levels = self.driver.levels(pod, "");
        levels.pop();
        let parent = match self.driver {
            Driver::Systemd => levels.pop().unwrap_or_default(),
            Driver::Cgroupfs => format!("/{}", levels.join("/")),
        };
        let config = driver::sandbox((&namespace, &name, &uid), parent, &logs);
        let sandbox = driver::run(&self.socket, &config)?;
        let limit = bytes(&container["resources"]["limits"]["memory"]).unwrap_or(0);
        let words: Vec<String> = ["command", "args"]
            .iter()
            .flat_map(|field| list(&container[*field]).map(text))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let id = driver::start(
            &self.socket,
            (&sandbox, &config),
            (&container_name, 0),
            &text(&container["image"]),
            &words,
            (limit, &mounts),
        )?;
        let running = Running {
            sandbox,
            volumes,
            exits: exits.clone(),
        };
        let mut all = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(id.clone(), running);
        Ok(id)
    }

    fn terminate(&mut self, id: &str) {
        let (socket, id) = (self.socket.clone(), id.to_owned());
        // The runtime answers only when the container has ended; the one after SIGTERM is this kubelet's `kill`.
        std::thread::spawn(move || driver::stop(&socket, &id, 3600));
    }

    fn kill(&mut self, id: &str) {
        // It may have ended by itself.
        let _ = self.with(id, |one| driver::stop_pod(&self.socket, &one.sandbox));
    }
}

/// Ends when the containers are dropped.
#[allow(
    clippy::disallowed_methods,
    reason = "it has a thread of its own, and CRI has no event that every runtime sends"
)]
fn watch(socket: &Path, running: &Weak<Mutex<BTreeMap<String, Running>>>) {
    while let Some(running) = running.upgrade() {
        for (id, code) in driver::ended(socket).unwrap_or_default() {
            let mut all = running.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(one) = all.remove(&id) else {
                continue;
            };
            drop(all);
            clear(socket, &one);
            // The kubelet may have stopped.
            let _ = one.exits.send((id, code));
        }
        drop(running);
        std::thread::sleep(PERIOD);
    }
}

/// The actions of a kubelet after the end of a pod.
fn clear(socket: &Path, one: &Running) {
    let _ = driver::stop_pod(socket, &one.sandbox);
    for volume in fs::read_dir(&one.volumes).into_iter().flatten().flatten() {
        // Only those in memory are mounted.
        let _ = umount(&volume.path());
        let _ = fs::remove_dir_all(volume.path());
    }
}
