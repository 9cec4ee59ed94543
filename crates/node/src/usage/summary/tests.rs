use super::*;
use crate::pods::LocalPod;
use evictd_pod::{Pod, wire};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Whenever it was asked for.
const ANY: Timestamp = Timestamp::MIN;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn set(uids: &[&str]) -> PodSet {
    let pod = |uid: &&str| -> LocalPod {
        let pod = json!({"metadata": {"uid": uid, "name": uid}});
        let pod = serde_json::from_value::<wire::Pod>(pod).unwrap();
        LocalPod::new(Pod::from_wire(pod), None)
    };
    PodSet {
        pods: uids.iter().map(pod).collect(),
        ..PodSet::default()
    }
}

fn stats(uid: &str, time: Option<Timestamp>) -> Value {
    json!({"podRef": {"uid": uid}, "memory": {"time": time, "workingSetBytes": 7}})
}

fn nobody() -> SummaryUsage {
    let settings = KubeletSettings {
        url: "http://127.0.0.1:9".to_owned(),
        token_file: None,
        client_certificate: None,
        client_key: None,
        certificate_authority: None,
        insecure: false,
    };
    SummaryUsage::new(settings, "test".to_owned(), Clock::start())
}

#[test]
fn figures_are_as_old_as_the_machines_clock_says_and_useless_after_half_a_minute() {
    // The agent's time and the machine's differ: its clock was set after the start.
    let (agent, wall) = (0, 3600);
    let pods = json!({"pods": [
        stats("usual", Some(at(wall - 16))),
        stats("old", Some(at(wall - 31))),
        stats("ahead", Some(at(wall + 600))),
        stats("undated", None),
    ]});
    let mut usage = nobody();
    usage.last_answer = Some(SummaryAnswer {
        figures: Figures::Kubelet(serde_json::from_value(pods).unwrap()),
        asked: at(agent),
        at: at(agent),
        wall: at(wall),
    });
    let set = set(&["usual", "old", "ahead", "undated", "unheard-of"]);
    let known = |now: i64| -> Vec<Option<i64>> {
        let pods = usage.usage(at(now), ANY, &set).unwrap().pods;
        let since = |time: Timestamp| time.duration_since(at(agent)).as_secs();
        let measured =
            |pod: Option<evictd_usage::PodUsage>| pod?.measured(StarvedResource::Memory).map(since);
        pods.into_iter().map(measured).collect()
    };
    assert_eq!(known(0), [Some(-16), None, Some(0), Some(0), None]);
    assert_eq!(known(14), [Some(-16), None, Some(0), Some(0), None]);
    assert_eq!(known(15), [None, None, Some(0), Some(0), None]);
    assert_eq!(known(31), [None; 5]);
}

#[tokio::test]
async fn one_answer_does_for_a_while_and_a_refusal_is_not_asked_for_again_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for (mut stream, body) in listener.incoming().flatten().zip([r#"{"pods": []}"#, "7"]) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            counted.fetch_add(1, Ordering::SeqCst);
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}");
            write!(stream, "{head}\r\n\r\n{body}").unwrap();
        }
    });
    let mut usage = nobody();
    let Server::Kubelet { settings, .. } = &mut usage.server else {
        unreachable!();
    };
    settings.url = url;
    let begin = usage.clock.now();
    let later = |seconds| begin + SignedDuration::from_secs(seconds);

    assert!(usage.is_awaited(begin, ANY));
    while usage.is_pending() {
        usage.answered().await;
    }
    assert!(!usage.is_awaited(begin, ANY) && usage.problem().is_none());
    assert!(usage.usage(begin, ANY, &set(&["a"])).is_some());
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    assert!(usage.is_awaited(later(4), ANY));
    while usage.is_pending() {
        usage.answered().await;
    }
    assert!(usage.problem().unwrap().contains("cannot be parsed"));
    assert!(!usage.is_awaited(later(4), ANY));
    assert!(usage.is_awaited(later(9), ANY));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn usage_from_before_the_crossing_decides_nothing() {
    let mut usage = nobody();
    usage.last_answer = Some(SummaryAnswer {
        figures: Figures::Kubelet(
            serde_json::from_value(json!({"pods": [stats("a", None)]})).unwrap(),
        ),
        asked: at(5),
        at: at(5),
        wall: at(5),
    });
    let set = set(&["a"]);
    assert!(usage.usage(at(6), at(5), &set).is_some());
    assert!(usage.usage(at(6), at(6), &set).is_none());
    assert!(usage.last(at(6), &set).is_some());
}
