use super::*;
use evictd_decision::Cause;
use evictd_signals::{ConditionMap, NodeCondition};
use hook::cut_graces;
use std::path::PathBuf;

mod hook;
mod properties;
mod uncredited;

const MEMORY: UsageNeed = UsageNeed {
    signal: Signal::MemoryAvailable,
    hard: true,
};
const DISK: UsageNeed = UsageNeed {
    signal: Signal::NodefsAvailable,
    hard: true,
};

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap()
}

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn eviction(cause: Cause, signal: Signal) -> Purpose {
    Purpose::Eviction {
        cause,
        signal: signal.to_string(),
        crossed_at: at(0),
        clear_at: at(0),
    }
}

fn hard() -> Purpose {
    eviction(Cause::Hard, Signal::MemoryAvailable)
}

fn soft() -> Purpose {
    eviction(Cause::Soft, Signal::MemoryAvailable)
}

/// `a/NAME`, decided at 0, with a cgroup.
fn leaving(name: &str, purpose: Purpose, grace: SignedDuration) -> Departure {
    let names = (format!("id-{name}"), format!("a/{name}"), name.to_owned());
    let mut departure = Departure::new(names, purpose, at(0), grace);
    departure.cgroup = Some(PathBuf::from(name));
    departure
}

/// Departures, and what holds on the node.
#[derive(Default)]
struct Bench {
    departures: Departures,
    context: Context,
}

impl Bench {
    fn of(departure: Departure) -> Self {
        let mut bench = Self::default();
        bench.begin(0, departure);
        bench
    }

    fn under(mut self, condition: NodeCondition) -> Self {
        self.context.pressing[condition] = true;
        self.context.keeping_away[condition] = true;
        self
    }

    fn event(&mut self, now: i64, event: Event) -> Vec<String> {
        let commands = self.departures.on_event(at(now), event, &self.context);
        commands.iter().map(words).collect()
    }

    fn begin(&mut self, now: i64, departure: Departure) -> Vec<String> {
        self.event(now, Event::Begin(Box::new(departure)))
    }

    fn ends(&mut self, now: i64, uid: &str, ending: Ending) {
        let uid = uid.to_owned();
        self.event(now, Event::Ended { uid, ending });
    }

    fn gone(&mut self, now: i64, uid: &str) {
        self.ends(now, uid, Ending::Gone { at: at(now) });
    }

    fn sees(&mut self, now: i64, pod_state: PodState) -> Vec<String> {
        self.event(now, Event::Observed(vec![pod_state]))
    }

    fn told(&mut self, uid: &str, sent: bool) -> Vec<String> {
        let id = format!("id-{uid}");
        self.event(0, Event::NoticeClosed { id, sent })
    }

    fn blocks(&mut self, now: i64, need: UsageNeed) -> bool {
        self.departures.count_cycle(at(now));
        self.departures.block(at(now), need, true)
    }

    /// Looks every 50 ms; the first one after `from` at which another may be chosen.
    fn frees_others(&mut self, from: i64, need: UsageNeed) -> i64 {
        let mut looks = (from..10_000_000).step_by(50);
        looks.find(|now| !self.blocks(*now, need)).unwrap()
    }
}

fn words(command: &Command) -> String {
    match command {
        Command::Terminate { uid, left, again } => {
            let again = if *again { " again" } else { "" };
            format!("end {uid}{again} in {} s", left.as_secs())
        }
        Command::CutGrace { uid } => format!("cut {uid}"),
        Command::EndHook { uid } => format!("hook {uid}"),
        Command::SendNotice { uid } => format!("tell {uid}"),
        Command::Withdraw { uid, .. } => format!("withdraw {uid}"),
        Command::Preempt(planned) => format!("preempt {}", planned.uid),
        Command::Conclude {
            departure,
            conclusion,
        } => format!("conclude {} {conclusion:?}", departure.uid),
        Command::Admit { uid } => format!("let in {uid}"),
    }
}

