//! What the daemon sends to the runtime and hears from it fails, one call after the other: the hog goes, and nobody else.

use super::{Bound, Site, plain, scratch};
use crate::cgroup_support::left_out;
use crate::daemon::{Daemon, wait};
use crate::faults::cases;
use crate::faults::tracer::{Plan, Tracer, Watch};
use crate::run_daemon::cri::{HOG, LOW, Pods, SCARCE};
use crate::run_daemon::reclaim::available;
use serde_json::Value;
use std::fs;

const MI: u64 = 1 << 20;

/// What is short: for a disk the runtime frees what it can before a pod goes.
#[derive(Clone, Copy, PartialEq)]
enum Short {
    Memory,
    Disk,
}

/// The daemon ends before its tracer, which waits for that.
struct Stage {
    daemon: Daemon,
    tracer: Tracer,
    site: Site,
    calm: Bound,
    remains: String,
    short: Short,
    played: u32,
}

impl Stage {
    fn new(test: &str, mut site: Site, short: Short) -> Option<Self> {
        let calm = site.pod("calm", &plain(), &scratch(&Value::Null));
        let remains = site.run(&calm, "exec sleep 1000");
        Pods::of(&site.containerd).limit(SCARCE);
        let evict = "evict: {method: cri}\n";
        let daemon = match (&site.disk, short) {
            (Some(disk), Short::Disk) => {
                let low = (available(&disk.0) - 40 * MI).to_string();
                site.daemon(&[("nodefs.available", &low)], evict)
            }
            _ => site.daemon(&LOW, evict),
        };
        let tracer = Tracer::attach(daemon.pid())
            .map_err(|error| left_out(test, format!("the daemon cannot be traced: {error}")))
            .ok()?;
        Some(Self {
            daemon,
            tracer,
            site,
            calm,
            remains,
            short,
            played: 0,
        })
    }

    /// A container that has ended, and a later one, so that the runtime may remove the first.
    fn leave_a_dead_container(&self) {
        for attempt in [2 * self.played, 2 * self.played + 1] {
            let job = ("job", attempt);
            let ends = ["true"];
            let site = &self.site;
            let made = site
                .containerd
                .container(&self.calm.pod, job, super::APP, &ends);
            let made = made.unwrap();
            assert!(wait(|| !site.lives(&made)));
        }
    }

    /// One more pod grows and these calls fail; the calls that there were.
    fn play(&mut self, plan: Option<&Plan>) -> Vec<String> {
        self.played += 1;
        let does = match self.short {
            Short::Memory => HOG[2],
            Short::Disk => "dd if=/dev/zero of=/scratch/data bs=1M count=70; exec sleep 1000",
        };
        if self.short == Short::Disk {
            self.leave_a_dead_container();
        }
        let name = format!("hog-{}", self.played);
        let hog = self.site.pod(&name, &plain(), &scratch(&Value::Null));
        let waits = format!("until [ -e /scratch/go ]; do sleep 0.1; done; {does}");
        let container = self.site.run(&hog, &waits);
        let knows = |daemon: &Daemon| daemon.pods() == ["calm", name.as_str()];
        self.daemon.eventually("all pods are known", knows);
        self.tracer.begin(Watch {
            local_connections: true,
            plan: plan.cloned(),
            ..Watch::default()
        });
        let volume = self.site.scratch(&hog);
        fs::write(volume.join("go"), "").unwrap();
        let gone = wait(|| !self.site.lives(&container));
        let told = || {
            let pod = self.site.cluster.admin.get("pods", &format!("shop/{name}"));
            pod.is_some_and(|pod| pod["status"]["phase"] == "Failed")
        };
        let told = gone && wait(told);
        let seen = self.tracer.end().seen;
        assert!(gone, "{name} lives on after {plan:?}; calls: {seen:#?}");
        assert!(told, "what became of {name} is not told after {plan:?}");
        assert!(
            self.site.lives(&self.remains),
            "somebody else has gone after {plan:?}"
        );
        fs::remove_dir_all(volume).unwrap();
        self.site.cluster.delete(&name);
        self.site.containerd.remove(&hog.pod);
        seen
    }
}

fn every_call_fails(test: &str, site: Option<Site>, short: Short) {
    let Some(mut stage) = site.and_then(|site| Stage::new(test, site, short)) else {
        return;
    };
    let calls = stage.play(None);
    assert!(!calls.is_empty(), "the runtime was not asked");
    let cases = cases(&calls);
    eprintln!("{test}: {} cases in {} calls", cases.len(), calls.len());
    for case in &cases {
        stage.play(Some(case));
    }
    let evicted = usize::try_from(stage.played).unwrap();
    assert_eq!(stage.daemon.said("evicting "), evicted);
}

#[test]
fn whatever_fails_of_an_eviction_by_the_runtime_the_hog_goes_and_nobody_else() {
    let test = "whatever_fails_of_an_eviction_by_the_runtime";
    every_call_fails(test, Site::new(test), Short::Memory);
}

#[test]
fn whatever_fails_of_a_reclaim_the_hog_goes_and_nobody_else() {
    let test = "whatever_fails_of_a_reclaim";
    every_call_fails(test, Site::on_disk(test, 400), Short::Disk);
}
