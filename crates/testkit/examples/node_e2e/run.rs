//! One test, and what upstream asserts in it.

use crate::machine;
use crate::pods;
use crate::suite::{Test, Threshold};
use evictd_testkit::cri::{Contents, import_with};
use evictd_testkit::{Actor, ApiServer, CriContainers, Driver, Kubelet};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const ROOT: &str = "/var/lib/kubelet";
/// Upstream: 2 s.
const POLL: Duration = Duration::from_secs(1);
/// Upstream: at once, because one program ends the pod and writes its status. Here two do, and the status is complete when both
/// have.
const REASON: Duration = Duration::from_secs(15);
/// Upstream: 30 s before pods are made.
const SETTLED_SCALED: Duration = Duration::from_secs(10);
/// An emulated processor takes seconds for each container.
const STARTED: Duration = Duration::from_mins(10);
/// Upstream: 10 to 20 min.
const PRESSURE: Duration = Duration::from_mins(10);
/// Upstream: 20 s, in which the condition may still appear.
const SURFACED_SCALED: Duration = Duration::from_secs(5);
const DISAPPEARED: Duration = Duration::from_mins(10);
/// Upstream: 1 min, in which the condition must not come back.
const STAYS_AWAY_SCALED: Duration = Duration::from_secs(20);
/// evictd writes events beside the eviction.
const WRITTEN: Duration = Duration::from_secs(20);
/// A class whose pods go after all others.
const HIGH: i64 = 999_999_999;

/// What was found so far.
#[derive(Debug, Default)]
struct Report {
    failed: bool,
}

impl Report {
    fn check(&mut self, what: &str, good: bool) {
        println!("  {} {what}", if good { "ok" } else { "FAIL" });
        self.failed |= !good;
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn error(status: evictd_testkit::Status) -> io::Error {
    io::Error::other(format!("{status:?}"))
}

/// Plays the test; whether all was as upstream wants it.
pub(crate) fn run(socket: &Path, test: &Test) -> io::Result<bool> {
    let api = ApiServer::start()?;
    let admin = api.actor("test");
    prepare(&admin, test)?;
    let containers = CriContainers::start(socket, ROOT, Driver::Systemd)?;
    let _kubelet = Kubelet::start(&api, crate::NODE, Duration::from_secs(1), containers)?;
    machine::connect(&api.kubeconfig())?;
    import_images(socket, test)?;
    machine::start(&json!({}))?;
    sleep(SETTLED_SCALED);
    let configuration = test.configuration(|signal| machine::left(signal).unwrap_or(0));
    machine::start(&configuration)?;
    let mut play = Play {
        admin,
        test,
        report: Report::default(),
        failed: BTreeMap::new(),
        explained: BTreeMap::new(),
        raised: None,
        begun: Instant::now(),
    };
    play.raises_nothing_at_rest();
    play.makes_pods()?;
    play.condition_appears();
    play.evicts_in_order();
    play.condition_disappears();
    play.writes_events();
    play.lets_another_in()?;
    Ok(!play.report.failed)
}

fn prepare(admin: &Actor, test: &Test) -> io::Result<()> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": crate::NAMESPACE}});
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": crate::HIGH_PRIORITY}, "value": HIGH,
    });
    let memory = machine::memory();
    let allocatable = match test.threshold {
        Threshold::Allocatable(mebibytes) => {
            machine::bound_pods(mebibytes)?;
            (mebibytes << 20) - (250 << 20)
        }
        _ => memory - (250 << 20),
    };
    let amounts = |memory: u64| json!({"cpu": "1", "memory": memory.to_string(), "pods": "110"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": crate::NODE},
        "status": {"capacity": amounts(memory), "allocatable": amounts(allocatable)},
    });
    for object in [namespace, class, node] {
        admin.create(object).map_err(error)?;
    }
    Ok(())
}

fn import_images(socket: &Path, test: &Test) -> io::Result<()> {
    let directory = std::env::temp_dir();
    let commands = ["sh", "sleep", "touch", "dd", "awk"];
    let work = Contents {
        commands: &commands,
        ..Contents::default()
    };
    import_with(socket, &directory, pods::IMAGE, work)?;
    for (number, files) in test.images.iter().enumerate() {
        let files = usize::try_from(*files).map_err(io::Error::other)?;
        let contents = Contents {
            files,
            ..Contents::default()
        };
        import_with(
            socket,
            &directory,
            &format!("e2e/unused-{number}:1"),
            contents,
        )?;
    }
    Ok(())
}

struct Play<'a> {
    admin: Actor,
    test: &'a Test,
    report: Report,
    /// When each pod was first seen `Failed`, by its name.
    failed: BTreeMap<String, Duration>,
    /// The same of its reason `Evicted`.
    explained: BTreeMap<String, Duration>,
    /// When the condition was first seen.
    raised: Option<Duration>,
    begun: Instant,
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

