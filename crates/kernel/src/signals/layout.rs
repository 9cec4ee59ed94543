//! Which of the node's three directories share a filesystem (S1-025).

use evictd_eviction::rules::RuntimeFiles;
use evictd_signals::{Signal, SignalMap};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A directory on each filesystem that the node watches; with `None` its signals are not observed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesystemPaths {
    /// The kubelet's root directory: local volumes and logs.
    pub nodefs: Option<PathBuf>,
    /// The container runtime's directory with the images.
    pub imagefs: Option<PathBuf>,
    /// The containers' writable layers.
    pub containerfs: Option<PathBuf>,
    /// Where the container runtime keeps its files, as it reports; `None` until it has.
    pub runtime: Option<RuntimePaths>,
}

/// Where the container runtime keeps its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimePaths {
    /// Images.
    pub images: PathBuf,
    /// Writable layers of containers.
    pub layers: PathBuf,
}

/// The device of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Device {
    Known(u64),
    /// The path cannot be seen from here.
    Missing,
    /// Its filesystem has not answered yet.
    Unanswered,
}

impl Device {
    const fn known(self) -> Option<u64> {
        match self {
            Self::Known(device) => Some(device),
            Self::Missing | Self::Unanswered => None,
        }
    }
}

/// Which of the node's directories share a filesystem, by device number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Images are on another filesystem than the kubelet's root directory.
    pub dedicated_image_fs: bool,
    /// Images have a filesystem of their own, and the containers' writable layers are not on it.
    pub split_container_fs: bool,
    /// Each filesystem once.
    pub filesystems: Vec<WatchedFilesystem>,
    /// On which of them the container runtime keeps its files; `None` until it has reported that.
    pub runtime_files: Option<RuntimeFiles>,
    /// Where the container runtime keeps its files although nothing is watched there.
    pub problem: Option<String>,
    /// For people: the filesystem of each directory.
    sentence: String,
}

/// A filesystem that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedFilesystem {
    /// Its device number.
    pub device: u64,
    /// The first directory on it that is watched.
    pub path: PathBuf,
    /// Its type and source, such as `ext4 on /dev/sda1`.
    pub description: String,
    /// `nodefs`, `imagefs`, `containerfs`; those that have no path of their own are left out.
    pub roles: Vec<&'static str>,
}

impl Layout {
    /// `None` while the device of a path is not known. A path that is not given counts as being on the filesystem
    /// of the path before it.
    pub(super) fn of(
        paths: &FilesystemPaths,
        device: impl Fn(&Path) -> Device,
        describe: impl Fn(u64) -> Option<String>,
    ) -> Option<Self> {
        let mut parts: Vec<String> = Vec::new();
        let mut filesystems: Vec<WatchedFilesystem> = Vec::new();
        let mut devices: [Option<u64>; 3] = [None; 3];
        let roles = [
            ("nodefs", &paths.nodefs),
            ("imagefs", &paths.imagefs),
            ("containerfs", &paths.containerfs),
        ];
        for (index, (role, path)) in roles.into_iter().enumerate() {
            let Some(path) = path else {
                devices[index] = index.checked_sub(1).and_then(|before| devices[before]);
                continue;
            };
            let found = device(path).known()?;
            let shared = (0..index).find(|before| devices[*before] == Some(found));
            let place = match shared {
                Some(before) => format!("with {}", roles[before].0),
                None => describe(found).unwrap_or_else(|| format!("device {found}")),
            };
            match filesystems.iter_mut().find(|one| one.device == found) {
                Some(filesystem) => filesystem.roles.push(role),
                None => filesystems.push(WatchedFilesystem {
                    device: found,
                    path: path.clone(),
                    description: place.clone(),
                    roles: vec![role],
                }),
            }
            parts.push(format!("{role} {} ({place})", path.display()));
            devices[index] = Some(found);
        }
        let runtime = match &paths.runtime {
            Some(paths) => Some(RuntimeDevices::of(paths, &device)?),
            None => None,
        };
        let [nodefs, imagefs, containerfs] = devices;
        let dedicated_image_fs = nodefs.is_some() && nodefs != imagefs;
        Some(Self {
            dedicated_image_fs,
            split_container_fs: dedicated_image_fs && containerfs != imagefs,
            runtime_files: runtime.as_ref().map(|one| one.files(devices)),
            problem: runtime.and_then(|one| one.problem(devices, describe)),
            filesystems,
            sentence: parts.join(", "),
        })
    }
}

