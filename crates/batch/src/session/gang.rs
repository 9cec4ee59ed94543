//! The smallest gang of a job: the pods that it needs to start, grouped by likeness.

use super::Session;
use super::snapshot::Job;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{ClassId, JobId, TaskId};
use crate::session::snapshot::resource::{Dim, Resource};
use crate::session::snapshot::roles::Role;
use crate::session::snapshot::task::Status;

/// Pods of a gang that are alike.
#[derive(Debug)]
pub(crate) struct Part {
    /// One of them; none where they are not made yet.
    pub(crate) task: Option<TaskId>,
    pub(crate) role: Role,
    /// The request of each pod.
    pub(crate) request: Resource,
    pub(crate) count: usize,
}

/// The pods that a job lacks to start.
#[derive(Debug)]
pub(crate) enum Gang {
    Nothing,
    /// Its pods are not made, or their requests cannot be read.
    Unknown,
    /// These pods.
    Parts(Vec<Part>),
    /// So much for so many pods; how it is divided among them is not known.
    Sum(Resource, i32),
}

impl Gang {
    /// The request of the whole gang, where it is known.
    pub(crate) fn need(&self) -> Option<Resource> {
        match self {
            Self::Unknown => None,
            Self::Nothing => Some(Resource::default()),
            Self::Sum(need, _) => Some(need.clone()),
            Self::Parts(parts) => Some(need_of(parts)),
        }
    }
}

/// The request of all these pods together.
pub(crate) fn need_of(parts: &[Part]) -> Resource {
    parts.iter().fold(Resource::default(), |mut sum, part| {
        let mut all = part.request.clone();
        #[expect(clippy::cast_precision_loss, reason = "there are not so many pods")]
        all.scale(part.count as f64);
        sum.add(&all);
        sum
    })
}

/// The smallest set of pods with which a job can start. It follows from the group's spec if not all pods exist.
pub(crate) fn smallest_gang(session: &mut Session<'_>, job_id: JobId) -> Gang {
    let snapshot = &session.tx.snapshot;
    let job = &snapshot.jobs[job_id];
    let mut needed = job.min_member - job.ready() - job.pending_best_effort;
    let lacking = snapshot.lacking_by_role(job_id);
    let by_role = job.min_task_member.iter();
    let by_role = by_role.filter_map(|(role, _)| Some((*role, *lacking.get(role)?)));
    let by_role: Vec<(Role, i32)> = by_role.collect();
    let Some(mut waiting) = waiting_parts(session, job_id) else {
        return Gang::Unknown;
    };
    let mut parts = Vec::new();
    for (role, lacking) in by_role {
        needed = needed.saturating_sub(lacking);
        let of_role = |part: &Part| part.role == role;
        if !pick(&mut waiting, lacking, of_role, &mut parts) {
            return gang_of_group(&session.tx.snapshot, job_id);
        }
    }
    if !pick(&mut waiting, needed, |_| true, &mut parts) {
        return gang_of_group(&session.tx.snapshot, job_id);
    }
    if parts.is_empty() {
        return Gang::Nothing;
    }
    // The hardest to place come first.
    let total = &session.tx.snapshot.total;
    let size = |part: &Part| part.request.dominant(total).1;
    parts.sort_by(|one, other| size(other).total_cmp(&size(one)));
    Gang::Parts(parts)
}

/// The pending tasks of a job, grouped by likeness, smallest request first. `None` if a task cannot be compiled; it
/// gets a fit error in allocate.
pub(crate) fn waiting_parts(session: &mut Session<'_>, job: JobId) -> Option<Vec<Part>> {
    let mut parts: Vec<(ClassId, Part)> = Vec::new();
    let tasks: Vec<TaskId> = session.tx.snapshot.tasks_of(job, Status::Pending).collect();
    for task_id in tasks {
        let task = &session.tx.snapshot.tasks[task_id];
        if task.gated || task.best_effort {
            continue;
        }
        let (evaluator, view) = session.evaluation();
        let class = evaluator.class(view, task_id)?;
        let task = &session.tx.snapshot.tasks[task_id];
        let mut known = parts.iter_mut();
        if let Some((_, part)) =
            known.find(|(other, part)| *other == class && part.role == task.role)
        {
            part.count += 1;
            continue;
        }
        let part = Part {
            task: Some(task_id),
            role: task.role,
            request: task.request.clone(),
            count: 1,
        };
        parts.push((class, part));
    }
    let total = &session.tx.snapshot.total;
    let mut parts: Vec<Part> = parts.into_iter().map(|(_, part)| part).collect();
    let size = |part: &Part| part.request.dominant(total).1;
    parts.sort_by(|one, other| size(one).total_cmp(&size(other)));
    Some(parts)
}

/// The gang of a job whose pods do not all exist: with a single task, each pod requests an equal part.
fn gang_of_group(snapshot: &Snapshot, job: JobId) -> Gang {
    let job = &snapshot.jobs[job];
    let (Some(need), Ok(count)) = (&job.min_resources, usize::try_from(job.min_member)) else {
        return Gang::Unknown;
    };
    let need = job.without_gated(need);
    if count == 0 || need.is_empty() || job.ready() > 0 {
        return Gang::Unknown;
    }
    // The sizes of its pods are unknown, so only their sum can be compared.
    let Some(role) = only_role(job) else {
        return Gang::Sum(need, job.min_member);
    };
    let mut request = need;
    request.scale(1.0 / f64::from(job.min_member));
    request.set(Dim::PODS, 1.0);
    Gang::Parts(vec![Part {
        task: None,
        role,
        request,
        count,
    }])
}

/// The only role of a job's smallest gang, if there is only one.
fn only_role(job: &Job) -> Option<Role> {
    let mut roles = job.min_task_member.iter().filter(|(_, min)| *min > 0);
    match (roles.next(), roles.next()) {
        (Some((role, min)), None) if *min == job.min_member => Some(*role),
        _ if job.min_member == 1 => Some(0),
        _ => None,
    }
}

/// Moves so many pods to `picked`; false if there are not so many.
fn pick(
    waiting: &mut [Part],
    count: i32,
    which: impl Fn(&Part) -> bool,
    picked: &mut Vec<Part>,
) -> bool {
    let mut left = usize::try_from(count).unwrap_or(0);
    for part in waiting.iter_mut().filter(|part| which(part)) {
        let taken = part.count.min(left);
        if taken == 0 {
            continue;
        }
        part.count -= taken;
        left -= taken;
        let mut known = picked.iter_mut();
        if let Some(known) = known.find(|known_part| known_part.task == part.task) {
            known.count += taken;
        } else {
            picked.push(Part {
                request: part.request.clone(),
                count: taken,
                ..*part
            });
        }
    }
    left == 0
}
