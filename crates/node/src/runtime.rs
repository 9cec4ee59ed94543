//! The container runtime of this node, as configured, and where it keeps its files.

use crate::config::Effective;
use evictd_cri::{Client, Error, Filesystems, Settings};
use evictd_kernel::{
    threads::Pool,
    walk::{Budget, DiskUsage},
};
use evictd_reclaim::Size;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool, atomic::Ordering},
    time::{Duration, SystemTime},
};
use tokio::time::timeout;

/// The longest wait for the directory with the compressed layers, which may be on a filesystem that hangs.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most compressed layers that are counted.
const MOST_BLOBS: u64 = 200_000;

/// The client that all parts of the agent share. Asks nothing yet.
///
/// # Errors
/// [`Error::NotASocket`] if `containerRuntimeEndpoint` names no unix socket.
pub(crate) fn client(config: &Effective) -> Result<Client, Error> {
    let endpoint = config.container_runtime_endpoint.clone();
    Client::new(Settings {
        endpoint: Some(endpoint).filter(|endpoint| !endpoint.is_empty()),
        ..Settings::default()
    })
}

/// Where the runtime keeps its files, as it reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// A directory on the filesystem of images.
    pub images: PathBuf,
    /// A directory on the filesystem of containers' writable layers.
    pub layers: PathBuf,
}

impl Places {
    /// `None` if the runtime names no directory.
    pub fn of(filesystems: &Filesystems) -> Option<Self> {
        let place = |path: &str| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
        let images = place(&filesystems.images.first()?.mountpoint)?;
        let layers = filesystems.containers.first();
        let layers = layers.and_then(|first| place(&first.mountpoint));
        Some(Self {
            layers: layers.unwrap_or_else(|| images.clone()),
            images,
        })
    }
}

/// The compressed layers of images, which containerd keeps beside the unpacked ones and does not count.
#[derive(Debug, Default)]
pub(crate) struct ContentStore {
    /// Their sizes, and when their directory was last changed.
    known: Mutex<Option<(PathBuf, SystemTime, Size)>>,
}

impl ContentStore {
    /// Where containerd keeps them, by the directory of its snapshotter; `None` for another runtime, which has none.
    fn directory(images: &Path) -> Option<PathBuf> {
        let name = images.file_name()?.to_str()?;
        let root = images
            .parent()
            .filter(|_| name.starts_with("io.containerd.snapshotter."))?;
        Some(root.join("io.containerd.content.v1.content/blobs/sha256"))
    }

    /// The size of the compressed images on the filesystem of this directory with images; zero for a runtime without
    /// them. `None` if that cannot be seen from here.
    pub(crate) async fn measure(&self, images: &Path) -> Option<Size> {
        let Some(directory) = Self::directory(images) else {
            return Some(Size {
                bytes: 0,
                inodes: Some(0),
            });
        };
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().clone();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, place) = (Arc::clone(&stop), directory.clone());
        let look = move || {
            let changed = place.metadata().and_then(|found| found.modified()).ok()?;
            if let Some((path, at, size)) = before
                && (&path, at) == (&place, changed)
            {
                return Some((changed, size));
            }
            let budget = &mut Budget {
                entries: MOST_BLOBS,
                stop: &stopped,
            };
            let found = DiskUsage::of(&place, budget).ok()??;
            let size = Size {
                bytes: found.bytes,
                inodes: Some(found.inodes),
            };
            Some((changed, size))
        };
        let looking = Pool::of_this_process().run(look).ok()?;
        let looked = timeout(PATIENCE, looking).await;
        stop.store(looked.is_err(), Ordering::Relaxed);
        let (changed, size) = looked.ok()?.ok()??;
        *known() = Some((directory, changed, size));
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_cri::FilesystemUsage;

    fn told(images: &[&str], layers: &[&str]) -> Option<(String, String)> {
        let usage = |paths: &[&str]| {
            let usage = |path: &&str| FilesystemUsage {
                mountpoint: (*path).to_owned(),
                bytes: None,
                inodes: None,
                at: None,
            };
            paths.iter().map(usage).collect()
        };
        let places = Places::of(&Filesystems {
            images: usage(images),
            containers: usage(layers),
        })?;
        let shown = |path: PathBuf| path.display().to_string();
        Some((shown(places.images), shown(places.layers)))
    }

    #[test]
    fn layers_are_with_the_images_unless_the_runtime_tells_another_place() {
        let both = |images: &str, layers: &str| Some((images.to_owned(), layers.to_owned()));
        assert_eq!(told(&["/i"], &["/l"]), both("/i", "/l"));
        assert_eq!(told(&["/i", "/second"], &[]), both("/i", "/i"));
        assert_eq!(told(&["/i"], &[""]), both("/i", "/i"));
        assert_eq!(told(&[], &["/l"]), None);
        assert_eq!(told(&["relative"], &[]), None);
    }

    #[tokio::test]
    async fn compressed_layers_of_containerd_count_and_are_walked_again_when_they_change() {
        let root = tempfile::tempdir().unwrap();
        let images = root.path().join("io.containerd.snapshotter.v1.overlayfs");
        let store = ContentStore::default();
        assert_eq!(store.measure(&images).await, None);
        let blobs = root
            .path()
            .join("io.containerd.content.v1.content/blobs/sha256");
        std::fs::create_dir_all(&blobs).unwrap();
        for (name, mebibytes) in [("a", 1_u32), ("b", 2)] {
            std::fs::write(blobs.join(name), vec![1; 1 << 20]).unwrap();
            // Two changes within one tick of the clock look the same.
            let directory = std::fs::File::open(&blobs).unwrap();
            let now = directory.metadata().unwrap().modified().unwrap();
            let later = now + Duration::from_secs(mebibytes.into());
            directory.set_modified(later).unwrap();
            let size = store.measure(&images).await.unwrap();
            assert!(size.bytes >= i64::from(mebibytes) << 20, "{size:?}");
        }
        let other = store
            .measure(Path::new("/var/lib/containers/storage"))
            .await;
        assert_eq!(other.unwrap().bytes, 0);
    }
}