fn listed(uid: &str, runs: bool) -> PodState {
    PodState {
        uid: uid.to_owned(),
        cgroup: Some(PathBuf::from(uid)),
        runs: Some(runs),
        listed: true,
        is_admitted: true,
        ..PodState::default()
    }
}

#[test]
fn the_next_one_waits_two_seconds_from_the_kill_and_20_looks() {
    let mut bench = Bench::of(leaving("a", hard(), seconds(0)));
    bench.event(3500, Event::Killed { uid: "a".into() });
    assert_eq!(bench.frees_others(3500, MEMORY), 5500);
    let mut slow = Bench::of(leaving("a", hard(), seconds(0)));
    slow.event(0, Event::Killed { uid: "a".into() });
    assert_eq!(slow.frees_others(20_000, MEMORY), 20_950, "it stood still");
}

#[test]
fn s1_059_after_a_transient_error_no_other_pod_is_chosen_for_30_seconds() {
    let mut bench = Bench::of(leaving("a", hard(), seconds(0)));
    assert_eq!(bench.frees_others(0, MEMORY), 30_000);
}

#[test]
fn a_soft_victim_has_its_whole_grace_period_before_the_next_victim_of_its_signal() {
    let hour = 3_600_000;
    let mut bench = Bench::of(leaving("a", soft(), seconds(3600)));
    assert!(bench.blocks(hour - 1, MEMORY));
    assert!(bench.blocks(29_999, DISK));
    assert!(!bench.blocks(30_000, DISK), "another signal waits 30 s");
    bench.event(hour, Event::Killed { uid: "a".into() });
    assert_eq!(bench.frees_others(hour, MEMORY), hour + 2000);
}

#[test]
fn a_hard_crossing_cuts_the_grace_of_soft_victims_and_of_preempted_pods() {
    let preemption = || Purpose::Preemption {
        resource: "memory".to_owned(),
    };
    let rejection = || Purpose::Rejection { conditions: vec![] };
    let table = [
        (soft(), 5000, "cut a"),
        (soft(), -1, ""),
        (hard(), 5000, ""),
        (preemption(), -1, "cut a"),
        (rejection(), 5000, ""),
    ];
    for (purpose, hard_since, expected) in table {
        let case = format!("{purpose:?} {hard_since}");
        let mut bench = Bench::of(leaving("a", purpose, seconds(60)));
        let hard_since = at(hard_since);
        let cut = bench.event(5000, cut_graces(hard_since));
        assert_eq!(cut.join(","), expected, "{case}");
        let again = bench.event(5001, cut_graces(hard_since));
        assert!(again.is_empty(), "{case}");
    }
}

#[test]
fn remaining_usage_of_an_ended_pod_is_credited_for_30_seconds_at_most() {
    let mut bench = Bench::of(leaving("a", hard(), seconds(0)));
    bench.gone(1000, "a");
    let mut pod_state = listed("a", false);
    pod_state.remaining = Some(RemainingUsage {
        memory: Some(100 << 20),
        processes: Some(7),
        ..RemainingUsage::default()
    });
    let held = |bench: &Bench, now, signal| bench.departures.remaining(at(now), signal).1;
    for now in [1050, 30_999] {
        bench.sees(now, pod_state.clone());
        let memory = held(&bench, now, Signal::MemoryAvailable);
        assert_eq!(memory, Quantity::bytes(100 << 20), "{now}");
        let processes = held(&bench, now, Signal::PidAvailable);
        assert_eq!(processes, Quantity::count(7), "{now}");
        assert!(held(&bench, now, Signal::NodefsAvailable).is_zero());
        assert!(!bench.blocks(now, MEMORY), "a credit blocks nobody");
    }
    bench.sees(31_000, pod_state.clone());
    assert!(held(&bench, 31_000, Signal::MemoryAvailable).is_zero());
    let mut again = Bench::of(leaving("a", hard(), seconds(0)));
    again.gone(1000, "a");
    again.sees(
        1050,
        PodState {
            runs: Some(true),
            ..pod_state.clone()
        },
    );
    assert!(held(&again, 1050, Signal::MemoryAvailable).is_zero());
    let mut bench = Bench::of(leaving("a", hard(), seconds(0)));
    bench.gone(1000, "a");
    bench.sees(1050, pod_state.clone());
    pod_state.remaining = Some(RemainingUsage {
        memory: Some(4096),
        swap: Some(0),
        processes: Some(0),
        ..RemainingUsage::default()
    });
    bench.sees(1100, pod_state);
    assert!(held(&bench, 1100, Signal::MemoryAvailable).is_zero());
    assert!(matches!(
        bench.departures.get("a").unwrap().stage(),
        Stage::Gone { .. }
    ));
}

