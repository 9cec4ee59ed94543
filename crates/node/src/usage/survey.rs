//! Usage of the disks beside the directories of pods: sizes, system logs, files that are deleted but open.

use super::{
    deleted::is_held_in,
    ledger::{Entry, Findings, Kind, Space},
};
use evictd_kernel::{
    deleted::{DeletedFile, DeletedFiles},
    signals::WatchedFilesystem,
    walk::{Budget, DiskUsage},
};
use jiff::Timestamp;
use nix::sys::statvfs::statvfs;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

/// Where the system keeps its logs.
pub(super) const SYSTEM_LOGS: &str = "/var/log";
/// The most files of the system's logs that are counted.
const MOST_LOGS: u64 = 100_000;

/// The subject of a survey.
pub(super) struct Survey {
    pub(super) now: Timestamp,
    pub(super) filesystems: Vec<WatchedFilesystem>,
    pub(super) deleted: Arc<DeletedFiles>,
    /// UIDs of pods, and their cgroups relative to the roots of their hierarchies.
    pub(super) pods: Vec<(String, PathBuf)>,
}

/// The name of the system's logs, which include those of pods until these are subtracted.
pub(super) const LOGS: &str = "system logs";

impl Survey {
    /// May hang where a filesystem does not answer.
    pub(super) fn run(&self, stop: &AtomicBool) -> Findings {
        let spaces = self.filesystems.iter().filter_map(space).collect();
        let mut findings = Findings {
            spaces,
            ..Findings::default()
        };
        let mut budget = Budget {
            entries: MOST_LOGS,
            stop,
        };
        if let Ok(Some(logs)) = DiskUsage::of(Path::new(SYSTEM_LOGS), &mut budget) {
            let found = (LOGS, Some(logs.device), logs.bytes, self.now);
            findings.unowned.push(found);
        }
        findings.hidden_processes = self.deleted.hidden_processes;
        for file in &self.deleted.files {
            self.add(file, &mut findings);
        }
        findings
    }

    fn add(&self, file: &DeletedFile, findings: &mut Findings) {
        let watched = |one: &WatchedFilesystem| one.device == file.device;
        let device = match self.filesystems.iter().any(watched) {
            true => Some(file.device),
            // The layer of a container has the device number of its overlay.
            false if file.in_overlay => None,
            false => return,
        };
        let holds = |(_, cgroup): &&(String, PathBuf)| is_held_in(file, cgroup);
        match self.pods.iter().find(holds) {
            Some((uid, _)) => findings.entries.push(Entry {
                uid: uid.clone(),
                kind: Kind::DeletedFiles,
                device,
                bytes: file.bytes,
                inodes: Some(1),
                at: self.now,
            }),
            None if device.is_some() => {
                let name = "deleted, open in no pod";
                let known = findings.unowned.iter_mut();
                let mut known = known.filter(|(what, at, ..)| *what == name && *at == device);
                match known.next() {
                    Some((_, _, bytes, _)) => *bytes = bytes.saturating_add(file.bytes),
                    None => findings.unowned.push((name, device, file.bytes, self.now)),
                }
            }
            None => {}
        }
    }
}

fn space(filesystem: &WatchedFilesystem) -> Option<Space> {
    let found = statvfs(&filesystem.path).ok()?;
    let block = found.fragment_size();
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(block)).unwrap_or(i64::MAX);
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Some(Space {
        device: filesystem.device,
        path: filesystem.path.clone(),
        description: filesystem.description.clone(),
        roles: filesystem.roles.clone(),
        capacity: bytes(found.blocks()),
        used: bytes(found.blocks().saturating_sub(found.blocks_free())),
        available: bytes(found.blocks_available()),
        inodes: count(found.files()),
        inodes_used: count(found.files().saturating_sub(found.files_free())),
    })
}

/// The filesystem of a path is one that writes to a disk of this machine.
pub(super) fn is_on_disk(path: &Path) -> bool {
    use nix::sys::statfs::{
        BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, XFS_SUPER_MAGIC, statfs,
    };
    const ON_DISK: [nix::sys::statfs::FsType; 4] = [
        EXT4_SUPER_MAGIC,
        XFS_SUPER_MAGIC,
        BTRFS_SUPER_MAGIC,
        F2FS_SUPER_MAGIC,
    ];
    statfs(path).is_ok_and(|found| ON_DISK.contains(&found.filesystem_type()))
}
