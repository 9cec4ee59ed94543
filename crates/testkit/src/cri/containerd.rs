//! A real containerd with a root, a state directory and a socket of its own.

use super::image::{self, PROGRAM};
use super::{cleanup, driver, wire};
use crate::testing::{PAUSE, left_out};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Of which the sandboxes of the private containerd are made.
const SANDBOX_IMAGE: &str = "evictd.test/sandbox:1";

/// The variable that names the socket of another runtime, for the same tests.
const GIVEN: &str = "EVICTD_CRI_SOCKET";

/// A containerd that ends with everything that it started when this is dropped, or the one that `EVICTD_CRI_SOCKET` names.
/// There only objects of this test are removed.
#[derive(Debug)]
pub struct Containerd {
    directory: tempfile::TempDir,
    socket: PathBuf,
    child: Option<Child>,
    /// Of all control groups.
    group: String,
    pods: Vec<String>,
    images: Vec<String>,
}

/// A pod that was made.
#[derive(Debug, Clone)]
pub struct Pod {
    /// Of its sandbox.
    pub id: String,
    config: wire::SandboxConfig,
}

impl Containerd {
    /// Starts it, or says on stderr why this test is left out.
    pub fn start(test: &str) -> Option<Self> {
        Self::start_below(test, &std::env::temp_dir())
    }

    /// The same with its root, its state and its socket in a new directory in this one.
    pub fn start_below(test: &str, directory: &Path) -> Option<Self> {
        let given = std::env::var_os(GIVEN).map(PathBuf::from);
        let missing = || {
            let programs = ["containerd", "runc", "ctr", "containerd-shim-runc-v2"];
            programs.into_iter().find(|program| !on_path(program))
        };
        let why = if given.is_none() && !Uid::effective().is_root() {
            Some("only root starts containers".to_owned())
        } else if let (None, Some(program)) = (&given, missing()) {
            Some(format!("no {program}"))
        } else if !Path::new(PROGRAM).exists() {
            Some(format!("no {PROGRAM}, from busybox-static"))
        } else {
            None
        };
        let started = match why {
            None => Self::open(given, directory).map_err(|error| error.to_string()),
            Some(why) => Err(why),
        };
        started.map_err(|why| left_out(test, why)).ok()
    }