#[test]
fn s1_059_only_disk_signals_wait_for_files_until_the_pod_is_unlisted_or_the_wait_times_out() {
    let purpose = || eviction(Cause::Hard, Signal::NodefsInodesFree);
    let mut bench = Bench::of(leaving("a", purpose(), seconds(0)));
    bench.gone(1000, "a");
    bench.sees(1000, listed("a", false));
    assert!(bench.blocks(1000, DISK) && !bench.blocks(1000, MEMORY));
    bench.sees(
        1100,
        PodState {
            listed: false,
            ..listed("a", false)
        },
    );
    assert!(!bench.blocks(1100, DISK));
    let mut bench = Bench::of(leaving("a", purpose(), seconds(0)));
    bench.gone(1000, "a");
    bench.sees(30_999, listed("a", false));
    assert!(bench.blocks(30_999, DISK));
    bench.sees(31_000, listed("a", false));
    assert!(!bench.blocks(31_000, DISK));
}

#[test]
fn s1_059_the_wait_for_files_ends_when_they_are_removed_although_the_pod_is_listed() {
    let mut bench = Bench::of(leaving(
        "a",
        eviction(Cause::Hard, Signal::NodefsAvailable),
        seconds(0),
    ));
    bench.gone(1000, "a");
    let seen = |files_are_gone| PodState {
        remaining: Some(RemainingUsage {
            files_are_gone,
            ..RemainingUsage::default()
        }),
        ..listed("a", false)
    };
    for (now, gone, blocks) in [
        (1000, None, true),
        (2000, Some(false), true),
        (3000, Some(true), false),
    ] {
        bench.sees(now, seen(gone));
        assert_eq!(bench.blocks(now, DISK), blocks, "{now}");
    }
}

#[test]
fn a_pod_that_could_not_be_ended_or_that_its_budget_keeps_is_passed_over_for_its_time() {
    let blocked = Ending::Blocked { again: seconds(10) };
    for (ending, until) in [(Ending::Failed, 61_000), (blocked, 11_000)] {
        let mut bench = Bench::of(leaving("a", hard(), seconds(0)));
        bench.ends(1000, "a", ending);
        assert!(!bench.blocks(1000, MEMORY));
        bench.sees(until - 1, listed("a", true));
        assert!(bench.departures.get("a").is_some());
        bench.sees(until, listed("a", true));
        assert!(bench.departures.get("a").is_none(), "{ending:?}");
    }
}