/// The filesystems with the runtime's files.
struct RuntimeDevices<'a> {
    paths: &'a RuntimePaths,
    images: Device,
    layers: Device,
}

impl<'a> RuntimeDevices<'a> {
    /// `None` while one of them has not answered.
    fn of(paths: &'a RuntimePaths, device: impl Fn(&Path) -> Device) -> Option<Self> {
        let all = Self {
            paths,
            images: device(&paths.images),
            layers: device(&paths.layers),
        };
        let waits = [all.images, all.layers].contains(&Device::Unanswered);
        (!waits).then_some(all)
    }

    fn files(&self, [nodefs, imagefs, containerfs]: [Option<u64>; 3]) -> RuntimeFiles {
        let is_on = |files: Device| {
            SignalMap::from_fn(|signal| {
                let watched = match signal {
                    Signal::NodefsAvailable | Signal::NodefsInodesFree => nodefs,
                    Signal::ImagefsAvailable | Signal::ImagefsInodesFree => imagefs,
                    Signal::ContainerfsAvailable | Signal::ContainerfsInodesFree => containerfs,
                    _ => None,
                };
                watched.is_some() && files.known() == watched
            })
        };
        RuntimeFiles {
            images: is_on(self.images),
            layers: is_on(self.layers),
        }
    }

