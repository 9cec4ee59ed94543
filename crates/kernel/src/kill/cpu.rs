//! Lifts CPU limits of killed pods. A killed process frees its memory on its own pod's CPU time, so a CPU limit can
//! stretch that to seconds.

use crate::cgroup::{GroupDir, is_removed};

/// Files and values that give a cgroup all available CPU time; files that the kernel does not have are skipped. The
/// weight only matters among pods of the same QoS class, because evictd does not touch the classes' own cgroups.
const UNLIMITED: [(&str, &str); 4] = [
    ("cpu.max", "max"),
    ("cpu.weight", "10000"),
    ("cpu.cfs_quota_us", "-1"),
    ("cpu.shares", "262144"),
];
/// The most cgroups of one pod whose limits are lifted; each costs an open descriptor until the end.
const MAX_CGROUPS: usize = 64;
/// How often the restoring of a limit is tried.
const TRIES: u32 = 3;

/// A cgroup, and all below it, without CPU limits. When this is dropped the old limits are restored in the cgroups
/// that still exist, for processes that may be started in them later.
#[derive(Default)]
pub(super) struct LiftedLimits(Vec<Lifted>);

struct Lifted {
    dir: GroupDir,
    before: Vec<(&'static str, Vec<u8>)>,
}

impl LiftedLimits {
    /// `dir` is in the hierarchy of the CPU controller.
    pub(super) fn below(dir: GroupDir) -> Self {
        let mut lifted = Self::default();
        let mut next = vec![dir];
        while let Some(dir) = next.pop()
            && lifted.0.len() < MAX_CGROUPS
        {
            let names = dir.children().unwrap_or_default();
            next.extend(names.iter().filter_map(|name| dir.child(name).ok()));
            let before = lift(&dir);
            if !before.is_empty() {
                lifted.0.push(Lifted { dir, before });
            }
        }
        lifted
    }
}

/// Lifts the limits of one cgroup; returns the old ones.
fn lift(dir: &GroupDir) -> Vec<(&'static str, Vec<u8>)> {
    let mut changed = Vec::new();
    for (file, value) in UNLIMITED {
        // The file is missing on the other version of cgroups, or without the controller.
        let Ok(before) = dir.read(file) else {
            continue;
        };
        match dir.write(file, value.as_bytes()) {
            Ok(()) => changed.push((file, before)),
            Err(error) => {
                let path = dir.path().join(file);
                tracing::debug!(path = %path.display(), %error, "its exit may take longer");
            }
        }
    }
    changed
}

impl Drop for LiftedLimits {
    fn drop(&mut self) {
        for Lifted { dir, before } in &self.0 {
            for (file, before) in before {
                restore(dir, file, before);
            }
        }
    }
}

fn restore(dir: &GroupDir, file: &str, before: &[u8]) {
    let mut restored = Ok(());
    for _ in 0..TRIES {
        restored = dir.write(file, before);
        if restored.as_ref().err().is_none_or(is_removed) {
            return;
        }
    }
    if let Err(error) = restored {
        let path = dir.path().join(file);
        let before = String::from_utf8_lossy(before);
        tracing::warn!(path = %path.display(), %error, "cannot put back {before:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn limits_are_lifted_all_the_way_down_and_put_back() {
        let pod = tempfile::tempdir().unwrap();
        let container = pod.path().join("container");
        fs::create_dir(&container).unwrap();
        let files = [(pod.path(), &UNLIMITED[..2]), (&container, &UNLIMITED[2..])];
        for (dir, file) in files
            .iter()
            .flat_map(|(dir, of)| of.iter().map(move |(file, _)| (dir, file)))
        {
            fs::write(dir.join(file), "5000 ").unwrap();
        }
        let all = |expected: &dyn Fn(&str) -> String| {
            for (dir, of) in files {
                let there = UNLIMITED.iter().filter(|(file, _)| dir.join(file).exists());
                assert_eq!(there.count(), 2, "no file is made");
                for (file, value) in of {
                    let found = fs::read_to_string(dir.join(file)).unwrap();
                    assert!(found.starts_with(&expected(value)), "{file}: {found}");
                }
            }
        };
        let lifted = LiftedLimits::below(GroupDir::open(pod.path()).unwrap());
        all(&|value| value.to_owned());
        drop(lifted);
        all(&|_| "5000 ".to_owned());
        fs::remove_dir_all(container).unwrap();
        drop(LiftedLimits::below(GroupDir::open(pod.path()).unwrap()));
    }
}
