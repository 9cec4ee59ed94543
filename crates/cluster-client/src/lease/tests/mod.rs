mod server;
mod simulation;

use super::*;
use jiff::Timestamp;
use std::time::Duration;

fn at(seconds: f64) -> Moment {
    Moment {
        elapsed: Duration::from_secs_f64(seconds),
        time: Timestamp::from_second(1_800_000_000).unwrap(),
        chance: 0.5,
    }
}

fn wake(seconds: f64) -> Command {
    Command::Wake(Duration::from_secs_f64(seconds))
}

fn election(identity: &str) -> Election {
    Election::new(Settings::new(identity.to_owned()))
}

/// As another wrote it, the given number of renewals ago.
fn of_other(renewals: u32) -> Record {
    Record {
        holder: "b".to_owned(),
        duration_seconds: 15,
        acquire_time: Some("2020-01-01T00:00:00.000000Z".to_owned()),
        renew_time: Some(format!("2020-01-01T00:00:{renewals:02}.000000Z")),
        transitions: 4,
    }
}

/// One that leads since this time.
fn leader(seconds: f64) -> Election {
    let mut election = election("a");
    election.on_event(at(seconds), Event::Wake);
    election.on_event(at(seconds), Event::Found(Ok(None)));
    let held = election.on_event(at(seconds), Event::Written(true));
    assert_eq!(held, [wake(seconds + 2.0), Command::Role(Role::Leader)]);
    election
}

fn update(commands: &[Command]) -> &Record {
    let record = commands.iter().find_map(|command| match command {
        Command::Update(record) | Command::Create(record) => Some(record),
        _ => None,
    });
    record.unwrap_or_else(|| panic!("{commands:?}"))
}

#[test]
fn a_lease_without_a_holder_is_created_and_held() {
    let mut election = election("a");
    assert_eq!(election.on_event(at(0.0), Event::Wake), [Command::Read]);
    let commands = election.on_event(at(0.1), Event::Found(Ok(None)));
    let time = Some("2027-01-15T08:00:00.000000Z".to_owned());
    let expected = Record {
        holder: "a".to_owned(),
        duration_seconds: 15,
        acquire_time: time.clone(),
        renew_time: time,
        transitions: 0,
    };
    assert_eq!(commands, [Command::Create(expected)]);
    let commands = election.on_event(at(0.2), Event::Written(true));
    assert_eq!(commands, [wake(2.2), Command::Role(Role::Leader)]);
    // Another was faster: the next attempt comes after the period and a part of 1.2 of it.
    let mut election = super::tests::election("a");
    election.on_event(at(0.0), Event::Wake);
    election.on_event(at(0.0), Event::Found(Ok(None)));
    assert_eq!(
        election.on_event(at(1.0), Event::Written(false)),
        [wake(4.2)]
    );
}

#[test]
fn anothers_lease_counts_from_when_its_change_was_seen() {
    let mut election = election("a");
    let mut attempt = |seconds: f64, record: Record| {
        assert_eq!(election.on_event(at(seconds), Event::Wake), [Command::Read]);
        election.on_event(at(seconds), Event::Found(Ok(Some(record))))
    };
    // By its own times it ended years ago.
    let role = Command::Role(Role::Candidate("b".to_owned()));
    assert_eq!(attempt(100.0, of_other(0)), [wake(103.2), role]);
    assert_eq!(attempt(110.0, of_other(1)), [wake(113.2)]);
    assert_eq!(attempt(113.2, of_other(1)), [wake(116.4)]);
    let commands = attempt(125.0, of_other(1));
    let record = update(&commands);
    assert_eq!((record.holder.as_str(), record.transitions), ("a", 5));
}

#[test]
fn anothers_lease_holds_to_its_end() {
    let mut election = election("a");
    election.on_event(at(0.0), Event::Wake);
    election.on_event(at(0.0), Event::Found(Ok(Some(of_other(0)))));
    assert_eq!(election.on_event(at(3.1), Event::Wake), [wake(3.2)]);
    election.on_event(at(14.9), Event::Wake);
    let commands = election.on_event(at(14.9), Event::Found(Ok(Some(of_other(0)))));
    assert_eq!(commands, [wake(18.1)]);
}

#[test]
fn a_lease_that_was_given_up_is_taken_at_once() {
    let mut election = election("a");
    election.on_event(at(0.0), Event::Wake);
    let free = Record {
        holder: String::new(),
        duration_seconds: 1,
        ..of_other(0)
    };
    let commands = election.on_event(at(0.0), Event::Found(Ok(Some(free))));
    assert_eq!(update(&commands).transitions, 5);
}

#[test]
fn a_leader_renews_without_reading_and_keeps_when_it_began() {
    let mut leader = leader(10.0);
    let mut later = at(12.0);
    later.time = Timestamp::from_second(1_800_000_002).unwrap();
    let commands = leader.on_event(later, Event::Wake);
    let record = update(&commands);
    assert_eq!(
        record.acquire_time.as_deref(),
        Some("2027-01-15T08:00:00.000000Z")
    );
    assert_eq!(
        record.renew_time.as_deref(),
        Some("2027-01-15T08:00:02.000000Z")
    );
    assert_eq!(record.transitions, 0);
    // It would wake at the deadline of this round, should no answer come.
    assert_eq!(commands[1], wake(22.0));
    assert_eq!(
        leader.on_event(at(12.5), Event::Written(true)),
        [wake(14.5)]
    );
    assert_eq!(*leader.role(), Role::Leader);
}

