//! The contents of the container runtime, and the names by which a container refers to its image.

use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// The size of an object on its filesystem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// In bytes.
    pub bytes: i64,
    /// `None` if they are not known.
    pub inodes: Option<i64>,
}

/// Everything that the container runtime lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Every container, running or not.
    pub containers: Vec<Container>,
    /// Every sandbox, running or not.
    pub sandboxes: Vec<Sandbox>,
    /// Every image.
    pub images: Vec<Image>,
    /// The disk usage of all images together, compressed and unpacked; `None` if that is unknown.
    pub images_on_disk: Option<Size>,
}

/// A container, running or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id of it.
    pub id: String,
    /// The id of its sandbox.
    pub sandbox: String,
    /// UID of its pod; empty if the runtime does not say.
    pub pod: String,
    /// Its name in the pod.
    pub name: String,
    /// Whether its process has ended. A container that was made and not started has not ended.
    pub exited: bool,
    /// When its process ended, else when the container was made; `None` if the runtime says neither.
    pub ended: Option<Timestamp>,
    /// Every text by which the runtime names its image: an id, a name with a tag, a name with a digest.
    pub image: Vec<String>,
    /// The size of its writable layer; `None` if the runtime has not counted that yet.
    pub layer: Option<Size>,
}

/// A sandbox, which the containers of one pod share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// The runtime's id of it.
    pub id: String,
    /// UID of its pod; empty if the runtime does not say.
    pub pod: String,
    /// Whether containers can run in it.
    pub ready: bool,
    /// When it was made.
    pub created: Option<Timestamp>,
}

/// An image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The runtime's id of it.
    pub id: String,
    /// Its names with tags and with digests; it can have none.
    pub names: Vec<String>,
    /// In bytes, as the runtime says: containerd counts the compressed layers. Layers that images share are counted in
    /// each.
    pub bytes: u64,
    /// Whether the runtime wants it kept.
    pub pinned: bool,
    /// Whether sandboxes are made of it.
    pub of_sandboxes: bool,
    /// When it was first listed.
    pub first_seen: Timestamp,
    /// When a container was last seen to use it.
    pub last_used: Timestamp,
}

impl Image {
    /// Its first name, or its id if it has none.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.id)
    }

    /// Every form of its id and its names.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        let texts = std::iter::once(&self.id).chain(&self.names);
        texts.flat_map(|text| forms(text)).collect()
    }
}

impl Inventory {
    /// Every form of the names of images that some container uses, running or not.
    pub(super) fn used(&self) -> BTreeSet<String> {
        let texts = self.containers.iter().flat_map(|one| &one.image);
        texts.flat_map(|text| forms(text)).collect()
    }

    /// The amount that the removal of this image frees: its share of the disk usage of all images. `None` if that is
    /// unknown.
    pub(super) fn image_size(&self, image: &Image) -> Option<Size> {
        let all = self.images_on_disk?;
        let mut seen = BTreeSet::new();
        let once = self.images.iter().filter(|one| seen.insert(&one.id));
        let sum: i128 = once.map(|one| i128::from(one.bytes)).sum();
        let share = |of: i64| {
            let part = i128::from(of).checked_mul(i128::from(image.bytes))?;
            i64::try_from(part.checked_div(sum)?).ok()
        };
        Some(Size {
            bytes: share(all.bytes)?,
            inodes: all.inodes.and_then(share),
        })
    }

    /// Whether this text, as a runtime or an administrator writes it, names the image.
    pub fn is_named(image: &Image, text: &str) -> bool {
        let keys = image.keys();
        forms(text).iter().any(|form| keys.contains(form))
    }
}

/// A text that names an image, and the same in the other forms that runtimes use: without the algorithm of an id, with
/// the registry and tag that are meant where none is written, and the digest alone.
fn forms(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let bare = text.strip_prefix("sha256:").unwrap_or(text);
    let mut forms = vec![bare.to_owned()];
    if bare.len() != text.len() {
        return forms;
    }
    if let Some((_, digest)) = text.split_once('@') {
        forms.push(digest.strip_prefix("sha256:").unwrap_or(digest).to_owned());
        return forms;
    }
    let (registry, rest) = text.split_once('/').unwrap_or(("", text));
    // The rule of container runtimes: without a dot or port the first part is a user of Docker Hub.
    let is_registry = registry.contains(['.', ':']) || registry == "localhost";
    let tagged = if rest.contains(':') { "" } else { ":latest" };
    forms.push(match (registry, is_registry) {
        ("", _) => format!("docker.io/library/{rest}{tagged}"),
        (_, true) => format!("{text}{tagged}"),
        (_, false) => format!("docker.io/{text}{tagged}"),
    });
    forms
}

/// Which objects may be removed, and whether they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Remove dead containers, then sandboxes without containers.
    pub dead_containers: bool,
    /// Then remove unused images.
    pub unused_images: bool,
    /// An image that was first listed less than this long ago stays.
    pub minimum_age: SignedDuration,
    /// Only images that no container used for at least this long go; `None` for all unused ones.
    pub unused_for: Option<SignedDuration>,
    /// UIDs of the pods that run or are about to; `None` if they are not known. Then every pod counts as one.
    pub active_pods: Option<BTreeSet<String>>,
    /// List the candidates, and remove none.
    pub dry_run: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_by_every_way_to_write_its_name() {
        let image = Image {
            id: "sha256:abc".to_owned(),
            names: vec![
                "docker.io/library/nginx:1.25".to_owned(),
                "docker.io/library/nginx@sha256:def".to_owned(),
                "docker.io/team/app:latest".to_owned(),
                "localhost:5000/app:2".to_owned(),
            ],
            ..Image::default()
        };
        for text in [
            "sha256:abc",
            "abc",
            "nginx:1.25",
            "docker.io/library/nginx:1.25",
            "docker.io/library/nginx@sha256:def",
            "mirror.example/nginx@sha256:def",
            "team/app",
            "localhost:5000/app:2",
        ] {
            assert!(Inventory::is_named(&image, text), "{text}");
        }
        for text in [
            "",
            "nginx",
            "abcd",
            "quay.io/team/app",
            "localhost:5000/app",
        ] {
            assert!(!Inventory::is_named(&image, text), "{text}");
        }
    }
}