    fn open(given: Option<PathBuf>, below: &Path) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::Builder::new()
            .prefix("evictd-cri-")
            .tempdir_in(below)?;
        let starts = given.is_none();
        let mut containerd = Self {
            socket: given.unwrap_or_else(|| directory.path().join("containerd.sock")),
            directory,
            child: None,
            // Pods are found below a group that is named as a kubelet names it.
            group: format!("evictd-cri-{}-{number}-kubepods.slice", std::process::id()),
            pods: Vec::new(),
            images: Vec::new(),
        };
        if starts {
            containerd.configure()?;
            containerd.spawn()?;
            containerd.image(SANDBOX_IMAGE, 0)?;
        }
        Ok(containerd)
    }

    fn configure(&self) -> io::Result<()> {
        let at = self.directory.path().display();
        let config = format!(
            r#"version = 2
root = "{at}/root"
state = "{at}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "{at}/containerd.sock"
[ttrpc]
  address = "{at}/containerd.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{SANDBOX_IMAGE}"
  stream_server_port = "0"
  stats_collect_period = 1
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  Root = "{at}/runc"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{at}/cni/bin"
  conf_dir = "{at}/cni/conf"
"#
        );
        fs::write(self.directory.path().join("config.toml"), config)
    }

    fn spawn(&mut self) -> io::Result<()> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.directory.path().join("log"))?;
        let child = Command::new("containerd")
            .arg("--config")
            .arg(self.directory.path().join("config.toml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.child = Some(child);
        self.until("containerd answers", || {
            UnixStream::connect(&self.socket)?;
            super::grpc::call::<wire::Empty>(&self.socket, "Version", &wire::Empty {})
        })?;
        Ok(())
    }

    /// Tries for 20 s.
    fn until<T>(&self, what: &str, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(error) if Instant::now() > deadline => {
                    let log = fs::read_to_string(self.directory.path().join("log"));
                    let log = log.unwrap_or_default();
                    let last: Vec<_> = log.lines().rev().take(5).collect();
                    return Err(io::Error::other(format!(
                        "waited 20 s in vain until {what}: {error}\n{}",
                        last.join("\n")
                    )));
                }
                Err(_) => std::thread::park_timeout(PAUSE),
            }
        }
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether it is the private one, which may be stopped and killed.
    pub fn is_own(&self) -> bool {
        self.child.is_some()
    }

    /// Imports an image with a static busybox and so many bytes of ballast under this name, `evictd.test/a:1`.
    pub fn image(&mut self, name: &str, bytes: usize) -> io::Result<()> {
        image::import(&self.socket, self.directory.path(), name, bytes)?;
        self.images.push(name.to_owned());
        Ok(())
    }

    /// The name of the control group that has those of its containers, in every hierarchy.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Makes a pod in the namespace `default`.
    pub fn pod(&mut self, name: &str) -> io::Result<Pod> {
        let uid = format!("{:08}-{name}", self.pods.len());
        let logs = self.directory.path().join("logs").join(&uid);
        self.pod_of(("default", name, &uid), &logs)
    }

    /// Makes the pod with this namespace, name and UID, whose logs are in this directory.
    pub fn pod_of(&mut self, pod: (&str, &str, &str), logs: &Path) -> io::Result<Pod> {
        let pod = self.sandbox(pod, logs)?;
        self.pods.push(pod.id.clone());
        Ok(pod)
    }

    /// Makes these pods, each with a container `main`, some at a time: namespace, name, UID and directory of logs.
    pub fn crowd(
        &mut self,
        pods: &[(String, String, String, PathBuf)],
        image: &str,
        command: &[&str],
    ) -> io::Result<()> {
        const AT_A_TIME: usize = 4;
        let make_one = |(namespace, name, uid, logs): &(String, String, String, PathBuf)| {
            let pod = self.sandbox((namespace, name, uid), logs)?;
            self.container(&pod, ("main", 0), image, command)?;
            Ok(pod.id)
        };
        let results: Vec<io::Result<String>> = std::thread::scope(|scope| {
            let make_all = |some: &[_]| some.iter().map(make_one).collect::<Vec<_>>();
            let chunks = pods.chunks(pods.len().div_ceil(AT_A_TIME).max(1));
            let threads: Vec<_> = chunks
                .map(|some| scope.spawn(move || make_all(some)))
                .collect();
            let joined = threads.into_iter().filter_map(|thread| thread.join().ok());
            joined.flatten().collect()
        });
        for id in results {
            self.pods.push(id?);
        }
        Ok(())
    }

    fn sandbox(&self, pod: (&str, &str, &str), logs: &Path) -> io::Result<Pod> {
        fs::create_dir_all(logs)?;
        let config = driver::sandbox(pod, format!("/{}/pod{}", self.group, pod.2), logs);
        // The runtime learns of an imported image from an event.
        let id = self.until("the sandbox runs", || driver::run(&self.socket, &config))?;
        Ok(Pod { id, config })
    }

    /// Starts a container and gives its id. `command` is run by busybox: `["sleep", "100"]`.
    pub fn container(
        &self,
        pod: &Pod,
        (name, attempt): (&str, u32),
        image: &str,
        command: &[&str],
    ) -> io::Result<String> {
        self.container_with(pod, (name, attempt), image, command, &[])
    }

    /// The same with directories of this machine in it: where from, and where to.
    pub fn container_with(
        &self,
        pod: &Pod,
        (name, attempt): (&str, u32),
        image: &str,
        command: &[&str],
        mounts: &[(&Path, &str)],
    ) -> io::Result<String> {
        let command: Vec<_> = [PROGRAM].iter().chain(command).copied().collect();
        let mount = |(from, to): &(&Path, &str)| wire::Mount {
            container_path: (*to).to_owned(),
            host_path: from.display().to_string(),
        };
        let mounts: Vec<_> = mounts.iter().map(mount).collect();
        let with: (i64, &[_]) = (64 << 20, &mounts);
        // As a kubelet does it.
        fs::create_dir_all(Path::new(&pod.config.log_directory).join(name))?;
        self.until("the container runs", || {
            let pod = (pod.id.as_str(), &pod.config);
            match driver::start(&self.socket, pod, (name, attempt), image, &command, with) {
                // It does not start again, so that waiting is in vain.
                Err(error) if has_ended(&error) => Ok(Err(error)),
                made => made.map(Ok),
            }
        })?
    }

    /// Ends and removes a pod.
    pub fn remove(&self, pod: &Pod) {
        driver::remove(&self.socket, &pod.id);
    }

    /// The names of all images.
    pub fn image_names(&self) -> io::Result<Vec<String>> {
        let nothing = wire::Empty {};
        let list: wire::Images = super::grpc::call(&self.socket, "ListImages", &nothing)?;
        Ok(list
            .items
            .into_iter()
            .flat_map(|one| one.repo_tags)
            .collect())
    }

    /// Pins an image, so that it is not removed. containerd has pins from 1.7 on; returns whether it is pinned.
    pub fn pin(&self, name: &str) -> io::Result<bool> {
        let label = "io.cri-containerd.pinned=pinned";
        image::run(image::images(&self.socket, "label").args([name, label]))?;
        let nothing = wire::Empty {};
        let version: wire::VersionResponse = super::grpc::call(&self.socket, "Version", &nothing)?;
        let mut parts = version.runtime_version.trim_start_matches('v').split('.');
        let mut part = || parts.next().and_then(|part| part.parse::<u32>().ok());
        if (part(), part()) < (Some(1), Some(7)) {
            return Ok(false);
        }
        self.until("the image is pinned", || {
            let list: wire::Images = super::grpc::call(&self.socket, "ListImages", &nothing)?;
            let is_it =
                |one: &wire::Image| one.pinned && one.repo_tags.iter().any(|tag| tag == name);
            let pinned = list.items.iter().any(is_it);
            pinned
                .then_some(true)
                .ok_or_else(|| io::Error::other("not yet"))
        })
    }

    /// Every container that it lists.
    pub fn containers(&self) -> io::Result<Vec<wire::Container>> {
        let nothing = wire::Empty {};
        let list: wire::Containers = super::grpc::call(&self.socket, "ListContainers", &nothing)?;
        Ok(list.items)
    }

    /// Sends a signal to the private containerd, but not to its shims: `SIGSTOP` freezes it.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let Some(child) = &self.child else {
            return Err(io::Error::other("it is not ours"));
        };
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        kill(Pid::from_raw(pid), signal)?;
        if signal == Signal::SIGSTOP {
            self.until("every thread has stopped", || stopped(pid))?;
        }
        Ok(())
    }

    /// Ends the private containerd at once; its containers go on.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again after [`Containerd::stop`].
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop();
        self.spawn()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let given = !self.socket.starts_with(self.directory.path());
        if self.child.is_some() {
            // It may be frozen.
            let _ = self.signal(Signal::SIGCONT);
        }
        // If the test stopped it, only force is left.
        if given || self.child.is_some() {
            for id in &self.pods {
                driver::remove(&self.socket, id);
            }
        }
        if given && !self.images.is_empty() {
            let _ = image::run(image::images(&self.socket, "remove").args(&self.images));
        }
        self.stop();
        cleanup::clean(self.directory.path(), &self.group);
    }
}

/// An error while a thread of this process still runs: a signal stops one after the other.
fn stopped(pid: i32) -> io::Result<()> {
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = fs::read_to_string(task?.path().join("stat"))?;
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
        if !state.is_some_and(|state| state.starts_with('T')) {
            return Err(io::Error::other(stat));
        }
    }
    Ok(())
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Whether a call failed because the pod's sandbox has ended.
pub fn has_ended(error: &io::Error) -> bool {
    error.to_string().contains("no running task found")
}