#[test]
fn a_pod_that_runs_again_before_its_notice_is_sent_is_terminated_again_under_pressure() {
    let owed = || {
        let mut departure = leaving("a", hard(), seconds(2));
        departure.notice_state = NoticeState::Pending;
        departure
    };
    let mut bench = Bench::of(owed()).under(NodeCondition::MemoryPressure);
    bench.context.transition_period = seconds(300);
    bench.gone(1000, "a");
    bench.sees(1050, listed("a", false));
    assert!(bench.departures.has_left("a"));
    assert_eq!(bench.sees(2100, listed("a", true)), ["end a again in 2 s"]);
    assert!(!bench.blocks(2100, MEMORY), "its end was decided before");
    bench.gone(2200, "a");
    bench.sees(2250, listed("a", false));
    bench.context.pressing = ConditionMap::default();
    assert!(bench.sees(602_100, listed("a", true)).is_empty());
    assert!(!bench.departures.has_left("a"), "it runs");
    let mut accepted = Bench {
        departures: bench.departures.clone(),
        context: bench.context,
    };
    assert_eq!(bench.sees(602_300, listed("a", true)), ["withdraw a"]);
    bench.told("a", false);
    bench.sees(603_300, listed("a", true));
    assert!(bench.departures.get("a").is_none());
    // The API server has it, and the kubelet may read its pods again only now.
    for (second, sees) in [(590, "nothing"), (1189, "nothing"), (1191, "withdraw a")] {
        if second == 590 {
            let id = "id-a".to_owned();
            accepted.event(second * 1000, Event::NoticeAccepted { id });
        }
        let follows = accepted.sees(second * 1000, listed("a", true)).join(",");
        let follows = if follows.is_empty() {
            "nothing"
        } else {
            &follows
        };
        assert_eq!(follows, sees, "{second}");
    }
    let mut rehearsed = Bench::of(owed()).under(NodeCondition::MemoryPressure);
    rehearsed.gone(1000, "a");
    rehearsed.sees(1050, listed("a", false));
    rehearsed.context.terminations_off = true;
    assert!(rehearsed.sees(2100, listed("a", true)).is_empty());
}

#[test]
fn a_pod_with_a_sent_notice_is_forgotten_once_it_runs_again_or_is_unlisted() {
    for gone_from_list in [false, true] {
        let mut bench = Bench::of(leaving("a", hard(), seconds(0)));
        bench.gone(1000, "a");
        bench.sees(1050, listed("a", false));
        bench.sees(2050, listed("a", false));
        assert!(bench.departures.has_left("a"));
        bench.sees(
            3050,
            PodState {
                listed: !gone_from_list,
                ..listed("a", !gone_from_list)
            },
        );
        assert!(bench.departures.get("a").is_none(), "{gone_from_list}");
    }
}

#[test]
fn a_rejected_pod_is_terminated_whenever_it_runs_while_its_reason_holds() {
    let rejected = || {
        let conditions = vec![NodeCondition::MemoryPressure];
        let mut departure = leaving("a", Purpose::Rejection { conditions }, seconds(0));
        departure.notice_state = NoticeState::Pending;
        departure.runs = false;
        departure
    };
    let outside = |runs| PodState {
        is_admitted: false,
        ..listed("a", runs)
    };
    let mut bench = Bench::default().under(NodeCondition::MemoryPressure);
    bench.context.kubelet = true;
    bench.context.transition_period = seconds(300);
    assert_eq!(bench.begin(0, rejected()), ["tell a"]);
    assert!(bench.sees(900, outside(true)).is_empty(), "only just");
    assert_eq!(bench.sees(1100, outside(true)), ["end a again in 0 s"]);
    bench.gone(1200, "a");
    bench.sees(1250, outside(false));
    bench.context.keeping_away = ConditionMap::default();
    assert!(bench.sees(2300, outside(true)).is_empty(), "over");
    let mut accepted = bench.departures.clone();
    assert_eq!(bench.sees(300_000, outside(true)), ["withdraw a"]);
    let id = "id-a".to_owned();
    accepted.on_event(at(200_000), Event::NoticeAccepted { id }, &bench.context);
    std::mem::swap(&mut accepted, &mut bench.departures);
    assert!(bench.sees(799_000, outside(true)).is_empty(), "owed");
    assert_eq!(bench.sees(800_000, outside(true)), ["withdraw a"]);
    assert_eq!(bench.told("a", false), ["let in a"]);
    assert!(bench.departures.get("a").is_none());

    let mut told = Bench::default();
    told.context.kubelet = true;
    told.begin(0, rejected());
    told.told("a", true);
    assert_eq!(told.sees(1100, outside(true)), ["end a again in 0 s"]);
    told.gone(1200, "a");
    told.sees(
        1300,
        PodState {
            terminal: true,
            ..outside(false)
        },
    );
    assert!(told.departures.get("a").is_none());
}

