//! The engine against an API server. The tests read its metrics and set its clocks.

mod permit;

use super::{Engine, Ports};
use crate::run::deadline::Deadline;
use crate::run::events::Events;
use crate::run::extenders::Extenders;
use crate::run::metrics::{Metrics, MetricsRecorder};
use crate::run::pod_ref::PodRef;
use crate::run::resources::ResourceMetrics;
use crate::run::view::View;
use crate::run::watches::{self, Reflectors};
use crate::run::writer::{Limits, Writer};
use axum::body::to_bytes;
use evictd_cluster_client::events::Group;
use evictd_cluster_client::lease::Role;
use evictd_cluster_client::{Access, Credentials, Watches, news};
use evictd_daemon::metrics::{Exposition, Format};
use evictd_placement::{Cluster, Filter, Here, Plugin, Pod, Rejection};
use evictd_scheduling::{Framework, Recorder, Scheduler, Settings};
use evictd_testkit::testing::wait_until;
use evictd_testkit::{Actor, ApiServer, Fault};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

struct Running {
    api: ApiServer,
    admin: Actor,
    events: Events,
    exposition: Exposition,
    view: View,
    resources: ResourceMetrics,
    _stop: DropGuard,
    _role: watch::Sender<Role>,
}

impl Running {
    async fn start(nodes: &[(&str, &str)]) -> Self {
        Self::with(nodes, |_| {}).await
    }

    /// With further plugins.
    async fn with(nodes: &[(&str, &str)], more: impl Fn(&mut Framework)) -> Self {
        Self::at(nodes, more, (Timestamp::now, Deadline::default())).await
    }

    /// With these clocks.
    async fn at(
        nodes: &[(&str, &str)],
        more: impl Fn(&mut Framework),
        (now, deadline): (fn() -> Timestamp, Deadline),
    ) -> Self {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("test");
        for (name, cpu) in nodes {
            node(&admin, name, cpu);
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "{}", api.kubeconfig()).unwrap();
        let credentials = Credentials {
            kubeconfig: Some(file.path().to_owned()),
            context: String::new(),
        };
        let access = Access::find(&credentials).await.unwrap();
        let actions = access.actions().unwrap();
        let names = [("default-scheduler", Group::Events)];
        let events = Events::new(&actions, "here", names, Timestamp::now);
        let (send, watch_events) = news();
        let reflectors = Reflectors {
            access: &access,
            events: &send,
            watches: &Watches::default(),
        };
        let (resources, questions) =
            ResourceMetrics::new(Arc::new(AtomicBool::new(true)), Arc::default());
        watches::start(reflectors, false, questions);
        watches::start_taint_rules(reflectors, true);
        let (metrics, exposition) = Metrics::new(false);
        let recorder = Arc::new(MetricsRecorder::new(metrics.clone()));
        let (role_sender, role) = watch::channel(Role::Leader);
        let (synced, _) = watch::channel(false);
        let view = View::default();
        let ports = Ports {
            writer: Writer::new(actions, events.clone(), Limits::default(), &metrics),
            events: events.clone(),
            watch_events,
            role,
            synced,
            recorder: Arc::clone(&recorder),
            metrics,
            view: view.clone(),
            extenders: Extenders::none(),
            batch: None,
            now,
            deadline,
        };
        let scheduler = Scheduler::new(Settings::default(), false, |cluster| {
            let mut framework = Framework::of_default(cluster);
            framework.recorder = Arc::clone(&recorder) as Arc<dyn Recorder>;
            more(&mut framework);
            Ok::<_, String>(vec![framework])
        });
        let stop = CancellationToken::new();
        tokio::spawn(Engine::new(scheduler.unwrap(), ports).run(stop.clone()));
        Self {
            api,
            admin,
            events,
            exposition,
            view,
            resources,
            _stop: stop.drop_guard(),
            _role: role_sender,
        }
    }

