//! Plugin extender: a server takes part in sessions.

use crate::scenario::{Scenario, bound, conf, evicted};
use evictd_batch::conf::Conf;
use evictd_batch::session::{ExtenderCalls, Outcome, Setting, simulate};
use evictd_batch_objects::{Compat, Difference};
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Answer = Result<Value, String>;

/// By the verb and the request.
type AnswerOf = dyn Fn(&str, &Value) -> Answer + Send + Sync;

/// A server that answers by the verb, and notes all requests.
struct Server {
    answer: Box<AnswerOf>,
    /// After so many calls the time of a session is used up.
    most: usize,
    asked: Mutex<Vec<(String, Value)>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Server")
    }
}

impl ExtenderCalls for Server {
    fn begin(&self) {}

    fn is_over(&self) -> bool {
        self.asked.lock().unwrap().len() >= self.most
    }

    fn post(&self, url: &str, within: Duration, body: Vec<u8>) -> Result<String, String> {
        assert_eq!(within, Duration::from_millis(300));
        let verb = url.strip_prefix("http://extender:8713/v1/").unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        let answer = (self.answer)(verb, &body);
        self.asked.lock().unwrap().push((verb.to_owned(), body));
        answer.map(|answer| answer.to_string())
    }
}

impl Server {
    fn new(answer: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            answer: Box::new(answer),
            most: usize::MAX,
            asked: Mutex::default(),
        })
    }

    fn verbs(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(verb, _)| verb.clone()).collect()
    }

    fn request(&self, verb: &str) -> Value {
        let asked = self.asked.lock().unwrap();
        let mut asked = asked.iter();
        asked.find(|(known, _)| known == verb).unwrap().1.clone()
    }
}

/// The plugin with these verbs, each at a path of its name.
fn plugin(verbs: &[&str], more: &str) -> String {
    let verbs: Vec<String> = verbs
        .iter()
        .map(|verb| format!("extender.{verb}Verb: {verb}"))
        .collect();
    format!(
        "{{name: extender, arguments: {{extender.urlPrefix: 'http://extender:8713/v1/', extender.httpTimeout: 300ms, \
         {}{more}}}}}",
        verbs.join(", ")
    )
}

fn with(actions: &str, verbs: &[&str], more: &str) -> Scenario {
    let plugin = plugin(verbs, more);
    let conf = conf(
        actions,
        &[&["priority", "gang"], &["predicates", "nodeorder", &plugin]],
    );
    Scenario::new(&conf)
        .node("a", "9")
        .node("b", "9")
        .node("c", "9")
}

fn run(scenario: &Scenario, server: &Arc<Server>, compat: Compat) -> Outcome {
    let setting = Setting {
        extender: Some(Arc::clone(server) as Arc<dyn ExtenderCalls>),
        ..Setting::default()
    };
    simulate(&scenario.objects(), &setting, compat).unwrap().0
}

fn message(outcome: &Outcome, job: &str) -> String {
    let group = &outcome.pod_groups[&format!("default/{job}")];
    let messages = group
        .conditions
        .iter()
        .map(|condition| condition.message.clone());
    messages.collect::<Vec<_>>().join("; ")
}