    /// The difference between the runtime's places and the filesystems watched as `imagefs` and `containerfs`.
    fn problem(
        &self,
        [_, imagefs, containerfs]: [Option<u64>; 3],
        describe: impl Fn(u64) -> Option<String>,
    ) -> Option<String> {
        let checked = [
            (
                "images",
                &self.paths.images,
                self.images,
                "imagefs",
                imagefs,
            ),
            (
                "writable layers",
                &self.paths.layers,
                self.layers,
                "containerfs",
                containerfs,
            ),
        ];
        let differs = checked.into_iter().filter_map(|(what, path, device, role, watched)| {
            let place = match device {
                Device::Known(device) if Some(device) == watched => return None,
                Device::Known(device) => {
                    describe(device).unwrap_or_else(|| format!("device {device}"))
                }
                Device::Missing | Device::Unanswered => "which cannot be seen from here".to_owned(),
            };
            Some(format!(
                "the container runtime keeps {what} in {} ({place}), but another filesystem is watched as {role}, where \
                 their removal frees nothing",
                path.display()
            ))
        });
        let differs: Vec<String> = differs.collect();
        (!differs.is_empty()).then(|| differs.join("; "))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (self.dedicated_image_fs, self.split_container_fs) {
            (false, _) => "one filesystem for everything",
            (true, false) => "images and writable layers on a filesystem of their own",
            (true, true) => "images on a filesystem of their own, writable layers elsewhere",
        };
        write!(f, "{kind}: {}", self.sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path `/5` is on the device 5.
    fn device(path: &Path) -> Device {
        let number = path
            .to_str()
            .and_then(|path| path.strip_prefix('/')?.parse().ok());
        number.map_or(Device::Missing, Device::Known)
    }

    fn layout(nodefs: u64, imagefs: Option<u64>, containerfs: Option<u64>) -> Layout {
        let path = |device: u64| format!("/{device}").into();
        let paths = FilesystemPaths {
            nodefs: Some(path(nodefs)),
            imagefs: imagefs.map(path),
            containerfs: containerfs.map(path),
            runtime: None,
        };
        Layout::of(&paths, device, |device| {
            Some(format!("ext4 on disk {device}"))
        })
        .unwrap()
    }

    #[test]
    fn s1_025_layout_of_devices() {
        let table = [
            (layout(1, None, None), (false, false)),
            (layout(1, Some(1), Some(1)), (false, false)),
            (layout(1, Some(2), None), (true, false)),
            (layout(1, Some(2), Some(2)), (true, false)),
            (layout(1, Some(2), Some(1)), (true, true)),
            (layout(1, Some(2), Some(3)), (true, true)),
            // A layout without a separate image filesystem cannot be split.
            (layout(1, Some(1), Some(2)), (false, false)),
        ];
        for (layout, expected) in table {
            let got = (layout.dedicated_image_fs, layout.split_container_fs);
            assert_eq!(got, expected, "{layout}");
        }
    }

    #[test]
    fn each_filesystem_is_listed_once_with_its_roles() {
        let layout = layout(1, Some(2), Some(1));
        let listed: Vec<_> = layout
            .filesystems
            .iter()
            .map(|one| (one.device, one.path.to_str().unwrap(), &one.roles[..]))
            .collect();
        let expected: [(u64, &str, &[&str]); 2] = [
            (1, "/1", &["nodefs", "containerfs"]),
            (2, "/2", &["imagefs"]),
        ];
        assert_eq!(listed, expected);
    }

    #[test]
    fn s1_025_says_so_in_a_sentence() {
        assert_eq!(
            layout(1, Some(2), Some(1)).to_string(),
            "images on a filesystem of their own, writable layers elsewhere: \
             nodefs /1 (ext4 on disk 1), imagefs /2 (ext4 on disk 2), containerfs /1 (with nodefs)"
        );
    }

    #[test]
    fn s1_025_unknown_while_a_filesystem_has_not_answered() {
        let paths = FilesystemPaths {
            nodefs: Some("/a".into()),
            ..FilesystemPaths::default()
        };
        assert_eq!(Layout::of(&paths, |_| Device::Unanswered, |_| None), None);
    }

    /// Of nodefs on device 1 and imagefs on device 2, with the runtime's files in these directories: for nodefs and
    /// imagefs whether images, and whether layers are there.
    fn files(images: &str, layers: &str) -> ([[bool; 2]; 2], Option<String>) {
        let paths = FilesystemPaths {
            nodefs: Some("/1".into()),
            imagefs: Some("/2".into()),
            containerfs: None,
            runtime: Some(RuntimePaths {
                images: images.into(),
                layers: layers.into(),
            }),
        };
        let layout = Layout::of(&paths, device, |_| Some("xfs".to_owned())).unwrap();
        let files = layout.runtime_files.unwrap();
        let both = |signal| [files.images[signal], files.layers[signal]];
        let inodes = both(Signal::ImagefsInodesFree);
        assert_eq!(inodes, both(Signal::ImagefsAvailable));
        assert_eq!(inodes, both(Signal::ContainerfsAvailable));
        let signals = [Signal::NodefsAvailable, Signal::ImagefsAvailable];
        (signals.map(both), layout.problem)
    }

    #[test]
    fn the_watched_filesystems_are_compared_with_those_of_the_runtime() {
        let (none, both) = ([false; 2], [true; 2]);
        assert_eq!(files("/2", "/2"), ([none, both], None));
        let (found, problem) = files("/3", "/3");
        assert_eq!(found, [none, none]);
        let problem = problem.unwrap();
        for told in [
            "keeps images in /3 (xfs)",
            "watched as imagefs",
            "keeps writable layers in /3",
        ] {
            assert!(problem.contains(told), "{problem}");
        }
        let (found, problem) = files("/elsewhere", "/1");
        assert_eq!(found, [[false, true], none]);
        assert!(problem.unwrap().contains("which cannot be seen from here"));
    }
}
