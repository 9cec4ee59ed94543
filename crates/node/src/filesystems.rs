//! Which directories are watched for `nodefs`, `imagefs` and `containerfs`.

use crate::{
    config::{Effective, Filesystems},
    reclaim::{Places, sockets},
};
use evictd_cri::usual_root;
use evictd_kernel::signals::{FilesystemPaths, RuntimePaths};
use std::path::{Path, PathBuf};

/// The directories that are watched: as configured, else where the container runtime reports its files, else where
/// kubelets and runtimes usually keep them.
#[derive(Debug, Clone)]
pub struct WatchedPaths {
    configured: Filesystems,
    kubelet: PathBuf,
    sockets: Vec<String>,
    /// The places that the runtime has reported.
    places: Option<Places>,
    paths: FilesystemPaths,
}

impl WatchedPaths {
    /// For this configuration, with this root directory of the kubelet, and the places of the runtime's files if it has
    /// reported them.
    pub fn new(config: &Effective, kubelet: &Path, places: Option<Places>) -> Self {
        let mut watched = Self {
            configured: config.filesystems.clone(),
            kubelet: kubelet.to_owned(),
            sockets: sockets(config),
            places,
            paths: FilesystemPaths::default(),
        };
        watched.paths = watched.choose(&is_there);
        watched
    }

    /// These directories.
    pub fn paths(&self) -> &FilesystemPaths {
        &self.paths
    }

    /// Applies the places of the runtime's files. Returns the directories to watch from now on if they have changed.
    pub fn follow(&mut self, places: Option<Places>) -> Option<FilesystemPaths> {
        if places.is_none() || self.places == places {
            return None;
        }
        self.places = places;
        let paths = self.choose(&is_there);
        if self.paths == paths {
            return None;
        }
        self.paths = paths;
        Some(self.paths.clone())
    }

    fn choose(&self, is_there: &impl Fn(&Path) -> bool) -> FilesystemPaths {
        let configured = &self.configured;
        let seen = |path: &Path| Some(path.to_owned()).filter(|path| is_there(path));
        let places = self.places.as_ref();
        let nodefs = configured.nodefs.clone();
        let nodefs = nodefs
            .or_else(|| seen(&self.kubelet))
            .or_else(|| seen(Path::new("/")));
        let of_images = places.and_then(|places| seen(&places.images));
        let imagefs = configured.imagefs.clone().or(of_images);
        let usual = || usual_root(&self.sockets, is_there);
        let imagefs = imagefs.or_else(usual).or_else(|| nodefs.clone());
        let of_layers = places.and_then(|places| seen(&places.layers));
        let containerfs = configured.containerfs.clone().or(of_layers);
        FilesystemPaths {
            containerfs: containerfs.or_else(|| imagefs.clone()),
            nodefs,
            imagefs,
            runtime: places.map(|places| RuntimePaths {
                images: places.images.clone(),
                layers: places.layers.clone(),
            }),
        }
    }
}

fn is_there(path: &Path) -> bool {
    path.try_exists().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    const KUBELET: &str = "/var/lib/kubelet";

    /// What is watched with these lines of configuration, this word of the runtime, and where these paths exist.
    fn chosen(lines: &str, told: Option<[&str; 2]>, there: &[&str]) -> [Option<String>; 3] {
        let text =
            format!("apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\n{lines}\n");
        let config = config::parse("the test", &text).unwrap().effective;
        let places = told.map(|[images, layers]| Places {
            images: images.into(),
            layers: layers.into(),
        });
        let watched = WatchedPaths::new(&config, Path::new(KUBELET), places);
        let is_there = |path: &Path| there.iter().any(|one| Path::new(one) == path);
        let paths = watched.choose(&is_there);
        let shown = |path: Option<PathBuf>| path.map(|path| path.display().to_string());
        [paths.nodefs, paths.imagefs, paths.containerfs].map(shown)
    }

    /// Configuration, the runtime's places, the directories that are there; the paths.
    type Row<'r> = (&'r str, Option<[&'r str; 2]>, &'r [&'r str], [&'r str; 3]);

    #[test]
    fn paths_come_from_the_configuration_then_the_runtime_then_defaults() {
        const ROOT: &str = "/data/containerd/io.containerd.snapshotter.v1.overlayfs";
        let usual = [KUBELET, "/var/lib/containerd", "/"];
        let all = [KUBELET, "/var/lib/containerd", "/", ROOT, "/layers"];
        let configured = "filesystems: {imagefs: /mnt/images}";
        let table: [Row<'_>; 6] = [
            (
                "",
                None,
                &usual,
                [KUBELET, "/var/lib/containerd", "/var/lib/containerd"],
            ),
            ("", None, &["/"], ["/", "/", "/"]),
            ("", Some([ROOT, ROOT]), &all, [KUBELET, ROOT, ROOT]),
            (
                "",
                Some([ROOT, "/layers"]),
                &all,
                [KUBELET, ROOT, "/layers"],
            ),
            // It cannot be seen from here, as in a container without it.
            (
                "",
                Some([ROOT, ROOT]),
                &usual,
                [KUBELET, "/var/lib/containerd", "/var/lib/containerd"],
            ),
            (
                configured,
                Some([ROOT, "/layers"]),
                &all,
                [KUBELET, "/mnt/images", "/layers"],
            ),
        ];
        for (lines, told, there, expected) in table {
            let expected = expected.map(|path| Some(path.to_owned()));
            assert_eq!(chosen(lines, told, there), expected, "{lines} {told:?}");
        }
    }

    #[test]
    fn watched_paths_change_only_when_the_runtime_reports_others() {
        let text = "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\n";
        let config = config::parse("the test", text).unwrap().effective;
        let mut watched = WatchedPaths::new(&config, Path::new("/"), None);
        assert_eq!(watched.follow(None), None);
        let proc = Places {
            images: "/proc".into(),
            layers: "/proc".into(),
        };
        let paths = watched.follow(Some(proc.clone())).unwrap();
        assert_eq!(paths.imagefs.as_deref(), Some(Path::new("/proc")));
        assert_eq!(watched.follow(Some(proc)), None);
        assert_eq!(watched.follow(None), None);
    }
}