#[test]
fn without_a_kubelet_a_pod_that_was_turned_away_may_be_let_in_later() {
    let purpose = Purpose::Rejection { conditions: vec![] };
    let mut departure = leaving("a", purpose, seconds(0));
    departure.runs = false;
    let mut bench = Bench::default();
    assert!(bench.begin(0, departure).is_empty());
    assert_eq!(bench.sees(100, listed("a", false)), ["withdraw a"]);
    assert!(bench.departures.get("a").is_none());
}

#[test]
fn s2_016_victims_of_a_preemption_are_terminated_one_after_the_other() {
    let planned = |uid: &str| Planned {
        uid: uid.to_owned(),
        preemptor: "critical".to_owned(),
        lacks: "memory".to_owned(),
    };
    let mut bench = Bench::default();
    bench.event(0, Event::Plan(vec![planned("a"), planned("b")]));
    assert!(bench.departures.is_planned("b"));
    assert_eq!(bench.event(0, Event::Next), ["preempt a"]);
    let purpose = || Purpose::Preemption {
        resource: "memory".to_owned(),
    };
    assert_eq!(
        bench.begin(0, leaving("a", purpose(), seconds(30))),
        ["end a in 30 s"]
    );
    assert!(bench.event(100, Event::Next).is_empty());
    bench.ends(30_000, "a", Ending::Failed);
    assert_eq!(bench.event(30_001, Event::Next), ["preempt b"]);
    bench.departures.skip_planned();
    assert!(bench.event(30_002, Event::Next).is_empty());
}

#[test]
fn the_one_that_its_kubelet_evicts_is_waited_for_four_seconds() {
    let kubelet_eviction = || {
        let names = ("a/a".to_owned(), "a".to_owned());
        Departures::kubelet_eviction(at(0), names, PathBuf::from("a"))
    };
    let mut bench = Bench::default();
    assert!(bench.begin(0, kubelet_eviction()).is_empty());
    assert!(bench.blocks(3999, MEMORY) && !bench.blocks(4000, MEMORY));
    bench.sees(500, listed("a", false));
    assert!(!bench.blocks(501, MEMORY), "nothing of it runs any more");
    // One that goes by our own decision is not taken from us.
    let mut ours = Bench::of(leaving("a", hard(), seconds(0)));
    ours.begin(100, kubelet_eviction());
    assert_eq!(ours.departures.get("a").unwrap().purpose, hard());
}

#[test]
fn a_deleted_pod_that_runs_on_is_credited_for_its_grace_and_two_seconds_and_then_overdue() {
    let names = ("a/a".to_owned(), "a".to_owned());
    let deleted = Departures::deleted(at(0), names, PathBuf::from("a"), seconds(30));
    let mut bench = Bench::of(deleted);
    assert!(!bench.blocks(0, MEMORY));
    assert!(bench.departures.is_credited("a", at(31_999)));
    assert!(!bench.departures.is_overdue("a", at(31_999)));
    assert!(!bench.departures.is_credited("a", at(32_000)));
    assert!(bench.departures.is_overdue("a", at(32_000)));
    assert_eq!(
        bench.begin(32_000, leaving("a", hard(), seconds(0))),
        ["end a in 0 s"]
    );
    assert!(!bench.departures.is_overdue("a", at(32_000)));
}

