//! The kubelet of this node, from its process: it reports its directories nowhere else.

use crate::cgroup::{Hierarchies, memberships};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The name of its program.
const NAME: &[u8] = b"kubelet";
/// A longer command line is cut off.
const LONGEST_COMMAND: u64 = 128 << 10;

/// The arguments of a running kubelet. Only absolute paths are taken, because the kubelet's working directory is
/// unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletProcess {
    /// Its process id.
    pub pid: u32,
    /// `--root-dir`.
    pub root_dir: Option<PathBuf>,
    /// `--config`: the file with its configuration.
    pub config: Option<PathBuf>,
}

impl KubeletProcess {
    /// The kubelets that run. A tenant may call its program a kubelet, so only a process counts that is root's and in no cgroup
    /// below `pod_roots`. May hang where the kubelet hangs in the kernel.
    pub fn find_all(
        proc_root: &Path,
        hierarchies: &Hierarchies,
        pod_roots: &[PathBuf],
    ) -> Vec<Self> {
        let Ok(processes) = fs::read_dir(proc_root) else {
            return Vec::new();
        };
        let counts = |process: &Path| {
            is_called_kubelet(process)
                && is_roots(process)
                && !is_in_pod(process, hierarchies, pod_roots)
        };
        let mut found: Vec<Self> = processes
            .flatten()
            .filter_map(|process| {
                let pid = process.file_name().to_str()?.parse().ok()?;
                let process = process.path();
                let command = command(&process).filter(|_| counts(&process))?;
                Some(KubeletProcess {
                    pid,
                    root_dir: option(&command, b"root-dir"),
                    config: option(&command, b"config"),
                })
            })
            .collect();
        found.sort_by_key(|kubelet| kubelet.pid);
        found
    }
}

fn is_called_kubelet(process: &Path) -> bool {
    fs::read(process.join("comm")).is_ok_and(|name| name.trim_ascii_end() == NAME)
}

/// All four user ids are 0; root of a user namespace has others here.
fn is_roots(process: &Path) -> bool {
    let status = fs::read(process.join("status")).unwrap_or_default();
    let ids = status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Uid:"));
    ids.is_some_and(|ids| {
        let mut ids = ids
            .split(u8::is_ascii_whitespace)
            .filter(|id| !id.is_empty());
        ids.all(|id| id == b"0")
    })
}

/// A process whose cgroups cannot be read counts as one of a pod.
fn is_in_pod(process: &Path, hierarchies: &Hierarchies, pod_roots: &[PathBuf]) -> bool {
    let text = fs::read(process.join("cgroup")).unwrap_or_default();
    let in_pod = |(controllers, shown): (&str, &Path)| {
        let cgroup = hierarchies.absolute(controllers, shown);
        let below = |root: &PathBuf| cgroup.starts_with(root.strip_prefix("/").unwrap_or(root));
        pod_roots.iter().any(below)
    };
    text.is_empty() || memberships(&text).any(|line| line.map_or(true, in_pod))
}

/// Without the program's name.
fn command(process: &Path) -> Option<Vec<Vec<u8>>> {
    let mut text = Vec::new();
    let file = File::open(process.join("cmdline")).ok()?;
    file.take(LONGEST_COMMAND).read_to_end(&mut text).ok()?;
    let words = text.split(|byte| *byte == 0).skip(1);
    Some(words.map(<[u8]>::to_vec).collect())
}

/// The last `--name=value` or `--name value` counts, and `_` is as good as `-`, as for the kubelet.
fn option(command: &[Vec<u8>], name: &[u8]) -> Option<PathBuf> {
    let mut words = command.iter();
    let mut found = None;
    while let Some(word) = words.next() {
        let Some(word) = word.strip_prefix(b"--") else {
            continue;
        };
        let length = word.iter().position(|byte| *byte == b'=');
        let (key, value) = word.split_at(length.unwrap_or(word.len()));
        let alike = |(a, b): (&u8, &u8)| a == b || (*a == b'_' && *b == b'-');
        if key.len() != name.len() || !key.iter().zip(name).all(alike) {
            continue;
        }
        found = match value.strip_prefix(b"=") {
            Some(value) => Some(value.to_vec()),
            None => words.next().cloned(),
        };
    }
    let path = PathBuf::from(OsStr::from_bytes(&found?));
    // A relative path would depend on the working directory of the kubelet.
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::DEFAULT_ROOT;

    struct Processes(tempfile::TempDir);

    impl Processes {
        fn add(&self, pid: u32, (name, uids): (&str, &str), cgroup: &str, command: &str) {
            let process = self.0.path().join(pid.to_string());
            fs::create_dir(&process).unwrap();
            let files = [
                ("comm", format!("{name}\n")),
                (
                    "status",
                    format!("Name:\t{name}\nUid:\t{uids}\nGid:\t0\t0\t0\t0\n"),
                ),
                ("cgroup", cgroup.to_owned()),
                ("cmdline", command.replace(' ', "\0")),
            ];
            for (file, text) in files {
                fs::write(process.join(file), text).unwrap();
            }
        }

        fn found(&self) -> Vec<KubeletProcess> {
            let hierarchies = Hierarchies::detect(Path::new(DEFAULT_ROOT)).unwrap();
            let roots = ["/kubepods", "/kubepods.slice"].map(PathBuf::from);
            KubeletProcess::find_all(self.0.path(), &hierarchies, &roots)
        }
    }

    const ROOT: (&str, &str) = ("kubelet", "0\t0\t0\t0");
    const UNIT: &str = "4:memory:/system.slice/kubelet.service\n0::/system.slice/kubelet.service\n";

    #[test]
    fn only_roots_kubelet_outside_of_pods_counts() {
        let processes = Processes(tempfile::tempdir().unwrap());
        let evil = "kubelet --root-dir=/evil";
        processes.add(2, ("kubelet", "1000\t1000\t1000\t1000"), UNIT, evil);
        processes.add(3, ("kubelet", "0\t1000\t0\t0"), UNIT, evil);
        processes.add(4, ROOT, "0::/kubepods/burstable/poda/b\n", evil);
        let one_of_two = "4:memory:/\n0::/kubepods.slice/a\n";
        processes.add(5, ROOT, one_of_two, evil);
        processes.add(6, ROOT, "", evil);
        processes.add(7, ("kubectl", ROOT.1), UNIT, evil);
        fs::create_dir(processes.0.path().join("8")).unwrap();
        assert_eq!(processes.found(), []);
        processes.add(
            9,
            ROOT,
            UNIT,
            "/usr/bin/kubelet --root-dir=/data/kubelet --v=2",
        );
        let found = KubeletProcess {
            pid: 9,
            root_dir: Some("/data/kubelet".into()),
            config: None,
        };
        assert_eq!(processes.found(), [found]);
    }

    #[test]
    fn its_options_are_read_as_it_reads_them() {
        let table = [
            ("--root-dir=/a", Some("/a")),
            ("--root-dir /a --v 2", Some("/a")),
            ("--root_dir=/a", Some("/a")),
            ("--root-dir=/a --root-dir=/b", Some("/b")),
            ("--root-dir=/a=b", Some("/a=b")),
            ("--root-dir=a", None),
            ("--root-dir=", None),
            ("--root-dir", None),
            ("--root-dirs=/a", None),
            ("root-dir=/a", None),
            ("", None),
        ];
        for (words, expected) in table {
            let command: Vec<Vec<u8>> = words.split(' ').map(Into::into).collect();
            let found = option(&command, b"root-dir");
            assert_eq!(found.as_deref(), expected.map(Path::new), "{words}");
        }
    }
}
