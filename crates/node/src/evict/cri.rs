//! Evicts a pod through the container runtime, which sends the signal that each image names. The processes exit in time
//! even if the runtime fails.

use super::{Evict, EvictError};
use evictd_cri::{Client, ContainerState, Error};
use evictd_kernel::kill::{
    CgroupEvictor, GraceCut, KillError, Method, SigtermBy, Termination, Victim,
};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

/// How long the runtime may take to list the pod's containers, unless half the grace period is shorter.
const LIST_TIMEOUT: Duration = Duration::from_secs(1);
/// The runtime's extra time after the grace period, because it kills and reaps after it.
const REAPING: Duration = Duration::from_millis(500);

/// Terminates pods on this node: through the container runtime if there is one, and in any case through their cgroups.
#[derive(Debug, Clone)]
pub(crate) struct LocalEvictor {
    /// Terminates the processes that the runtime leaves.
    pub cgroups: Arc<CgroupEvictor>,
    /// The runtime, with `evict.method: cri`.
    pub runtime: Option<Client>,
}

/// The ids of a pod in the runtime.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    sandboxes: Vec<String>,
    containers: Vec<String>,
}

/// How the wait for the runtime ended.
enum Stopped {
    /// Every container has ended.
    All,
    /// The runtime did not stop all of them.
    Failed,
    /// The grace period is over.
    Late,
}

impl LocalEvictor {
    /// Terminates the pod as [`CgroupEvictor::end`] does. With a runtime, `StopContainer` takes the place of SIGTERM. A
    /// runtime that does not answer costs at most one second of the grace period, and half a second after it. With a
    /// grace period of zero the processes are killed at once, and the runtime is informed at the same time.
    ///
    /// Those of [`CgroupEvictor::end`].
    pub(crate) async fn end(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
        sigterm_by: SigtermBy,
    ) -> Result<Termination, KillError> {
        let by_cgroup = |grace, by| self.cgroups.end(victim, grace, cut, by);
        let Some(runtime) = self.runtime.clone() else {
            return by_cgroup(grace, sigterm_by).await;
        };
        // The kill does not wait for the runtime, which only learns of it to clean up.
        if grace.is_zero() {
            tokio::spawn(tell(runtime, victim.clone()));
            return by_cgroup(grace, sigterm_by).await;
        }
        // The kubelet stops the containers through the runtime itself.
        if sigterm_by == SigtermBy::Kubelet {
            return by_cgroup(grace, sigterm_by).await;
        }
        let began = self.cgroups.clock.now();
        let left = || {
            let waited = self.cgroups.clock.now().duration_since(began);
            grace.saturating_sub(waited.unsigned_abs())
        };
        let listed = tokio::select! {
            listed = timeout(LIST_TIMEOUT.min(grace / 2), find(&runtime, victim)) => listed,
            () = cut.wait() => return by_cgroup(Duration::ZERO, sigterm_by).await,
        };
        let parts = match listed {
            Ok(Ok(parts)) if !parts.containers.is_empty() => parts,
            other => {
                let why = match other {
                    Ok(Ok(_)) => "the container runtime knows no running container of it".into(),
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "the container runtime does not answer".to_owned(),
                };
                log_fallback(victim, &why);
                return by_cgroup(left(), sigterm_by).await;
            }
        };
        let asked = self.cgroups.clock.now();
        let stopped = tokio::select! {
            stopped = stop_all(&runtime, victim, &parts, left()) => stopped,
            // The runtime kills at the end of the grace period and needs a moment to notice the exits.
            () = sleep(left() + REAPING) => Stopped::Late,
            () = cut.wait() => Stopped::Late,
        };
        let rest = match stopped {
            Stopped::Failed => left(),
            // The grace period was given by the runtime; what still runs is killed.
            Stopped::All | Stopped::Late => Duration::ZERO,
        };
        // The sandbox's own process may still run. Its network is given back whether or not that is waited for.
        tokio::spawn(stop_sandboxes(runtime, parts.sandboxes));
        let mut termination = by_cgroup(rest, sigterm_by).await?;
        // The first signal was the runtime's, at the moment of the request.
        if !matches!(stopped, Stopped::Failed) {
            termination.first_signal_at = Some(asked);
        }
        if matches!(stopped, Stopped::All) {
            termination.method = Method::TornDown;
            termination.killed_at = None;
        }
        Ok(termination)
    }
}

