//! A process that may open no further file ends a pod with those that it keeps back. It is a program of its own: all its
//! threads would feel that limit.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may panic, its helpers too"
)]

#[allow(dead_code, reason = "other tests need what these do not")]
#[path = "support/cgroup.rs"]
mod cgroup_support;
#[path = "support/evictor.rs"]
mod evictor_support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cgroup_support::TestCgroup;
use evictd_kernel::kill::{CgroupEvictor, GraceCut, KillError, SigtermBy, SpareFiles};
use evictor_support::{IGNORES_TERM, evictor, victim};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// No file can be opened until this is dropped.
struct NoFiles(Rlimit);

impl NoFiles {
    fn new() -> Self {
        let before = getrlimit(Resource::Nofile);
        let is_unused = |number: &u64| !Path::new(&format!("/proc/self/fd/{number}")).exists();
        let limit = Rlimit {
            current: (0..4096).find(is_unused),
            ..before
        };
        setrlimit(Resource::Nofile, limit).unwrap();
        assert!(std::fs::File::open("/dev/null").is_err());
        Self(before)
    }
}

impl Drop for NoFiles {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Nofile, self.0);
    }
}

#[tokio::test]
async fn a_process_that_may_open_no_further_file_ends_a_pod_all_the_same() {
    let test = "a_process_that_may_open_no_further_file_ends_a_pod_all_the_same";
    for hierarchies in [
        &["memory", "pids", "unified", "freezer"][..],
        &["memory", "pids", "freezer"],
        &["pids"],
    ] {
        let Some(mut group) = TestCgroup::new(test, hierarchies) else {
            continue;
        };
        let processes = ["pod/app", "pod/beside"].map(|name| group.script(name, IGNORES_TERM));
        let mut evictor = CgroupEvictor {
            kill_deadline: Duration::from_millis(100),
            ..evictor(&group)
        };
        let victim = victim(&group);
        let cut = GraceCut::default();
        let grace = Duration::ZERO;
        let without = {
            let _none = NoFiles::new();
            evictor.end(&victim, grace, &cut, SigtermBy::Evictd).await
        };
        assert!(
            matches!(without, Err(KillError::GaveUp { .. })),
            "{without:?}"
        );

        evictor.spare = Arc::new(SpareFiles::filled());
        evictor.kill_deadline = Duration::from_secs(20);
        let departure = {
            let _none = NoFiles::new();
            evictor
                .end(&victim, grace, &cut, SigtermBy::Evictd)
                .await
                .unwrap()
        };
        assert!(departure.gone_at.is_some() && departure.survivors.is_empty());
        assert!(processes.into_iter().all(TestCgroup::has_ended));
    }
}
