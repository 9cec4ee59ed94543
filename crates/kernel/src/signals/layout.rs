//! Which of the node's three directories share a filesystem (S1-025).

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
        device: impl Fn(&Path) -> Option<u64>,
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
            let found = device(path)?;
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
        let [nodefs, imagefs, containerfs] = devices;
        let dedicated_image_fs = nodefs.is_some() && nodefs != imagefs;
        Some(Self {
            dedicated_image_fs,
            split_container_fs: dedicated_image_fs && containerfs != imagefs,
            filesystems,
            sentence: parts.join(", "),
        })
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

    fn layout(nodefs: u64, imagefs: Option<u64>, containerfs: Option<u64>) -> Layout {
        let path = |device: u64| format!("/{device}").into();
        let paths = FilesystemPaths {
            nodefs: Some(path(nodefs)),
            imagefs: imagefs.map(path),
            containerfs: containerfs.map(path),
        };
        let device = |path: &Path| path.to_str()?.strip_prefix('/')?.parse().ok();
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
        assert_eq!(Layout::of(&paths, |_| None, |_| None), None);
    }
}