impl Evict for LocalEvictor {
    async fn evict(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Termination, EvictError> {
        Ok(self.end(victim, grace, cut, SigtermBy::Evictd).await?)
    }
}

/// Stops the pod in the runtime while it is being killed, so that the runtime releases its other resources for it.
async fn tell(runtime: Client, victim: Victim) {
    let Ok(parts) = find(&runtime, &victim).await else {
        return;
    };
    stop_all(&runtime, &victim, &parts, Duration::ZERO).await;
    stop_sandboxes(runtime, parts.sandboxes).await;
}

/// The sandboxes of this pod, and its containers that have not ended.
async fn find(runtime: &Client, victim: &Victim) -> Result<Parts, Error> {
    let (sandboxes, containers) = tokio::try_join!(runtime.sandboxes(), runtime.containers())?;
    let sandboxes: Vec<String> = sandboxes
        .into_iter()
        .filter(|sandbox| is_of(victim, &sandbox.pod.uid))
        .map(|sandbox| sandbox.id)
        .collect();
    let containers = containers
        .into_iter()
        .filter(|container| sandboxes.contains(&container.sandbox))
        // A call for an exited container would fail, and with it the way through the runtime.
        .filter(|container| container.state != ContainerState::Exited)
        .map(|container| container.id)
        .collect();
    Ok(Parts {
        sandboxes,
        containers,
    })
}

/// Whether the runtime means the victim by this UID: its own, or that of its cgroup, which differs for a mirror pod.
fn is_of(victim: &Victim, uid: &str) -> bool {
    let named = |cgroup: &Path| {
        let name = cgroup.file_name()?.to_str()?;
        let slice = name.strip_suffix(".slice");
        Some(match slice {
            Some(slice) => slice.ends_with(&format!("-pod{}", uid.replace('-', "_"))),
            None => name.strip_prefix("pod") == Some(uid),
        })
    };
    !uid.is_empty() && (victim.uid == uid || named(&victim.cgroup).unwrap_or(false))
}

async fn stop_all(runtime: &Client, victim: &Victim, parts: &Parts, grace: Duration) -> Stopped {
    let mut calls = JoinSet::new();
    for id in parts.containers.clone() {
        let runtime = runtime.clone();
        calls.spawn(async move { runtime.stop_container(&id, grace).await });
    }
    while let Some(answer) = calls.join_next().await {
        let why = match answer {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(lost) => lost.to_string(),
        };
        if !grace.is_zero() {
            log_fallback(victim, &why);
        }
        // The calls for the other containers go on.
        calls.detach_all();
        return Stopped::Failed;
    }
    Stopped::All
}

async fn stop_sandboxes(runtime: Client, sandboxes: Vec<String>) {
    for id in sandboxes {
        if let Err(error) = runtime.stop_sandbox(&id).await {
            tracing::warn!("the container runtime did not stop a pod's sandbox: {error}");
        }
    }
}

fn log_fallback(victim: &Victim, why: &str) {
    tracing::warn!(
        EVICTD_POD_UID = victim.uid,
        "pod {} is terminated through its cgroup: {why}",
        victim.uid
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_the_victims_only_if_its_uid_or_its_cgroup_says_so() {
        let table = [
            ("kubepods/burstable/poda-1", "a-1", true),
            ("kubepods.slice/kubepods-poda_1.slice", "a-1", true),
            ("kubepods/podother", "own", true),
            ("kubepods/poda-1", "a", false),
            ("kubepods/poda-1", "-1", false),
            ("kubepods.slice/kubepods-poda_1.slice", "1", false),
            ("kubepods/pod", "", false),
            ("kubepods/poda-1", "b-2", false),
        ];
        for (cgroup, uid, expected) in table {
            let victim = Victim {
                uid: "own".to_owned(),
                cgroup: cgroup.into(),
                sandbox: None,
            };
            assert_eq!(is_of(&victim, uid), expected, "{cgroup} {uid}");
        }
    }
}
