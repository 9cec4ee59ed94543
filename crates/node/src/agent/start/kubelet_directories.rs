//! Finds where the kubelet keeps the files of pods.

use crate::config::{self, Effective};
use evictd_kernel::{cgroup::Hierarchies, kubelet::KubeletProcess, threads::Pool};
use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    time::Duration,
};
use tokio::time::timeout;

/// Where kubelets keep their files, and the logs of pods, if nothing else is said.
const ROOT: &str = "/var/lib/kubelet";
const LOGS: &str = "/var/log/pods";
/// A kubelet whose process hangs in the kernel holds up the start for no longer.
const PATIENCE: Duration = Duration::from_secs(1);
/// A configuration file that is longer is not read.
const LONGEST_FILE: u64 = 1 << 20;

/// Directories of the kubelet.
pub(super) struct KubeletDirectories {
    /// It has a directory for each pod in `pods`.
    pub(super) root: PathBuf,
    /// Why this one.
    pub(super) why_root: String,
    /// It has a directory for each pod.
    pub(super) logs: PathBuf,
    pub(super) why_logs: String,
}

/// From the configuration, else from the arguments of the running kubelet, else the kubelet's usual places.
pub(super) async fn find(
    config: &Effective,
    hierarchies: &Hierarchies,
    pod_roots: &[PathBuf],
) -> KubeletDirectories {
    let settings = &config.kubelet;
    let given = match (&settings.root_dir, &settings.pod_logs_dir) {
        (Some(_), Some(_)) => GivenDirectories::default(),
        _ => ask(config, hierarchies.clone(), pod_roots.to_owned()).await,
    };
    let choose = |configured: &Option<PathBuf>, given: Result<(PathBuf, String), String>, usual| {
        let configured = configured.clone();
        let configured = configured.map(|path| (path, "configured".to_owned()));
        configured.map_or(given, Ok).unwrap_or_else(|why| {
            let why = format!("the usual directory; {why}");
            (PathBuf::from(usual), why)
        })
    };
    let (root, why_root) = choose(&settings.root_dir, given.root, ROOT);
    let (logs, why_logs) = choose(&settings.pod_logs_dir, given.logs, LOGS);
    KubeletDirectories {
        root,
        why_root,
        logs,
        why_logs,
    }
}

/// The directories that the kubelet was given and their source, or why they are unknown.
struct GivenDirectories {
    root: Result<(PathBuf, String), String>,
    logs: Result<(PathBuf, String), String>,
}

impl GivenDirectories {
    fn nothing(why: &str) -> Self {
        Self {
            root: Err(why.to_owned()),
            logs: Err(why.to_owned()),
        }
    }
}

impl Default for GivenDirectories {
    fn default() -> Self {
        Self::nothing("the kubelet was not looked for")
    }
}

async fn ask(
    config: &Effective,
    hierarchies: Hierarchies,
    pod_roots: Vec<PathBuf>,
) -> GivenDirectories {
    let proc_root = config.roots.proc.clone();
    let looked = Pool::of_this_process().run(move || {
        let running = KubeletProcess::find_all(&proc_root, &hierarchies, &pod_roots);
        running.into_iter().map(read).collect::<Vec<_>>()
    });
    let Ok(looked) = looked else {
        return GivenDirectories::nothing("no thread is free to look for a kubelet");
    };
    // The file is parsed here, because that may need more stack than those threads have.
    match timeout(PATIENCE, looked).await {
        Ok(Ok(running)) => directories_of(&running),
        Ok(Err(_)) | Err(_) => {
            GivenDirectories::nothing("a kubelet's process or its files do not answer")
        }
    }
}

/// A kubelet, and the contents of its configuration file.
type Running = (KubeletProcess, io::Result<String>);

fn read(kubelet: KubeletProcess) -> Running {
    let mut text = String::new();
    let read = match &kubelet.config {
        Some(path) => File::open(path).and_then(|file| {
            let mut file = file.take(LONGEST_FILE);
            file.read_to_string(&mut text)
        }),
        None => Ok(0),
    };
    (kubelet, read.map(|_| text))
}

fn directories_of(running: &[Running]) -> GivenDirectories {
    let [(kubelet, text)] = running else {
        return GivenDirectories::nothing(match running {
            [] => "no kubelet runs",
            _ => "several kubelets run",
        });
    };
    let pid = kubelet.pid;
    let root = kubelet
        .root_dir
        .clone()
        .ok_or_else(|| format!("the kubelet (process {pid}) was started without --root-dir"));
    let root = root.map(|path| (path, format!("--root-dir of the kubelet, process {pid}")));
    let logs = match &kubelet.config {
        None => Err(format!(
            "the kubelet (process {pid}) was started without --config"
        )),
        Some(file) => pod_logs_dir(&file.to_string_lossy(), text),
    };
    GivenDirectories { root, logs }
}

/// `podLogsDir` in this configuration file of the kubelet.
fn pod_logs_dir(name: &str, text: &io::Result<String>) -> Result<(PathBuf, String), String> {
    let text = text
        .as_ref()
        .map_err(|error| format!("the kubelet's configuration {name}: {error}"))?;
    let loaded = config::parse(name, text)
        .map_err(|_| format!("the kubelet's configuration {name} cannot be parsed"))?;
    let found = loaded.effective.kubelet.pod_logs_dir;
    let found = found.ok_or_else(|| format!("{name} has no podLogsDir"))?;
    Ok((found, format!("podLogsDir in {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn kubelet(root_dir: Option<&str>, config: Option<&Path>) -> Running {
        read(KubeletProcess {
            pid: 7,
            root_dir: root_dir.map(PathBuf::from),
            config: config.map(Path::to_owned),
        })
    }

    #[test]
    fn the_root_directory_is_taken_from_one_kubelet_and_not_from_several() {
        let one = || kubelet(Some("/data"), None);
        let (path, why) = directories_of(&[one()]).root.unwrap();
        assert_eq!(path, Path::new("/data"));
        assert_eq!(why, "--root-dir of the kubelet, process 7");
        let table: [(&[Running], &str); 3] = [
            (&[], "no kubelet runs"),
            (&[one(), one()], "several kubelets run"),
            (&[kubelet(None, None)], "without --root-dir"),
        ];
        for (running, why) in table {
            let told = directories_of(running).root.unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn the_directory_of_logs_is_taken_from_the_kubelets_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yaml");
        let header = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
        let told = |text: &str| {
            std::fs::write(&file, text).unwrap();
            directories_of(&[kubelet(None, Some(&file))]).logs
        };
        let (path, why) = told(&format!("{header}podLogsDir: /data/logs\n")).unwrap();
        assert_eq!(path, Path::new("/data/logs"));
        assert!(why.starts_with("podLogsDir in "), "{why}");
        assert!(told(header).unwrap_err().ends_with("has no podLogsDir"));
        let relative = format!("{header}podLogsDir: logs\n");
        assert!(told(&relative).unwrap_err().contains("cannot be parsed"));
    }
}