#[test]
fn a_leader_whose_write_met_another_reads_first() {
    let mut leader = leader(0.0);
    let record = update(&leader.on_event(at(2.0), Event::Wake)).clone();
    let commands = leader.on_event(at(2.1), Event::Written(false));
    assert_eq!(commands, [Command::Read, wake(12.0)]);
    // Its own write whose answer was lost.
    let commands = leader.on_event(at(2.2), Event::Found(Ok(Some(record))));
    assert_eq!(update(&commands).transitions, 0);
    assert_eq!(leader.on_event(at(2.3), Event::Written(true)), [wake(4.3)]);
}

#[test]
fn a_lease_that_another_has_taken_is_lost_at_once() {
    let mut leader = leader(0.0);
    leader.on_event(at(2.0), Event::Wake);
    leader.on_event(at(2.1), Event::Written(false));
    let commands = leader.on_event(at(2.2), Event::Found(Ok(Some(of_other(0)))));
    assert_eq!(commands, [Command::Role(Role::Lost)]);
    assert_eq!(leader.on_event(at(2.3), Event::Wake), []);
}

#[test]
fn a_leader_that_cannot_renew_stops_before_others_may_begin() {
    let mut leader = leader(0.0);
    let mut now = 2.0;
    let failed = Event::Found(Err(Unreachable));
    loop {
        let commands = leader.on_event(at(now), Event::Wake);
        if commands == [Command::Role(Role::Lost)] {
            break;
        }
        leader.on_event(at(now), Event::Written(false));
        let next = (now + 2.0).min(12.0);
        assert_eq!(leader.on_event(at(now), failed.clone()), [wake(next)]);
        now = next;
    }
    assert!((now - 12.0).abs() < 0.001);
    // The same while a call hangs.
    let mut leader = super::tests::leader(0.0);
    leader.on_event(at(2.0), Event::Wake);
    assert_eq!(leader.on_event(at(11.9), Event::Wake), [wake(12.0)]);
    let lost = leader.on_event(at(12.0), Event::Wake);
    assert_eq!(lost, [Command::Role(Role::Lost)]);
    assert_eq!(leader.on_event(at(12.1), Event::Written(true)), []);
}

#[test]
fn a_slow_write_counts_from_when_it_was_sent() {
    let mut election = election("a");
    election.on_event(at(0.0), Event::Wake);
    election.on_event(at(0.0), Event::Found(Ok(None)));
    let commands = election.on_event(at(14.0), Event::Written(true));
    assert_eq!(commands, [wake(15.0), Command::Role(Role::Leader)]);
    assert_eq!(
        election.on_event(at(15.0), Event::Wake),
        [Command::Role(Role::Lost)]
    );
    // So late that it never leads.
    let mut election = super::tests::election("a");
    election.on_event(at(0.0), Event::Wake);
    election.on_event(at(0.0), Event::Found(Ok(None)));
    assert_eq!(
        election.on_event(at(15.0), Event::Written(true)),
        [wake(18.2)]
    );
}

#[test]
fn a_leader_that_stops_gives_its_lease_up() {
    let mut leader = leader(0.0);
    let commands = leader.on_event(at(1.0), Event::Stop);
    // The server may give the lease to another before it has answered this one.
    assert_eq!(commands[0], Command::Role(Role::Releasing));
    let record = update(&commands);
    assert_eq!((record.holder.as_str(), record.duration_seconds), ("", 1));
    let over = [Command::Role(Role::Released)];
    assert_eq!(leader.on_event(at(1.1), Event::Written(true)), over);
    assert_eq!(leader.on_event(at(1.2), Event::Stop), []);

    // A renewal that was under way was faster.
    let mut leader = super::tests::leader(0.0);
    let renewed = update(&leader.on_event(at(2.0), Event::Wake)).clone();
    leader.on_event(at(2.0), Event::Stop);
    assert_eq!(
        leader.on_event(at(2.1), Event::Written(false)),
        [Command::Read]
    );
    let commands = leader.on_event(at(2.2), Event::Found(Ok(Some(renewed))));
    assert_eq!(update(&commands).holder, "");
    assert_eq!(leader.on_event(at(2.3), Event::Written(false)), over);

    let mut candidate = election("a");
    assert_eq!(candidate.on_event(at(0.0), Event::Stop), over);
}

#[test]
fn an_identity_is_of_the_host_and_no_two_are_equal() {
    let one = identity("node-1");
    let (host, uuid) = one.split_once('_').unwrap();
    assert_eq!((host, uuid.len()), ("node-1", 36));
    assert_eq!(&uuid[14..15], "4");
    assert!("89ab".contains(&uuid[19..20]));
    assert_ne!(one, identity("node-1"));
}
