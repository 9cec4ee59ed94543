//! The memory that a decision of the webhook takes, for hostile reviews too.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch_admission::{
    Endpoint, Known, MOST_CONTAINERS, MOST_POLICIES, MOST_TASKS, MOST_VOLUMES, Settings,
};
use evictd_batch_controller::webhook;
use serde_json::{Value, json};

/// The packaged webhook has two threads and 512 MiB.
const MOST: u64 = 128 << 20;
/// The API server takes no larger objects.
const LARGEST: usize = 3 << 19;
/// Where what is made is looked at; other endpoints read the same objects in the same way.
const ASKED: [Endpoint; 4] = [
    Endpoint::JobsMutate,
    Endpoint::JobsValidate,
    Endpoint::QueuesValidate,
    Endpoint::PodGroupsValidate,
];

/// A review of these objects, as text.
fn review(operation: &str, object: &str, old: &str) -> String {
    format!(
        r#"{{"request": {{"uid": "u", "operation": "{operation}", "name": "x", "namespace": "default", "object": {object}, "oldObject": {old}}}}}"#
    )
}

/// The response, and the most bytes that were held at once.
fn measured(endpoint: Endpoint, review: &str) -> (Value, u64) {
    let (known, settings) = (Known::default(), Settings::default());
    let mut text = String::new();
    let taken = allocation_counter::measure(|| {
        let reviewed = webhook::review(endpoint, review.as_bytes(), &known, &settings);
        text = reviewed.unwrap().text;
    });
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    (answer["response"].take(), taken.bytes_max)
}

/// As often as it fits into the largest object.
fn many(begin: &str, item: &str, end: &str) -> String {
    let room = LARGEST - begin.len() - end.len();
    let items = vec![item; room / (item.len() + 1)].join(",");
    format!("{begin}{items}{end}")
}

const META: &str = r#""metadata": {"name": "x", "namespace": "default"}"#;