#[test]
fn s6_224_the_server_refuses_nodes_and_scores_the_others() {
    let server = Server::new(|verb, request| {
        Ok(match verb {
            "predicate" if request["node"]["Name"] == "a" => {
                json!({"status": "is full of cats", "code": 3})
            }
            "predicate" => json!({"status": "", "code": 0}),
            _ => json!({"nodeScore": {"c": 1000.0}, "errorMessage": ""}),
        })
    });
    let scenario = with("allocate", &["predicate", "prioritize"], "");
    let scenario = scenario
        .job("j", 1, "Inqueue")
        .waiting("j", 1, "2")
        .job("old", 0, "Running")
        .running("old", 0, &["c"], "3");
    for compat in [Compat::EVICTD, Compat::VOLCANO] {
        assert_eq!(
            bound(&run(&scenario, &server, compat), "j-work-0"),
            Some("c")
        );
    }
    let request = server.request("predicate");
    let task = &request["task"];
    assert_eq!(
        (
            &task["Name"],
            &task["Job"],
            &task["TaskRole"],
            &task["Status"]
        ),
        (
            &json!("j-work-0"),
            &json!("default/j"),
            &json!("work"),
            &json!(1)
        )
    );
    assert_eq!(task["Resreq"]["MilliCPU"], 2000.0);
    let requests = &task["Pod"]["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(requests["cpu"], "2");
    let nodes = server.request("prioritize");
    let c = nodes["nodes"].as_array().unwrap().iter();
    let c = c.clone().find(|node| node["Name"] == "c").unwrap();
    assert_eq!(c["Idle"]["MilliCPU"], 6000.0);
    assert_eq!(
        c["Node"]["metadata"]["labels"]["kubernetes.io/hostname"],
        "c"
    );
    // Go reads it as a whole number.
    assert!(c["Allocatable"]["MaxTaskNum"].is_i64(), "{c}");
    let running = c["Tasks"].as_object().unwrap().values().next().unwrap();
    assert_eq!(
        (&running["Name"], &running["Status"]),
        (&json!("old-work-0"), &json!(32))
    );
}

#[test]
fn s6_224_a_server_that_fails_refuses_every_node_unless_it_is_ignorable() {
    for (more, node) in [("", None), (", extender.ignorable: true", Some("a"))] {
        let server = Server::new(|_, _| Err("connection refused".to_owned()));
        let scenario = with("allocate", &["predicate"], more);
        let scenario = scenario.job("j", 1, "Inqueue").waiting("j", 1, "2");
        let outcome = run(&scenario, &server, Compat::EVICTD);
        assert_eq!(bound(&outcome, "j-work-0"), node);
        // Its answer may be another one at any time.
        assert!(outcome.again_at.is_some());
        if node.is_none() {
            let message = message(&outcome, "j");
            let expected = "3 extender http://extender:8713/v1/predicate: connection refused";
            assert!(message.contains(expected), "{message}");
        }
    }
}

#[test]
fn s6_224_a_question_is_sent_once_and_only_about_managed_resources() {
    let server = Server::new(|_, _| Ok(json!({})));
    let managed = ", extender.managedResources: [example.com/gpu, example.com/fpga]";
    let scenario = with("enqueue, allocate, backfill", &["predicate"], managed);
    let gpu = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}});
    let room = json!({"status": {"allocatable": {"example.com/gpu": "2"}}});
    let scenario = scenario
        .node_with("g", "9", &room)
        .job("j", 1, "Inqueue")
        .waiting("j", 1, "2")
        .job("k", 1, "Inqueue")
        .pod("k-work-0", "k", "0", &gpu);
    let outcome = run(&scenario, &server, Compat::EVICTD);
    assert_eq!(bound(&outcome, "k-work-0"), Some("g"));
    assert!(bound(&outcome, "j-work-0").is_some());
    let asked = server.asked.lock().unwrap();
    let names: Vec<(&Value, &Value)> = asked
        .iter()
        .map(|(_, request)| (&request["task"]["Name"], &request["node"]["Name"]))
        .collect();
    assert_eq!(names, [(&json!("k-work-0"), &json!("g"))]);
}

#[test]
fn s6_224_the_server_votes_on_jobs_and_is_told_of_those_that_are_enqueued() {
    let vote = |status: i64| Server::new(move |_, _| Ok(json!({ "status": status })));
    let scenario = |more: &str| {
        let verbs = ["jobEnqueueable", "jobEnqueued"];
        with("enqueue, allocate", &verbs, more)
            .job_with("j", 1, "Pending", &json!({"minResources": {"cpu": "2"}}))
            .waiting("j", 1, "2")
    };
    for (status, phase, verbs) in [
        (1, "Inqueue", vec!["jobEnqueueable", "jobEnqueued"]),
        (0, "Inqueue", vec!["jobEnqueueable", "jobEnqueued"]),
        (-1, "Pending", vec!["jobEnqueueable"]),
    ] {
        let server = vote(status);
        let outcome = run(&scenario(""), &server, Compat::EVICTD);
        assert_eq!(outcome.phases["default/j"], phase, "{status}");
        assert_eq!(server.verbs(), verbs, "{status}");
        if phase == "Pending" {
            let message = message(&outcome, "j");
            assert!(
                message.contains("the extender of the scheduler does not let the job in"),
                "{message}"
            );
        }
    }
    for (more, phase) in [("", "Pending"), (", extender.ignorable: true", "Inqueue")] {
        let server = Server::new(|_, _| Err("no answer".to_owned()));
        let outcome = run(&scenario(more), &server, Compat::VOLCANO);
        assert_eq!(outcome.phases["default/j"], phase, "{more}");
    }
}

/// A full node, and a job of higher priority.
fn preempting(verbs: &[&str], more: &str) -> Scenario {
    preempting_by("allocate, preempt", verbs, more)
}

