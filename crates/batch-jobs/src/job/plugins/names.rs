//! Names of the job's pods that plugins write into every pod: built once for all pods, and bounded by the size of a pod.

use super::super::failure::RoundError;
use super::{Plugin, mpi, of, svc, tensorflow};
use evictd_batch_objects::{Job, TaskSpec};

/// The variables and annotations that a job's plugins give its pods.
#[derive(Default)]
pub(in super::super) struct Names {
    /// The whole cluster in the form of `TF_CONFIG`, if there is more than one pod.
    pub(super) tensorflow: Option<tensorflow::Cluster>,
    /// The name of the master of `mpi`, and all its workers.
    pub(super) mpi: Option<(String, String)>,
    /// The bytes of the variables that `svc` adds.
    svc: usize,
}

impl Names {
    /// How many bytes each container of a pod gets at least, beside those that initialise it.
    pub(in super::super) fn of_main(&self) -> usize {
        self.tensorflow
            .as_ref()
            .map_or(0, tensorflow::Cluster::bytes)
    }

    /// How many bytes every container of a pod of this task gets at least.
    pub(in super::super) fn of_every(&self, task: &TaskSpec) -> usize {
        let mpi = self.mpi.as_ref().filter(|(master, _)| *master == task.name);
        mpi.map_or(0, |(_, workers)| workers.len())
            .saturating_add(self.svc)
    }
}

/// The names that the job's plugins give its pods. A job with an unknown plugin has no pods.
pub(in super::super) fn names(job: &Job) -> Result<Names, RoundError> {
    let mut names = Names::default();
    for (plugin, arguments) in of(job).unwrap_or_default() {
        match plugin {
            Plugin::Tensorflow => names.tensorflow = tensorflow::cluster(job, arguments)?,
            Plugin::Mpi => names.mpi = mpi::workers(job, arguments)?,
            Plugin::Svc => names.svc = svc::bytes_of_variables(job, arguments),
            _ => {}
        }
    }
    Ok(names)
}
