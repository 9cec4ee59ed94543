//! An evictor of the pod `pod` in a test's cgroup.

use crate::cgroup_support::TestCgroup;
use evictd_kernel::cgroup::{DEFAULT_ROOT, Hierarchies};
use evictd_kernel::clock::Clock;
use evictd_kernel::kill::{CgroupEvictor, Victim};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Lives on after SIGTERM.
pub(crate) const IGNORES_TERM: &str = "trap '' TERM; echo ready; while :; do sleep 0.05; done";

pub(crate) fn evictor(group: &TestCgroup) -> CgroupEvictor {
    CgroupEvictor {
        hierarchies: Hierarchies::detect(Path::new(DEFAULT_ROOT)).unwrap(),
        proc_root: "/proc".into(),
        pod_roots: vec![group.relative.clone()],
        kill_deadline: Duration::from_secs(20),
        clock: Clock::start(),
        spare: Arc::default(),
    }
}

pub(crate) fn victim(group: &TestCgroup) -> Victim {
    Victim {
        uid: "uid".into(),
        cgroup: group.relative.join("pod"),
        sandbox: None,
    }
}