impl Play<'_> {
    fn check(&mut self, what: &str, good: bool) {
        self.report.check(what, good);
    }

    /// Polls until this succeeds.
    fn until(&mut self, at_most: Duration, mut good: impl FnMut(&mut Self) -> bool) -> bool {
        let begun = Instant::now();
        loop {
            if good(self) {
                return true;
            }
            if begun.elapsed() > at_most {
                return false;
            }
            sleep(POLL);
        }
    }

    /// Whether evictd's condition of the Node is true now; none where the test has none.
    fn pressed(&mut self) -> bool {
        let Some(condition) = self.test.condition else {
            return false;
        };
        let node = self.admin.get("nodes", crate::NODE).unwrap_or_default();
        let wanted = format!("Evictd{condition}");
        let all = node["status"]["conditions"].as_array();
        let found = all.into_iter().flatten().find(|one| one["type"] == wanted);
        let pressed = found.is_some_and(|one| one["status"] == "True");
        if pressed && self.raised.is_none() {
            self.raised = Some(self.begun.elapsed());
        }
        pressed
    }

    fn pod(&self, name: &str) -> Value {
        let at = format!("{}/{name}", crate::NAMESPACE);
        self.admin.get("pods", &at).unwrap_or_default()
    }

    fn raises_nothing_at_rest(&mut self) {
        let clear = self.until(Duration::from_mins(1), |play| !play.pressed());
        self.check("no condition before the pods are there", clear);
    }

    fn makes_pods(&mut self) -> io::Result<()> {
        self.begun = Instant::now();
        for spec in &self.test.pods {
            self.admin.create(spec.pod.clone()).map_err(error)?;
        }
        let test = self.test;
        let run = self.until(STARTED, |play| {
            // The first may be evicted before the last one runs.
            play.pressed();
            play.keeps_order();
            test.pods.iter().all(|spec| {
                let phase = &play.pod(name(&spec.pod))["status"]["phase"];
                phase == "Running" || phase == "Failed"
            })
        });
        self.check("every pod runs, or did", run);
        Ok(())
    }

    fn condition_appears(&mut self) {
        let Some(condition) = self.test.condition else {
            return;
        };
        let found = self.until(PRESSURE, |play| {
            play.keeps_order();
            play.pressed() || play.raised.is_some()
        });
        self.check(&format!("the Node has {condition}"), found);
        let after = self.raised.unwrap_or_default().as_secs_f64();
        println!("  -- {condition} {after:.1} s after the pods");
    }

    /// What holds at every moment: who may not have failed yet has not, and whoever failed was evicted.
    fn keeps_order(&mut self) -> bool {
        let phases: Vec<(u32, String, Value)> = (self.test.pods.iter())
            .map(|spec| {
                let name = name(&spec.pod);
                (
                    spec.priority,
                    name.to_owned(),
                    self.pod(name)["status"].clone(),
                )
            })
            .collect();
        let mut pending = false;
        for (priority, name, status) in &phases {
            let phase = status["phase"].as_str().unwrap_or_default();
            let failed = phase == "Failed";
            let new = failed && !self.failed.contains_key(name);
            if new {
                self.failed.insert(name.clone(), self.begun.elapsed());
                let after = self.begun.elapsed().as_secs_f64();
                println!(
                    "  -- {name} failed {after:.1} s after the pods were made: {}",
                    status["message"]
                );
                let earlier = phases
                    .iter()
                    .find(|(other, _, status)| other > priority && status["phase"] == "Running");
                self.check(
                    &format!("no pod that goes before {name} still runs"),
                    earlier.is_none(),
                );
            }
            if failed && status["reason"] == "Evicted" {
                let now = self.begun.elapsed();
                self.explained.entry(name.clone()).or_insert(now);
            }
            if *priority == 0 && new {
                self.check(&format!("{name} is never evicted"), false);
            }
            if phase == "Succeeded" {
                self.check(&format!("{name} does not end by itself"), false);
            }
            pending |= *priority > 0 && !failed;
        }
        !pending
    }

    fn evicts_in_order(&mut self) {
        let all = self.until(PRESSURE, |play| {
            play.pressed();
            play.keeps_order()
        });
        self.check("every pod that must be evicted is", all);
        self.gives_the_reason();
        if let Some(at_most) = self.test.at_most {
            let raised = self.raised.unwrap_or_default();
            let last = self.failed.values().max().copied().unwrap_or(Duration::MAX);
            let took = last.saturating_sub(raised);
            let (took_s, most) = (took.as_secs_f64(), at_most.as_secs());
            self.check(
                &format!("within {most} s of the condition: {took_s:.1} s"),
                took <= at_most,
            );
        }
        if self.test.disruption_target {
            let test = self.test;
            let marked = test.pods.iter().all(|spec| {
                let pod = self.pod(name(&spec.pod));
                let all = pod["status"]["conditions"].as_array();
                all.into_iter()
                    .flatten()
                    .any(|one| one["type"] == "DisruptionTarget" && one["status"] == "True")
            });
            self.check("with the condition DisruptionTarget", marked);
        }
    }

    fn is_evicted(&self, name: &str) -> bool {
        let status = &self.pod(name)["status"];
        status["phase"] == "Failed" && status["reason"] == "Evicted"
    }

    /// Each that failed shows the reason `Evicted`. The kubelet may write its own view over it first.
    fn gives_the_reason(&mut self) {
        self.until(REASON, |play| {
            play.keeps_order();
            play.failed.keys().all(|name| play.is_evicted(name))
        });
        self.shows_the_reason("");
    }

    fn shows_the_reason(&mut self, when: &str) {
        for (name, failed) in self.failed.clone() {
            let after = (self.explained.get(&name)).map(|at| at.saturating_sub(failed));
            let told = after.map_or("never".to_owned(), |after| {
                format!("first {:.1} s after its phase", after.as_secs_f64())
            });
            let shown = self.is_evicted(&name);
            self.check(
                &format!("{name} is Failed, and its reason is Evicted{when} ({told})"),
                shown,
            );
        }
    }

    fn condition_disappears(&mut self) {
        sleep(SURFACED_SCALED);
        let gone = self.until(DISAPPEARED, |play| {
            play.keeps_order();
            !play.pressed()
        });
        if let Some(condition) = self.test.condition {
            let after = self.begun.elapsed().as_secs_f64();
            self.check(
                &format!("{condition} disappears: {after:.1} s after the pods were made"),
                gone,
            );
        }
        let begun = Instant::now();
        let mut stays_away = true;
        while begun.elapsed() < STAYS_AWAY_SCALED {
            stays_away &= !self.pressed();
            self.keeps_order();
            sleep(POLL);
        }
        self.check("it stays away, and no other pod fails", stays_away);
        self.shows_the_reason(" in the end");
        let test = self.test;
        for spec in test.pods.iter().filter(|spec| spec.priority == 0) {
            let name = name(&spec.pod);
            let runs = self.pod(name)["status"]["phase"] == "Running";
            self.check(&format!("{name} still runs"), runs);
        }
    }

    /// The events about a pod's eviction.
    fn events(&self, pod: &str) -> Vec<Value> {
        let mut all = self.admin.list("events");
        all.retain(|event| {
            event["reason"] == "Evicted"
                && [&event["regarding"], &event["involvedObject"]]
                    .iter()
                    .any(|about| about["name"] == pod && about["kind"] == "Pod")
        });
        all
    }

    fn writes_events(&mut self) {
        let test = self.test;
        for spec in test.pods.iter().filter(|spec| spec.priority > 0) {
            let name = name(&spec.pod);
            self.until(WRITTEN, |play| !play.events(name).is_empty());
            let events = self.events(name);
            let count = events.len();
            self.check(
                &format!("one event Evicted about {name}: {count}"),
                count == 1,
            );
            let (Some(event), Some(starved)) = (events.first(), test.starved) else {
                continue;
            };
            let annotations = &event["metadata"]["annotations"];
            let found = &annotations["starved_resource"];
            self.check(
                &format!("its starved_resource is {starved}: {found}"),
                found == starved,
            );
            if starved == "memory" {
                self.names_the_container(&spec.pod, annotations);
            }
        }
    }

    fn names_the_container(&mut self, pod: &Value, annotations: &Value) {
        let container = &pod["spec"]["containers"][0];
        let found = &annotations["offending_containers"];
        self.check(
            &format!("its offending_containers is the one container: {found}"),
            *found == container["name"],
        );
        let usage = annotations["offending_containers_usage"].as_str();
        let usage = usage.unwrap_or_default();
        // None of them requests memory: any amount is above its request.
        let digits = usage.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        let above = digits.parse::<u64>().is_ok_and(|amount| amount > 0);
        self.check(
            &format!("its offending_containers_usage is one amount above the request: {usage}"),
            above,
        );
    }

    fn lets_another_in(&mut self) -> io::Result<()> {
        let test = self.test;
        for spec in &test.pods {
            let at = format!("{}/{}", crate::NAMESPACE, name(&spec.pod));
            // An evicted one may be gone already.
            let _ = self.admin.delete("pods", &at, json!({}));
        }
        let gone = self.until(Duration::from_mins(2), |play| {
            let pods = play.admin.list("pods");
            pods.iter()
                .all(|pod| pod["spec"]["nodeName"] != crate::NODE)
        });
        self.check("the pods can be deleted", gone);
        let clear = self.until(DISAPPEARED, |play| !play.pressed());
        self.check("no condition afterwards", clear);
        let late = pods::late();
        self.check("evictd would admit another pod", machine::admits(&late)?);
        self.admin.create(late).map_err(error)?;
        let phase = |play: &Self| play.pod("test-admit-pod")["status"]["phase"].clone();
        let runs = self.until(Duration::from_mins(1), |play| phase(play) == "Running");
        sleep(SURFACED_SCALED);
        let stays = phase(self) == "Running";
        self.check("another pod starts and stays", runs && stays);
        Ok(())
    }
}
