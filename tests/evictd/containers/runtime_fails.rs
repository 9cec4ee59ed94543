//! The runtime is frozen, gone or started anew while a disk decision needs it to free something before a pod goes.

use super::{Site, plain, scratch};
use crate::daemon::{Daemon, names, wait};
use crate::run_daemon::reclaim::available;
use evictd_testkit::cri::Containerd;
use nix::sys::signal::Signal;
use serde_json::Value;

const MI: u64 = 1 << 20;
/// What a question to the runtime and a reclaim may take before the decision goes on, and some time of a busy machine.
const MOST_SECONDS: f64 = 10.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Runtime {
    Runs,
    Frozen,
    Gone,
    RestartedMeanwhile,
}

impl Runtime {
    fn before_the_crossing(self, containerd: &mut Containerd) {
        match self {
            Self::Runs => {}
            Self::Frozen | Self::RestartedMeanwhile => containerd.signal(Signal::SIGSTOP).unwrap(),
            Self::Gone => containerd.stop(),
        }
    }

    fn after_it(self, containerd: &mut Containerd, daemon: &Daemon) {
        if self == Self::RestartedMeanwhile {
            daemon.eventually("the decision is under way", |daemon| {
                // The condition may have been raised before this daemon began.
                daemon.status().to_string().contains("\"met\":true")
            });
            containerd.restart().unwrap();
        }
    }

    fn in_the_end(self, containerd: &mut Containerd) {
        match self {
            Self::Runs | Self::RestartedMeanwhile => {}
            Self::Frozen => containerd.signal(Signal::SIGCONT).unwrap(),
            Self::Gone => containerd.restart().unwrap(),
        }
    }
}

#[test]
fn a_disk_decision_waits_for_a_runtime_no_longer_than_its_time_out() {
    let test = "a_disk_decision_waits_for_a_runtime";
    let Some(mut site) = Site::on_disk(test, 400) else {
        return;
    };
    let disk = site.disk.as_ref().unwrap().0.clone();
    let writes = |count: u32| {
        format!("dd if=/dev/zero of=/scratch/data bs=1M count={count}; exec sleep 1000")
    };
    let calm = site.pod("calm", &plain(), &scratch(&Value::Null));
    let calm = site.run(&calm, &writes(4));
    for state in [
        Runtime::Runs,
        Runtime::Frozen,
        Runtime::Gone,
        Runtime::RestartedMeanwhile,
    ] {
        nix::unistd::sync();
        let before = available(&disk);
        let name = format!("hog-{state:?}").to_lowercase();
        let hog = site.pod(&name, &plain(), &scratch(&Value::Null));
        let volume = site.scratch(&hog);
        site.run(&hog, &writes(40));
        assert!(wait(|| available(&disk) + 39 * MI < before));
        site.forget();
        let daemon = site.daemon(&[("nodefs.available", "1Mi")], "");
        daemon.eventually("it knows the pod", |daemon| daemon.pods().contains(&name));
        state.before_the_crossing(&mut site.containerd);
        let threshold = (available(&disk) + 20 * MI).to_string();
        daemon.reload(
            &site.cluster.node,
            &[("nodefs.available", &threshold)],
            &site.lines(""),
        );
        state.after_it(&mut site.containerd, &daemon);
        let decisions = daemon.evicted(1);
        assert_eq!(names(&decisions), [format!("shop/{name}")], "{state:?}");
        let reaction = decisions[0]["outcome"]["reactionSeconds"].as_f64().unwrap();
        eprintln!("containerd {state:?}: {reaction:.3} s");
        assert!(reaction < MOST_SECONDS, "{state:?}: {:#}", decisions[0]);
        // The kubelet's part.
        std::fs::remove_dir_all(volume).unwrap();
        state.in_the_end(&mut site.containerd);
        daemon.eventually("the runtime is heard again", |daemon| {
            // It is asked for writable layers when somebody wants to know them.
            daemon.get("/v1/ranking?signal=nodefs.available");
            !daemon.status().to_string().contains("does not answer")
        });
        assert!(site.lives(&calm), "{state:?}");
        drop(daemon);
        site.cluster.delete(&name);
        site.containerd.remove(&hog.pod);
    }
}