#[test]
fn a_pod_that_its_kubelet_ends_too_late_for_a_hard_threshold_is_overdue_at_once() {
    let names = || ("a/a".to_owned(), "a".to_owned());
    let group = || PathBuf::from("a");
    let deleted = || Departures::deleted(at(0), names(), group(), seconds(0));
    let long_deleted = || Departures::deleted(at(0), names(), group(), seconds(30));
    let evicted = || Departures::kubelet_eviction(at(0), names(), group());
    for (departure, exhausted, cut) in [
        (deleted(), Some(1500), true),
        (deleted(), Some(2500), false),
        (deleted(), None, false),
        (long_deleted(), Some(20_000), true),
        (evicted(), Some(3900), true),
        (evicted(), Some(4000), false),
        (leaving("a", soft(), seconds(30)), Some(1500), false),
    ] {
        let case = format!("{:?} {exhausted:?}", departure.purpose);
        let mut bench = Bench::of(departure);
        let cuts = Event::CutGraces {
            // A soft victim that was chosen after it is not cut short.
            hard_since: at(-1),
            exhausted_at: exhausted.map(at),
        };
        let follows = bench.event(100, cuts);
        assert_eq!(follows == ["cut a"], cut, "{case}: {follows:?}");
        assert_eq!(bench.departures.is_overdue("a", at(100)), cut, "{case}");
        assert_eq!(bench.departures.is_credited("a", at(100)), !cut, "{case}");
        if cut {
            assert!(!bench.blocks(100, MEMORY), "{case}");
            let outside = PodState {
                listed: false,
                ..listed("a", true)
            };
            bench.sees(150, outside);
            assert!(bench.departures.is_overdue("a", at(150)), "{case}");
        }
    }
}

/// What an earlier run left open, decided at 0 with two seconds of grace.
fn found(telling: NoticeState, ended: bool, rebooted: bool) -> Event {
    let mut departure = leaving("a", hard(), seconds(2));
    departure.notice_state = telling;
    departure.cgroup = None;
    Event::Resume(Box::new(UnfinishedDecision {
        departure,
        ended,
        rebooted,
    }))
}

#[test]
fn an_open_decision_is_finished_while_its_process_or_its_pressure_is_there_and_else_concluded() {
    let gone = "conclude a Gone";
    let runs_on = |outcome_missing, notice_pending| {
        let conclusion = Conclusion::StillRuns {
            outcome_missing,
            notice_pending,
        };
        format!("conclude a {conclusion:?}")
    };
    let table = [
        ("runs older", 1, "end a in 1 s".to_owned()),
        ("runs pressing", 1, "end a in 1 s".to_owned()),
        ("runs", 1, gone.to_owned()),
        ("runs older", 10, "end a in 0 s".to_owned()),
        ("pressing", 1, gone.to_owned()),
        ("rebooted runs older pressing", 1, gone.to_owned()),
        ("owed runs older", 1, "end a in 1 s".to_owned()),
        ("owed ended runs", 1, "tell a".to_owned()),
        ("owed", 1, format!("tell a,{gone}")),
        (
            "owed ended runs older pressing",
            302,
            "tell a,end a again in 2 s".to_owned(),
        ),
        ("owed ended runs older pressing", 602, runs_on(false, true)),
        ("runs older pressing", 302, runs_on(true, false)),
        ("told runs older", 302, "end a in 0 s".to_owned()),
    ];
    for (words, second, expected) in table {
        let is = |word: &str| words.split(' ').any(|one| one == word);
        let telling = match (is("owed"), is("told")) {
            (true, _) => NoticeState::Pending,
            (_, true) => NoticeState::Sent,
            _ => NoticeState::NotNeeded,
        };
        let mut bench = Bench::default();
        bench.context.transition_period = seconds(300);
        bench.context.pressing[NodeCondition::MemoryPressure] = is("pressing");
        bench.event(0, found(telling, is("ended"), is("rebooted")));
        let pod_state = PodState {
            older: is("older"),
            ..listed("a", is("runs"))
        };
        let unsure = PodState {
            unsure: true,
            ..pod_state.clone()
        };
        let case = format!("{words} {second}");
        assert!(bench.sees(second * 1000, unsure).is_empty(), "{case}");
        let follows = bench.sees(second * 1000, pod_state);
        assert_eq!(follows.join(","), expected, "{case}");
        assert!(bench.departures.unfinished.is_empty(), "{case}");
    }
}