fn preempting_by(actions: &str, verbs: &[&str], more: &str) -> Scenario {
    let plugin = plugin(verbs, more);
    let conf = conf(actions, &[&[&plugin, "priority", "gang"], &["predicates"]]);
    Scenario::new(&conf)
        .class("high", 100)
        .node("a", "4")
        .job("old", 1, "Running")
        .running("old", 0, &["a", "a", "a", "a"], "1")
        .job_with("j", 1, "Inqueue", &json!({"priorityClassName": "high"}))
        .waiting("j", 1, "1")
}

#[test]
fn s6_224_only_the_pods_that_the_server_names_and_was_offered_are_evicted() {
    for (names, gone) in [
        (vec!["old-work-2", "j-work-0"], vec!["old-work-2"]),
        (vec!["j-work-0"], vec![]),
    ] {
        let server = Server::new(move |_, request| {
            let offered = request["evictees"].as_array().unwrap().iter();
            let evictor = std::iter::once(&request["evictor"]);
            let victims = offered.chain(evictor);
            let named = victims.filter(|task| names.iter().any(|name| task["Name"] == *name));
            Ok(json!({"status": 1, "victims": named.collect::<Vec<_>>()}))
        });
        let outcome = run(&preempting(&["preemptable"], ""), &server, Compat::EVICTD);
        assert_eq!(evicted(&outcome), gone);
    }
    // One without an opinion leaves it to the others.
    let server = Server::new(|_, _| Ok(json!({"status": 0, "victims": null})));
    let outcome = run(&preempting(&["preemptable"], ""), &server, Compat::EVICTD);
    assert_eq!(evicted(&outcome).len(), 1);
}

#[test]
fn s6_224_an_ignorable_server_that_fails_has_no_say_and_in_volcano_stops_everything() {
    let failing = || Server::new(|_, _| Err("no answer".to_owned()));
    let volcano = Compat::VOLCANO;
    let ours = volcano.with(Difference::IgnorableExtender);
    let ignorable = ", extender.ignorable: true";
    for (compat, more, count) in [(ours, ignorable, 1), (ours, "", 0), (volcano, ignorable, 0)] {
        let outcome = run(&preempting(&["preemptable"], more), &failing(), compat);
        assert_eq!(evicted(&outcome).len(), count, "{more}");
    }
    for (compat, more, node) in [
        (ours, ignorable, Some("a")),
        (ours, "", None),
        (volcano, ignorable, None),
        (volcano, "", Some("a")),
    ] {
        let scenario = with("allocate", &["jobReady"], more);
        let scenario = scenario.job("j", 1, "Inqueue").waiting("j", 1, "2");
        let outcome = run(&scenario, &failing(), compat);
        assert_eq!(bound(&outcome, "j-work-0"), node, "{more}");
    }
}

#[test]
fn s6_224_a_queue_that_the_server_calls_overused_gets_nothing() {
    let server = Server::new(|_, request| Ok(json!({"overused": request["queue"]["Name"] == "q"})));
    let scenario = with("allocate", &["queueOverused"], "").queue("other", &json!({}));
    let scenario = scenario
        .job("j", 1, "Inqueue")
        .waiting("j", 1, "2")
        .job_with("k", 1, "Inqueue", &json!({"queue": "other"}))
        .waiting("k", 1, "2");
    let outcome = run(&scenario, &server, Compat::EVICTD);
    assert_eq!(bound(&outcome, "j-work-0"), None);
    assert!(bound(&outcome, "k-work-0").is_some());
}

#[test]
fn s6_224_an_allocation_that_the_server_refuses_is_undone() {
    let server = Server::new(|_, request| {
        let refused = request["task"]["Name"] == "j-work-1";
        let message = if refused { "no licence is left" } else { "" };
        Ok(json!({ "errorMessage": message }))
    });
    for (min, bound_pods) in [(1, 1), (2, 0)] {
        let scenario = with("allocate", &["allocateFunc", "deallocateFunc"], "");
        let scenario = scenario.job("j", min, "Inqueue").waiting("j", 2, "2");
        let outcome = run(&scenario, &server, Compat::EVICTD);
        assert_eq!(outcome.bound.len(), bound_pods);
        let said = serde_json::to_string(&outcome.pod_conditions).unwrap();
        assert!(said.contains("no licence is left"), "{said}");
        // What was allocated and not bound was given back.
        let verbs = server.verbs();
        let count = |verb: &str| verbs.iter().filter(|known| *known == verb).count();
        assert_eq!(count("allocateFunc") - count("deallocateFunc"), bound_pods);
        server.asked.lock().unwrap().clear();
    }
}

