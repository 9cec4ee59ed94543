//! The remaining usage of a pod after its processes have exited: memory in its volumes, and zombies that hold process
//! ids.

use super::cgroup::{MemoryFiles, bytes, processes, twice};
use evictd_departures::RemainingUsage;
use evictd_kernel::{
    cgroup::{Controller, Hierarchies},
    kernel_file::{Buffer, KernelFile, ReadError},
};
use nix::{errno::Errno, sys::statfs::statfs};
use procfs::{FromRead, process::MountInfos};
use std::{collections::HashSet, ffi::OsStr, path::Path};

/// Reads everything again. Memory is the charge of its cgroup except cache, which the kernel frees by itself. If the
/// cgroup is removed, it is the size of the pod's volumes in memory. `None` after a read error. `mounts` is a
/// `mountinfo` file.
pub(super) fn read(
    hierarchies: &Hierarchies,
    mounts: &Path,
    (uid, cgroup): (&str, &Path),
    buffer: &mut Buffer,
) -> RemainingUsage {
    let files = MemoryFiles::new(hierarchies, cgroup);
    let held = files.map_or(Ok(None), |mut files| there(files.read_twice(buffer)));
    let (memory, swap) = match held {
        Ok(Some(held)) => (Some(held.unreclaimable), Some(held.swap.unwrap_or(0))),
        // The charges of a removed cgroup are moved to its parent.
        Ok(None) => (in_volumes(mounts, uid), Some(0)),
        Err(_) => (None, None),
    };
    RemainingUsage {
        memory: memory.map(bytes),
        swap: swap.map(bytes),
        processes: processes_of(hierarchies, cgroup, buffer),
        files_are_gone: None,
    }
}

fn processes_of(hierarchies: &Hierarchies, cgroup: &Path, buffer: &mut Buffer) -> Option<u64> {
    let counted = match hierarchies.dir(Controller::Pids, cgroup) {
        Some(directory) => {
            let mut file = KernelFile::new(directory.join("pids.current"));
            there(processes(&mut file, buffer)).ok()?
        }
        None => None,
    };
    // The cgroup exists, but without that controller.
    counted.or_else(|| match hierarchies.procs(cgroup) {
        Ok(listed) => Some(listed.len() as u64),
        Err(error) => error.is_gone().then_some(0),
    })
}

fn there<T>(read: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match read {
        Ok(figure) => Ok(Some(figure)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes in the in-memory volumes of the pod with this UID. Only tmpfs mounts are asked, because they answer at
/// once; the kubelet's directory may be anywhere.
fn in_volumes(mounts: &Path, uid: &str) -> Option<u64> {
    if uid.is_empty() {
        return Some(0);
    }
    let mounts = twice(|| {
        MountInfos::from_file(mounts).map_err(|error| ReadError::Io {
            path: mounts.into(),
            source: std::io::Error::other(error),
        })
    });
    // The same filesystem may be mounted several times.
    let mut counted = HashSet::new();
    let volumes = mounts.ok()?.into_iter().filter(|mount| {
        mount.fs_type == "tmpfs"
            && is_volume_of(&mount.mount_point, uid)
            && counted.insert(mount.majmin.clone())
    });
    let mut sum = 0_u64;
    for volume in volumes {
        let held = match statfs(&volume.mount_point) {
            Ok(found) => {
                let block = u64::try_from(found.block_size()).unwrap_or(0);
                found.blocks().saturating_sub(found.blocks_free()) * block
            }
            // It was unmounted meanwhile.
            Err(Errno::ENOENT) => 0,
            Err(_) => return None,
        };
        sum = sum.saturating_add(held);
    }
    Some(sum)
}

/// Whether it is `<the kubelet's directory>/pods/<uid>/volumes/kubernetes.io~empty-dir/<name>`.
fn is_volume_of(mount_point: &Path, uid: &str) -> bool {
    let expected = ["kubernetes.io~empty-dir", "volumes", uid, "pods"];
    let above = mount_point.ancestors().skip(1).map(Path::file_name);
    above
        .take(4)
        .eq(expected.map(|name| Some(OsStr::new(name))))
}

#[cfg(test)]
mod tests;
