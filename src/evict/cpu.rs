//! A killed process gives back its memory on its own pod's CPU time, and a limit draws that out for seconds.

use super::group::write_switch;
use crate::cgroup::subdirectories;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// What lets a group have all the CPU time that is to be had; those that a kernel has not are skipped. The weight counts
/// among pods of the same QoS class only: the classes' own groups are the kubelet's.
const FREE: [(&str, &str); 4] = [
    ("cpu.max", "max"),
    ("cpu.weight", "10000"),
    ("cpu.cfs_quota_us", "-1"),
    ("cpu.shares", "262144"),
];

/// A group, and all below it, that may use the CPU time that they need to end. What they were allowed before is put back when
/// this is dropped, where they are still there: what starts in them again is no matter of ours.
#[derive(Default)]
pub(super) struct Freed(Vec<(PathBuf, String)>);

impl Freed {
    /// `dir` is in the hierarchy of the CPU controller.
    pub(super) fn below(dir: &Path) -> Self {
        let mut freed = Self::default();
        freed.free(dir);
        freed
    }

    fn free(&mut self, dir: &Path) {
        for (file, value) in FREE {
            let file = dir.join(file);
            let Ok(before) = fs::read_to_string(&file) else {
                continue;
            };
            match write_switch(&file, value) {
                Ok(()) => self.0.push((file, before)),
                Err(error) => {
                    tracing::debug!(path = %file.display(), %error, "its end may take longer");
                }
            }
        }
        for child in subdirectories(dir).unwrap_or_default() {
            self.free(&dir.join(child));
        }
    }
}

impl Drop for Freed {
    fn drop(&mut self) {
        for (file, before) in &self.0 {
            match write_switch(file, before) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %file.display(), %error, "cannot put back {before:?}");
                }
                _ => {}
            }
        }
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
        let files = [(pod.path(), &FREE[..2]), (&container, &FREE[2..])];
        for (dir, file) in files
            .iter()
            .flat_map(|(dir, of)| of.iter().map(move |(file, _)| (dir, file)))
        {
            fs::write(dir.join(file), "5000 ").unwrap();
        }
        let all = |expected: &dyn Fn(&str) -> String| {
            for (dir, of) in files {
                let there = FREE.iter().filter(|(file, _)| dir.join(file).exists());
                assert_eq!(there.count(), 2, "no file is made");
                for (file, value) in of {
                    let found = fs::read_to_string(dir.join(file)).unwrap();
                    assert!(found.starts_with(&expected(value)), "{file}: {found}");
                }
            }
        };
        let freed = Freed::below(pod.path());
        all(&|value| value.to_owned());
        drop(freed);
        all(&|_| "5000 ".to_owned());
        fs::remove_dir_all(container).unwrap();
        drop(Freed::below(pod.path()));
    }
}
