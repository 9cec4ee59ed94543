//! Keys that say where something of the machine is.

use crate::{
    key::{Effect::Restart, Field, Key, Kubelet::Same, key, one, schema_of},
    value::Value,
};

pub(super) const PROC: Key = key(
    "roots.proc",
    "/proc",
    Same,
    Restart,
    one!(roots.proc),
    "Where procfs is mounted. In a container: the host's.",
);

pub(super) const CGROUP: Key = key(
    "roots.cgroup",
    "/sys/fs/cgroup",
    Same,
    Restart,
    one!(roots.cgroup),
    "Where the cgroup hierarchies are mounted. In a container: the host's.",
);

pub(super) const NODEFS: Key = key(
    "filesystems.nodefs",
    r#""""#,
    Same,
    Restart,
    one!(filesystems.nodefs),
    "A path on the filesystem of the kubelet's root directory. Empty: found automatically.",
);

pub(super) const IMAGEFS: Key = key(
    "filesystems.imagefs",
    r#""""#,
    Same,
    Restart,
    one!(filesystems.imagefs),
    "A path on the filesystem with the images. Empty: as the container runtime says.",
);

pub(super) const CONTAINERFS: Key = key(
    "filesystems.containerfs",
    r#""""#,
    Same,
    Restart,
    one!(filesystems.containerfs),
    "A path on the filesystem with the containers' writable layers. Empty: as the container runtime says.",
);