#[test]
fn s6_224_nothing_is_evicted_for_a_task_that_the_server_refuses() {
    for actions in ["allocate, preempt", "allocate, gangpreempt"] {
        for (message, count) in [("no licence is left", 0), ("", 1)] {
            let server = Server::new(move |_, request| {
                let refused = request["task"]["Name"] == "j-work-0";
                Ok(json!({"errorMessage": if refused { message } else { "" }}))
            });
            let scenario = preempting_by(actions, &["allocateFunc", "deallocateFunc"], "");
            let outcome = run(&scenario, &server, Compat::EVICTD);
            assert_eq!(evicted(&outcome).len(), count, "{actions}: {message}");
            assert_eq!(outcome.pipelined.len(), count, "{actions}: {message}");
        }
    }
}

#[test]
fn s6_224_a_pod_without_requests_whose_allocation_is_refused_says_why() {
    let server = Server::new(|_, _| Ok(json!({"errorMessage": "no licence is left"})));
    let scenario = with("allocate, backfill", &["allocateFunc"], "");
    let scenario = scenario.job("j", 1, "Inqueue").waiting("j", 1, "0");
    let outcome = run(&scenario, &server, Compat::EVICTD);
    assert!(outcome.bound.is_empty());
    assert_eq!(server.verbs(), ["allocateFunc"]);
    let message = &outcome.pod_conditions["default/j-work-0"].message;
    assert!(message.contains("no licence is left"), "{message}");
}

#[test]
fn s6_224_no_request_is_written_once_the_time_is_used_up() {
    let mut server = Server::new(|_, _| Err("no answer".to_owned()));
    Arc::get_mut(&mut server).unwrap().most = 2;
    let verbs = ["predicate", "jobReady"];
    let scenario = with("allocate", &verbs, "").job("j", 1, "Inqueue");
    let outcome = run(&scenario.waiting("j", 5, "2"), &server, Compat::EVICTD);
    assert_eq!(server.verbs().len(), 2);
    assert!(outcome.bound.is_empty() && outcome.again_at.is_some());
}

#[test]
fn s6_224_a_server_that_does_not_accept_the_session_takes_no_part_in_it() {
    let server = Server::new(|verb, _| match verb {
        "onSessionOpen" => Err("not now".to_owned()),
        _ => Ok(json!({"status": "refused", "code": 1})),
    });
    let verbs = ["onSessionOpen", "onSessionClose", "predicate"];
    let scenario = with("allocate", &verbs, "")
        .job("j", 1, "Inqueue")
        .waiting("j", 1, "2");
    let outcome = run(&scenario, &server, Compat::EVICTD);
    assert!(bound(&outcome, "j-work-0").is_some());
    assert_eq!(server.verbs(), ["onSessionOpen", "onSessionClose"]);
    let open = server.request("onSessionOpen");
    let names: Vec<&String> = open["Nodes"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["a", "b", "c"]);
    let job = &open["Jobs"]["default/j"];
    assert_eq!(
        (
            &job["Queue"],
            &job["MinAvailable"],
            &job["PodGroup"]["status"]["phase"]
        ),
        (&json!("q"), &json!(1), &json!("Inqueue"))
    );
    assert_eq!(open["Queues"]["q"]["Weight"], 1);
}

#[test]
fn without_a_way_to_the_server_it_has_no_say() {
    let scenario = with("allocate", &["predicate"], "");
    let scenario = scenario.job("j", 1, "Inqueue").waiting("j", 1, "2");
    assert!(bound(&scenario.run(), "j-work-0").is_some());
}

#[test]
fn an_extender_without_an_address_is_refused_with_its_line() {
    let with = |arguments: &str| {
        Conf::read(&format!(
            "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: extender\n    arguments: {arguments}\n"
        ))
    };
    for url in ["''", "extender:8713", "'http://'", "'http:///x'", "3"] {
        let error = with(&format!(
            "{{extender.urlPrefix: {url}, extender.predicateVerb: p}}"
        ));
        let error = error.unwrap_err().to_string();
        let expected = "volcano-scheduler.conf:4:5: tiers[0].plugins[0].arguments.extender.urlPrefix: the extender has no address";
        assert!(error.starts_with(expected), "{url}: {error}");
    }
    let conf = with(
        "{extender.urlPrefix: 'http://e', extender.httpTimeout: fast, extender.managedResources: gpu}",
    );
    let warnings: Vec<String> = conf
        .unwrap()
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    for expected in ["has no verb", "a duration like 30s", "a list of texts"] {
        let said = warnings.iter().any(|warning| warning.contains(expected));
        assert!(said, "{expected}: {warnings:?}");
    }
}
