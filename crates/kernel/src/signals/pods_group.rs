//! The cgroup with all pods in it. The kubelet may use one of several paths for it.

use super::Renewal;
use crate::kernel_file::ReadError;

/// The files of the possible cgroups, for one controller.
#[derive(Debug)]
pub(super) struct PodsGroup<T> {
    /// The cgroup that existed at the last read comes first.
    candidates: Vec<T>,
    /// None of them existed at the last read.
    missing: bool,
}

impl<T> PodsGroup<T> {
    pub(super) fn new(candidates: impl IntoIterator<Item = T>) -> Self {
        Self {
            candidates: candidates.into_iter().collect(),
            missing: false,
        }
    }

    /// Whether such a cgroup may exist.
    pub(super) fn is_possible(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Reads the first cgroup that exists; `None` while none does. Looking for a missing one costs more than reading
    /// an existing one, so it is done rarely: a new cgroup is empty at first. On a node near a threshold it is done
    /// each time.
    pub(super) fn read<R>(
        &mut self,
        renewal: Renewal,
        mut read: impl FnMut(&mut T) -> Result<R, ReadError>,
    ) -> Option<Result<R, ReadError>> {
        if self.missing && !renewal.due && !renewal.fast {
            return None;
        }
        self.missing = false;
        for place in 0..self.candidates.len() {
            match read(&mut self.candidates[place]) {
                Err(error) if error.is_missing() => {}
                found => {
                    self.candidates.swap(0, place);
                    return Some(found);
                }
            }
        }
        self.missing = true;
        None
    }
}