#[test]
fn a_job_with_too_many_tasks_is_refused_before_it_is_parsed() {
    for count in [MOST_TASKS + 1, 120_000, 1_000_000] {
        let tasks = vec!["{}"; count].join(",");
        let job = format!(r#"{{{META}, "spec": {{"tasks": [{tasks}]}}}}"#);
        for endpoint in [Endpoint::JobsMutate, Endpoint::JobsValidate] {
            let (response, taken) = measured(endpoint, &review("CREATE", &job, "null"));
            let message = &response["status"]["message"];
            let why = "the job has more than 1000 tasks, which is the most that is decided on";
            assert_eq!(message, why);
            assert!(taken < 16 << 10, "{count} tasks take {taken} bytes");
        }
    }
}

#[test]
fn no_review_takes_more_memory_than_its_bound() {
    let job = |begin: &str, item: &str, end: &str| {
        many(
            &format!("{{{META}, \"spec\": {begin}"),
            item,
            &format!("{end}}}"),
        )
    };
    let objects = [
        job(r#"{"tasks": ["#, "null", "]}"),
        job(
            r#"{"tasks": [{"template": {"spec": {"containers": ["#,
            "{}",
            "]}}}]}",
        ),
        job(
            r#"{"tasks": [{"template": {"spec": {"tolerations": ["#,
            r#"{"":0}"#,
            "]}}}]}",
        ),
        job(
            r#"{"tasks": [{"template": {"spec": {"x": ["#,
            "[0]",
            "]}}}]}",
        ),
        job(
            r#"{"tasks": [{"template": {"spec": {"containers": [{"name": "c", "args": ["#,
            r#""""#,
            "]}]}}}]}",
        ),
        job(r#"{"policies": [{"events": ["#, r#""<""#, "]}]}"),
        job(r#"{"policies": ["#, "{}", "]}"),
        job(r#"{"volumes": ["#, "{}", "]}"),
        job(r#"{"plugins": {"svc": ["#, r#""-""#, "]}}"),
        job(r#"{"capability": {"#, r#""a":1"#, "}}"),
        job(r#"{"subGroupPolicy": ["#, r#"{"a":0}"#, "]}"),
        job(r#"{"containers": ["#, r#"{"a":0}"#, "]}"),
        format!(
            r#"{{{META}, "spec": {{"queue": "{}"}}}}"#,
            "x".repeat(LARGEST - 100)
        ),
        format!(
            r#"{{{META}, "spec": {{"tasks": "{}"}}}}"#,
            "<".repeat(LARGEST - 100)
        ),
    ];
    let of_updates = [Endpoint::JobsValidate, Endpoint::QueuesValidate];
    for object in &objects {
        for endpoint in ASKED {
            let update = of_updates
                .contains(&endpoint)
                .then_some(("UPDATE", &**object));
            for (operation, old) in [("CREATE", "null")].into_iter().chain(update) {
                let (response, taken) = measured(endpoint, &review(operation, object, old));
                let begin: String = object.chars().take(120).collect();
                assert!(
                    taken < MOST,
                    "{endpoint:?} {operation} {begin}: {taken} bytes"
                );
                let message = response["status"]["message"].as_str().unwrap_or_default();
                assert!(message.len() <= 11 << 10, "{}", message.len());
            }
        }
    }
}

/// A job as large as it is let in, with everything that a job can have.
fn largest() -> Value {
    let container = |index: usize| json!({"name": format!("c{index}"), "image": "busybox"});
    let containers: Vec<_> = (0..MOST_CONTAINERS / MOST_TASKS).map(container).collect();
    let policies: Vec<_> = (0..MOST_POLICIES / MOST_TASKS)
        .map(|code| json!({"exitCode": code + 1, "action": "RestartJob"}))
        .collect();
    let task = |index: usize| {
        json!({"replicas": 1, "name": format!("t{index}"), "policies": policies,
            "template": {"spec": {"containers": containers}}})
    };
    let volume = |index: usize| json!({"mountPath": format!("/v{index}"), "volumeClaimName": "p"});
    let tasks: Vec<_> = (0..MOST_TASKS).map(task).collect();
    let volumes: Vec<_> = (0..MOST_VOLUMES).map(volume).collect();
    json!({"metadata": {"name": "x", "namespace": "default"},
        "spec": {"queue": "default", "tasks": tasks, "volumes": volumes}})
}

#[test]
fn the_largest_allowed_job_stays_below_its_bound_and_its_patch_names_fields() {
    let job = largest().to_string();
    assert!(job.len() < LARGEST);
    for endpoint in [Endpoint::JobsMutate, Endpoint::JobsValidate] {
        let (response, taken) = measured(endpoint, &review("CREATE", &job, "null"));
        assert!(taken < MOST, "{endpoint:?} takes {taken} bytes");
        let patch = response["patch"].as_str().unwrap_or_default();
        assert!(patch.len() < job.len() / 2, "{}", patch.len());
        if endpoint == Endpoint::JobsValidate {
            let message = response["status"]["message"].as_str().unwrap();
            assert_eq!(
                message,
                "unable to find job queue: queue.scheduling.volcano.sh \"default\" not found;"
            );
        }
    }
    let (_, taken) = measured(Endpoint::JobsValidate, &review("UPDATE", &job, &job));
    assert!(taken < MOST, "an update takes {taken} bytes");
}

#[test]
fn a_verdict_lists_at_most_ten_mistakes() {
    let task =
        |index: usize| json!({"replicas": 1, "name": format!("T{index}{}", "<".repeat(300))});
    let job = json!({"metadata": {"name": "x"}, "spec": {"tasks": (0..1000).map(task).collect::<Vec<_>>()}});
    let (response, taken) = measured(
        Endpoint::JobsValidate,
        &review("CREATE", &job.to_string(), "null"),
    );
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.len() <= 11 << 10, "{}", message.len());
    assert!(message.ends_with("more"), "{message}");
    assert!(taken < 16 << 20, "{taken}");
}

#[test]
fn a_job_above_the_bound_can_still_be_labelled_and_deleted() {
    let tasks = vec!["{}"; 120_000].join(",");
    let job = |label: &str, queue: &str| {
        format!(
            r#"{{"metadata": {{"name": "x", "labels": {{"a": "{label}"}}}}, "spec": {{"queue": "{queue}", "tasks": [{tasks}]}}}}"#
        )
    };
    let update = |new: &str, old: &str| {
        let review = review("UPDATE", new, old);
        measured(Endpoint::JobsValidate, &review).0["allowed"].clone()
    };
    assert_eq!(update(&job("b", "q"), &job("a", "q")), true);
    assert_eq!(update(&job("b", "r"), &job("a", "q")), false);
}