    /// Waits until the metrics have this line.
    fn until(&self, line: &str) {
        let mut text = String::new();
        let whole = format!("{line}\n");
        wait_until(&format!("the metrics have {line}"), || {
            text = self.exposition.render(Format::Plain).unwrap();
            text.contains(&whole)
        });
    }

    fn until_bound(&self, name: &str) {
        wait_until(&format!("{name} has its node"), || {
            node_of(&self.admin, name).is_string()
        });
    }
}

fn node(admin: &Actor, name: &str, cpu: &str) {
    let amounts = json!({ "cpu": cpu, "memory": "8Gi", "pods": "110" });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": { "allocatable": amounts, "capacity": amounts },
    });
    admin.create(node).unwrap();
}

fn pod(name: &str, cpu: &str, priority: i32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": { "priority": priority, "schedulerName": "default-scheduler", "containers": [{ "name": "main", "image": "none",
            "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } } }] },
    })
}

fn node_of(admin: &Actor, name: &str) -> Value {
    let pod = admin.get("pods", &format!("default/{name}"));
    pod.map_or(Value::Null, |pod| pod["spec"]["nodeName"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn extension_points_plugins_hints_and_events_are_measured() {
    // A single node is not scored.
    let running = Running::start(&[("one", "2"), ("other", "2")]).await;
    running.admin.create(pod("small", "1", 0)).unwrap();
    running.until_bound("small");
    running.admin.create(pod("large", "64", 0)).unwrap();
    running.until("scheduler_schedule_attempts_total{result=\"unschedulable\",profile=\"default-scheduler\"} 1");
    // The hint of the plugin that rejected the large pod is asked, because nothing has woken the pod before.
    node(&running.admin, "two", "1");
    let point = |point: &str, status: &str| {
        format!("extension_point=\"{point}\",status=\"{status}\",profile=\"default-scheduler\"}}")
    };
    let has = |line: String| {
        wait_until(&line, || {
            let text = running.exposition.render(Format::Plain).unwrap();
            text.lines()
                .any(|known| known.starts_with(&line) && !known.ends_with(" 0"))
        });
    };
    for (name, status) in [
        ("PreFilter", "Success"),
        ("Filter", "Success"),
        ("PostFilter", "Unschedulable"),
        ("PreScore", "Success"),
        ("Score", "Success"),
        ("Reserve", "Success"),
        ("Permit", "Success"),
        ("PreBind", "Success"),
        ("Bind", "Success"),
        ("PostBind", "Success"),
    ] {
        has(format!(
            "scheduler_framework_extension_point_duration_seconds_count{{{}",
            point(name, status)
        ));
    }
    // The first attempt is measured plugin by plugin.
    has("scheduler_plugin_execution_duration_seconds_count{plugin=\"NodeResourcesFit\",extension_point=\"Filter\",status=\"Success\"}".to_owned());
    for (plugin, point, status) in [
        ("NodeResourcesFit", "PreScore", "Success"),
        ("InterPodAffinity", "PreScore", "Skip"),
        ("NodeResourcesFit", "Score", "Success"),
        ("NodeAffinity", "PreFilter", "Skip"),
        ("VolumeBinding", "Reserve", "Success"),
        ("DynamicResources", "Reserve", "Success"),
        ("DefaultBinder", "Bind", "Success"),
    ] {
        has(format!(
            "scheduler_plugin_execution_duration_seconds_count{{plugin=\"{plugin}\",extension_point=\"{point}\",status=\"{status}\"}}"
        ));
    }
    has("scheduler_plugin_evaluation_total{plugin=\"NodeResourcesFit\",extension_point=\"Filter\",profile=\"default-scheduler\"}".to_owned());
    has("scheduler_queueing_hint_execution_duration_seconds_count{plugin=\"NodeResourcesFit\",event=\"NodeAdd\",hint=\"QueueSkip\"}".to_owned());
    has("scheduler_event_handling_duration_seconds_count{event=\"NodeAdd\"}".to_owned());
    has("scheduler_event_handling_duration_seconds_count{event=\"AssignedPodAdd\"}".to_owned());
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_097_the_gates_of_the_queue_and_a_preemption_are_measured() {
    let running = Running::start(&[("one", "2")]).await;
    let mut gated = pod("gated", "1", 0);
    gated["spec"]["schedulingGates"] = json!([{ "name": "example.com/later" }]);
    running.admin.create(gated).unwrap();
    // The point has this status for gated pods, too.
    running.until(
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"PreEnqueue\",status=\"Success\",\
         profile=\"default-scheduler\"} 1",
    );
    running.admin.create(pod("large", "64", 0)).unwrap();
    for (plugin, point, status) in [
        (
            "SchedulingGates",
            "PreEnqueue",
            "UnschedulableAndUnresolvable",
        ),
        ("SchedulingGates", "PreEnqueue", "Success"),
        ("DynamicResources", "PreEnqueue", "Success"),
        ("GangScheduling", "PreEnqueue", "Success"),
        ("DefaultPreemption", "PreEnqueue", "Success"),
        ("DefaultPreemption", "PostFilter", "Unschedulable"),
    ] {
        running.until(&format!(
            "scheduler_plugin_execution_duration_seconds_count{{plugin=\"{plugin}\",extension_point=\"{point}\",\
             status=\"{status}\"}} 1"
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_resources_of_running_and_pending_pods_are_read_from_the_watch() {
    let running = Running::start(&[("one", "2")]).await;
    running.admin.create(pod("small", "1", 7)).unwrap();
    running.until_bound("small");
    running.admin.create(pod("large", "64", 0)).unwrap();
    let sample = |name: &str, node: &str, priority: &str, value: &str| {
        format!(
            "kube_pod_resource_request{{namespace=\"default\",node=\"{node}\",pod=\"{name}\",priority=\"{priority}\",\
             resource=\"cpu\",scheduler=\"default-scheduler\",unit=\"cores\"}} {value}\n"
        )
    };
    let expected = [
        sample("small", "one", "7", "1"),
        sample("large", "", "0", "64"),
    ];
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let body = running.resources.page().await.into_body();
        let text = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        if expected.iter().all(|sample| text.contains(sample)) {
            break;
        }
        // The watch shows a pod a moment after it was created.
        assert!(Instant::now() < deadline, "{text}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_002_s4_029_s4_031_successful_and_failed_preemptions_are_counted() {
    let running = Running::start(&[("one", "2")]).await;
    running.admin.create(pod("large", "64", 1000)).unwrap();
    running.until("scheduler_preemption_attempts_total 1");
    running.until("scheduler_preemption_victims_count 0");
    running.until(
        "scheduler_unschedulable_pods{plugin=\"NodeResourcesFit\",profile=\"default-scheduler\"} 1",
    );
    running.admin.create(pod("low", "2", 0)).unwrap();
    running.until_bound("low");
    // The server refuses the first deletion, and the pod is tried again at once.
    running
        .api
        .fault(Fault::answer(403).on("delete", "pods").times(1));
    running.admin.create(pod("high", "2", 1000)).unwrap();
    running.until("scheduler_preemption_goroutines_execution_total{result=\"error\"} 1");
    running.until("scheduler_preemption_goroutines_execution_total{result=\"success\"} 1");
    running.until("scheduler_preemption_goroutines_duration_seconds_count{result=\"success\"} 1");
    running.until("scheduler_preemption_victims_bucket{le=\"1.0\"} 2");
    let now = json!({ "gracePeriodSeconds": 0 });
    // The server may have removed it already.
    let _ = running.admin.delete("pods", "default/low", now);
    running.until_bound("high");
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_112_a_preemptor_is_tried_again_if_its_victim_was_deleted_before() {
    let running = Running::start(&[("one", "2")]).await;
    running.admin.create(pod("low", "2", 0)).unwrap();
    running.until_bound("low");
    // The victim is deleted while the nomination is being written.
    let slow = Fault::delay(Duration::from_secs(2));
    running.api.fault(slow.on("patch", "pods/status"));
    running.admin.create(pod("high", "2", 1000)).unwrap();
    running.until("scheduler_preemption_victims_count 1");
    let now = json!({ "gracePeriodSeconds": 0 });
    running.admin.delete("pods", "default/low", now).unwrap();
    running.until_bound("high");
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_112_a_preemptor_that_waits_for_its_victim_preempts_no_other_pod() {
    let running = Running::start(&[("one", "2"), ("two", "1")]).await;
    running.admin.create(pod("low", "2", 0)).unwrap();
    running.until_bound("low");
    running.admin.create(pod("other", "1", 2000)).unwrap();
    running.until_bound("other");
    let slow = Fault::delay(Duration::from_hours(1));
    running.api.fault(slow.on("delete", "pods"));
    running.admin.create(pod("high", "2", 1000)).unwrap();
    wait_until("its victim is being deleted", || {
        let low = running.admin.get("pods", "default/low").unwrap();
        low["status"]["conditions"]
            .to_string()
            .contains("DisruptionTarget")
    });
    // Room on another node does not wake a preemptor whose victim terminates.
    let now = json!({ "gracePeriodSeconds": 0 });
    running.admin.delete("pods", "default/other", now).unwrap();
    running.admin.create(pod("later", "1", 0)).unwrap();
    running.until_bound("later");
    running.until("scheduler_preemption_attempts_total 1");
    running.until("scheduler_preemption_victims_count 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_026_other_pods_are_scheduled_while_victims_are_being_deleted() {
    let running = Running::start(&[("one", "2"), ("two", "1")]).await;
    running.admin.create(pod("low", "2", 0)).unwrap();
    running.until_bound("low");
    running
        .api
        .fault(Fault::delay(Duration::from_hours(1)).on("delete", "pods"));
    running.admin.create(pod("high", "2", 1000)).unwrap();
    wait_until("a node is being freed", || {
        let pod = running.admin.get("pods", "default/high").unwrap();
        pod["status"]["nominatedNodeName"] == "one"
    });
    running.admin.create(pod("other", "1", 0)).unwrap();
    running.until_bound("other");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_decisions_are_served_with_the_rejections_and_scores_of_nodes() {
    let running =
        Running::start(&[("one", "4"), ("two", "8"), ("small", "1"), ("tiny", "1")]).await;
    running.admin.create(pod("web", "2", 0)).unwrap();
    running.until_bound("web");
    running.admin.create(pod("large", "64", 0)).unwrap();
    running.until("scheduler_preemption_attempts_total 1");
    let decisions = |query: &str| {
        let all: Vec<Value> = serde_json::from_str(&running.view.decisions(query)).unwrap();
        all
    };
    let all = decisions("pod=default/web");
    let [web] = &all[..] else {
        panic!("{all:#?}");
    };
    assert_eq!(
        (&web["node"], &web["runnerUp"]),
        (&json!("two"), &json!("one"))
    );
    let rejections = json!([{ "plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"], "count": 2,
        "nodes": ["small", "tiny"] }]);
    assert_eq!(web["rejections"], rejections);
    let scores = web["scores"].as_array().unwrap();
    let fit = scores
        .iter()
        .find(|score| score["plugin"] == "NodeResourcesFit")
        .unwrap();
    assert!(fit["chosen"].as_i64() > fit["runnerUp"].as_i64(), "{web:#}");
    let large = decisions("pod=default/large").remove(0);
    assert_eq!(large["rejections"][0]["count"], 4, "{large:#}");
}

static SET_BACK: AtomicBool = AtomicBool::new(false);

/// A clock that is set back by an hour.
fn unreliable() -> Timestamp {
    let now = Timestamp::now();
    let back = SignedDuration::from_hours(i64::from(SET_BACK.load(Ordering::Relaxed)));
    now.checked_sub(back).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_does_not_extend_a_backoff() {
    let clocks = (unreliable as fn() -> Timestamp, Deadline::default());
    let running = Running::at(&[("one", "2")], |_| {}, clocks).await;
    // After an error a pod backs off.
    let refused = Fault::answer(403).on("create", "pods/binding");
    running.api.fault(refused.times(1));
    running.admin.create(pod("late", "1", 0)).unwrap();
    running.until("scheduler_pending_pods{queue=\"backoff\"} 1");
    SET_BACK.store(true, Ordering::Relaxed);
    running.until_bound("late");
    // It does not delay new pods either.
    running.admin.create(pod("later", "1", 0)).unwrap();
    running.until_bound("later");
}

/// The time that has passed by the clock of the deadline, in seconds.
static PASSED: AtomicU64 = AtomicU64::new(0);

fn slow_clock() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = *START.get_or_init(Instant::now);
    start + Duration::from_secs(PASSED.load(Ordering::Relaxed))
}

/// A filter that takes a second on each node, for pods whose name begins with `slow`.
struct Slow;

impl Plugin for Slow {
    fn name(&self) -> &'static str {
        "Slow"
    }

    fn filter(&self, _: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        pod.name().starts_with("slow").then(|| Box::new(Self) as _)
    }
}

impl Filter for Slow {
    fn check(&self, _: Here<'_>) -> Result<(), Rejection> {
        PASSED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_takes_ten_seconds_fails_and_other_pods_are_scheduled() {
    let names: Vec<String> = (0..40).map(|index| format!("node-{index}")).collect();
    let nodes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "2")).collect();
    let slow = |framework: &mut Framework| framework.filters.insert(0, Arc::new(Slow));
    let clocks = (
        Timestamp::now as fn() -> Timestamp,
        Deadline::by(slow_clock),
    );
    let running = Running::at(&nodes, slow, clocks).await;
    running.admin.create(pod("slow", "1", 1000)).unwrap();
    wait_until("the condition has the reason", || {
        let pod = running.admin.get("pods", "default/slow").unwrap();
        let condition = &pod["status"]["conditions"][0];
        condition["reason"] == "SchedulerError"
            && condition["message"] == "the attempt took too long and was ended"
    });
    running.admin.create(pod("web", "1", 0)).unwrap();
    running.until_bound("web");
    assert!(node_of(&running.admin, "slow").is_null());
}

/// The API server binds the pod, the answer is lost, the second request conflicts with the first, and the pod cannot be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_stays_assumed_after_a_failed_binding_that_may_have_succeeded() {
    let running = Running::start(&[("one", "2")]).await;
    let lost = Fault::cut_after(0).on("create", "pods/binding").times(1);
    running.api.fault(lost);
    running.api.fault(Fault::answer(500).on("get", "pods"));
    running.admin.create(pod("first", "2", 0)).unwrap();
    running.until(
        "scheduler_schedule_attempts_total{result=\"error\",profile=\"default-scheduler\"} 1",
    );
    running.until("scheduler_cache_size{type=\"pods\"} 1");
    running.admin.create(pod("second", "2", 0)).unwrap();
    running.until(
        "scheduler_schedule_attempts_total{result=\"unschedulable\",profile=\"default-scheduler\"} 1",
    );
    running.until("scheduler_cache_size{type=\"pods\"} 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_dropped_while_the_api_server_hangs_are_counted() {
    let running = Running::start(&[]).await;
    running
        .api
        .fault(Fault::delay(Duration::from_hours(1)).on("create", "events"));
    let pod = PodRef {
        namespace: "default".into(),
        name: "a".into(),
        uid: "a".into(),
    };
    // Equal events are counted as one once the recorder has them; these differ. A thousand wait and one is being sent.
    for number in 0..1500 {
        let message = format!("0/{number} nodes are available.");
        running
            .events
            .failed_scheduling("default-scheduler", &pod, &message);
    }
    let counted = |text: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with("scheduler_events_dropped_total "));
        line.and_then(|line| line.split(' ').nth(1)?.parse::<u64>().ok())
    };
    wait_until("the dropped events are counted", || {
        let text = running.exposition.render(Format::Plain).unwrap();
        counted(&text).is_some_and(|dropped| (400..=500).contains(&dropped))
    });
}
