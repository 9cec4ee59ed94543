//! What a job waits for, and what would start it.

use super::answer::{Answer, State};
use super::change::{Change, counted, named};
use super::ends::ending;
use super::search::{Proposal, Search};
use super::subject::{Kind, Subject};
use super::unknown::nearest;
use super::world::World;
use super::{life, words};
use crate::session::{Closeup, Hold, Lack, Outcome, Setting};
use std::collections::BTreeSet;

/// The whole answer, but for what has happened to the job before.
pub(super) fn answer(world: &mut World<'_>, subject: &Subject, setting: &Setting) -> Answer {
    if let Some(plain) = life::answer(world, subject, setting) {
        return plain;
    }
    let (outcome, closeup) = look(world, subject);
    let starts = world.starts(subject);
    let mut answer = match &closeup {
        None => unseen(world, subject, setting),
        Some(closeup) => seen(world, subject, (&outcome, closeup), starts),
    };
    if starts.is_none() {
        let first = first(world, subject, setting, closeup.as_ref());
        let exhausted;
        (answer.soonest, exhausted) = soonest(world, subject, first);
        if exhausted {
            let more = "The cluster is large: not every change was tried.";
            answer.more.push(more.to_owned());
        }
        if answer.soonest.is_empty() && !unmade(world, subject) {
            let nothing = "None of the changes that were tried starts it alone.";
            answer.more.push(nothing.to_owned());
        }
    }
    let group = outcome.pod_groups.get(&subject.group);
    let mut conditions = group.iter().flat_map(|group| &group.conditions);
    let said = conditions.find(|own| own.kind == "Unschedulable");
    answer.said = said.map(|own| own.message.clone());
    answer.closeup = closeup;
    answer.ahead = ahead(world, answer.closeup.as_ref());
    answer
}

/// A session with a close look at the job.
fn look(world: &mut World<'_>, subject: &Subject) -> (Outcome, Option<Closeup>) {
    let (outcome, mut closeup) = world.closeup(&subject.group);
    if let Some(closeup) = &mut closeup {
        let queue = world.queues.get(&closeup.queue.name);
        let state = queue.map(|own| own.status.state.clone());
        closeup.queue.state = state.unwrap_or_default();
    }
    (outcome, closeup)
}

/// What the jobs are called that come first.
fn ahead(world: &World<'_>, closeup: Option<&Closeup>) -> Vec<String> {
    let ahead = closeup.into_iter().flat_map(|closeup| &closeup.ahead);
    ahead.map(|own| world.job_of(&own.pod_group)).collect()
}

/// The name of the job's queue, whether that is there or not.
fn queue_of(world: &World<'_>, subject: &Subject, setting: &Setting) -> String {
    let group = world.groups.get(&subject.group);
    let group = group.or(subject.made.group.as_ref());
    let job = subject.job.as_ref().map(|job| &job.spec.queue);
    let named = group.map(|group| &group.spec.queue).or(job);
    let named = named.map(String::as_str);
    let upstream = world.upstream.get(&*subject.group);
    let upstream = upstream.map(|own| crate::wire::queue_of(&own.metadata));
    let named = named.or(upstream).filter(|name| !name.is_empty());
    let of_pods = || {
        subject
            .pods(world)
            .map(|(_, pod)| crate::wire::queue_of(&pod.metadata))
            .next()
    };
    let named = named.or_else(of_pods).filter(|name| !name.is_empty());
    named.unwrap_or(&setting.default_queue).to_owned()
}

/// A job that no session looks at.
fn unseen(world: &World<'_>, subject: &Subject, setting: &Setting) -> Answer {
    let name = subject.title();
    let queue = queue_of(world, subject, setting);
    let waits = |why: String| Answer::of(subject, State::Waits, format!("{name} waits: {why}"));
    let plain = matches!(subject.kind, Kind::Pod | Kind::Owner) && subject.job.is_none();
    let plain = plain && !world.groups.contains_key(&subject.group) && !world.form.plain_pods;
    if !plain && !world.queues.contains_key(&queue) {
        let mut own = waits(format!("its queue {queue} does not exist"));
        let known = world.queues.keys().map(String::as_str);
        if let Some(nearest) = nearest(&queue, known) {
            own.more
                .push(format!("The queue whose name is nearest is {nearest}."));
        }
        return own;
    }
    if world.upstream.contains_key(&*subject.group) {
        let scheduler = &setting.scheduler;
        return waits(format!("no pod with schedulerName {scheduler} is of it"));
    }
    let mut own = waits(if plain {
        "its pods belong to no pod group".to_owned()
    } else {
        "it has no pod group".to_owned()
    });
    own.more.push(
        "The controllers make it: does evictd-batch controllers run, and can it reach the API server?".to_owned(),
    );
    own
}

/// A job that sessions look at.
fn seen(
    world: &World<'_>,
    subject: &Subject,
    (outcome, closeup): (&Outcome, &Closeup),
    starts: Option<usize>,
) -> Answer {
    let unmade = unmade(world, subject);
    if let Some(sessions) = starts.filter(|_| !unmade) {
        return starting(world, subject, outcome, sessions);
    }
    let name = subject.title();
    let (why, state) = cause(subject, closeup, unmade);
    let count = |status: &str| closeup.pods.get(status).copied().unwrap_or(0);
    let there = count("Running") + count("Bound");
    let to_come = subject.made.pods.len() + subject.made.dependent;
    let all = there + count("Pending") + i32::try_from(to_come).unwrap_or(0);
    let (state, headline) = if there == 0 {
        let verb = if state == State::NotLetIn {
            "is not let in"
        } else {
            "waits"
        };
        (state, format!("{name} {verb}: {why}"))
    } else if closeup.missing == 0 {
        let headline =
            format!("{name} runs with {there} of its {all} pods; the others wait: {why}");
        (State::RunsInPart, headline)
    } else {
        let needs = closeup.min_member;
        let headline = format!(
            "{name} runs with {there} of the {needs} pods that it needs; the others wait: {why}"
        );
        (State::RunsInPart, headline)
    };
    let mut own = Answer::of(subject, state, headline);
    own.more = besides(subject, closeup, starts);
    own
}

/// Whether the controllers have yet to make pods of a job that was let in.
fn unmade(world: &World<'_>, subject: &Subject) -> bool {
    !subject.made.pods.is_empty() && !is_pending(world, subject)
}

fn is_pending(world: &World<'_>, subject: &Subject) -> bool {
    let group = world.groups.get(&subject.group);
    group.is_none_or(|group| matches!(&*group.status.phase, "" | "Pending"))
}

/// How many pods more it takes until something starts.
fn needed(closeup: &Closeup) -> usize {
    usize::try_from(closeup.missing).unwrap_or(0).max(1)
}

fn found(closeup: &Closeup) -> usize {
    closeup.places.now + closeup.places.later
}

/// What the job waits for.
fn cause(subject: &Subject, closeup: &Closeup, unmade: bool) -> (String, State) {
    let waits = |why: String| (why, State::Waits);
    let kept_out = closeup
        .holds
        .iter()
        .find_map(|hold| kept_out(closeup, hold));
    if let Some(kept_out) = kept_out {
        return kept_out;
    }
    if unmade {
        let count = counted(subject.made.pods.len(), "pod");
        return waits(format!("the controllers have not made {count} of it"));
    }
    if !closeup.gated.is_empty() && closeup.places.waiting < needed(closeup) {
        let gated = closeup.gated.len();
        let have = if gated == 1 { "has" } else { "have" };
        let count = counted(gated, "pod");
        return waits(format!("{count} of it {have} scheduling gates"));
    }
    let few = |hold: &Hold| matches!(hold, Hold::TooFewPods { .. });
    if closeup.holds.iter().any(few) {
        return waits(too_few(subject, closeup));
    }
    if closeup.places.waiting == 0 {
        return waits(match subject.made.dependent {
            0 => "none of its pods waits for room".to_owned(),
            count => format!(
                "{} are made once other tasks run (dependsOn)",
                counted(count, "pod")
            ),
        });
    }
    // A queue that may have all of the cluster is not what is too small.
    let short = found(closeup) < needed(closeup);
    let limited = closeup.holds.iter().find_map(|hold| limited(closeup, hold));
    if let Some((why, _)) = limited.filter(|(_, own)| *own || !short) {
        return waits(format!("queue {} {why}", closeup.queue.name));
    }
    if short {
        return waits(no_room(closeup));
    }
    waits("the session gave the room to others, or would free it for others".to_owned())
}

/// Why a job is not let in, or may not have anything.
fn kept_out(closeup: &Closeup, hold: &Hold) -> Option<(String, State)> {
    let queue = &closeup.queue;
    let (plugin, words, lacks) = match hold {
        Hold::Closed => {
            let state = match queue.state.as_str() {
                "" => "not open yet".to_owned(),
                state => state.to_lowercase(),
            };
            return Some((format!("queue {} is {state}", queue.name), State::Waits));
        }
        Hold::NotLetIn {
            plugin,
            words,
            lacks,
        } => (*plugin, words, lacks),
        _ => return None,
    };
    let amounts = words::amounts(lacks);
    let why = match plugin {
        _ if lacks.is_empty() => words.clone(),
        "overcommit" if lacks.iter().all(|own| !own.held.is_positive()) => {
            format!("it needs more than is left in the cluster ({amounts})")
        }
        "overcommit" => {
            format!("other jobs were promised what is left in the cluster ({amounts} with it)")
        }
        _ => format!(
            "queue {} may not have so much ({amounts} with it)",
            queue.name
        ),
    };
    Some((why, State::NotLetIn))
}

/// What the share of the job's queue says, and whether it is less than all of the cluster.
fn limited(closeup: &Closeup, hold: &Hold) -> Option<(String, bool)> {
    let (lacks, used) = match hold {
        Hold::ShareUsed { lacks } => (lacks, true),
        Hold::Limit { lacks, allowed, .. } if *allowed < needed(closeup) => (lacks, false),
        _ => return None,
    };
    let stand = |lack: &Lack| {
        let mut stands = closeup.queue.resources.iter();
        stands.find(|own| own.resource == lack.resource)
    };
    let capped = |lack: &Lack| {
        stand(lack).is_some_and(|own| own.capped && own.capability == Some(lack.limit))
    };
    let whole = |lack: &Lack| {
        stand(lack).is_some_and(|own| !own.capped && own.capability == Some(lack.limit))
    };
    let own = !lacks.iter().all(whole);
    let capped = lacks.iter().any(capped);
    let full = used || lacks.iter().any(|lack| lack.held >= lack.limit);
    let amounts = if full {
        words::held(lacks)
    } else {
        words::amounts(lacks)
    };
    let why = match (capped, full) {
        (true, true) => format!("holds all that it may have ({amounts})"),
        (true, false) => format!("may not have so much ({amounts} with it)"),
        (false, true) => format!("holds all that it deserves ({amounts})"),
        (false, false) => format!("does not deserve so much ({amounts} with it)"),
    };
    Some((why, own))
}

fn too_few(subject: &Subject, closeup: &Closeup) -> String {
    let there = closeup.pods.iter();
    let there = there.filter(|(status, _)| !matches!(**status, "Failed" | "Unknown" | "Releasing"));
    let there = there.map(|(_, count)| *count).sum::<i32>();
    let dependent = subject.made.dependent;
    let failed = closeup.pods.get("Failed").copied().unwrap_or(0);
    let mut text = format!(
        "it has {there} of the {} pods that it needs",
        closeup.min_member
    );
    if dependent > 0 {
        let count = counted(dependent, "pod");
        text = format!("{text}; {count} are made once other tasks run (dependsOn)");
    } else if failed > 0 {
        text = format!("{text}; {failed} have failed");
    }
    text
}

fn no_room(closeup: &Closeup) -> String {
    let places = &closeup.places;
    let reasons = words::reasons(places);
    let (waiting, lacking) = (places.waiting, places.waiting - found(closeup));
    let within = places.within.as_ref();
    let place = within.map_or("node".to_owned(), |within| format!("node with {within}"));
    match (waiting, lacking) {
        (1, _) => format!("its pod fits on no {place} ({reasons})"),
        (all, none) if all == none => {
            format!("none of its {all} pods fits on a {place} ({reasons})")
        }
        (_, 1) => format!("1 of its {waiting} pods fits on no {place} ({reasons})"),
        _ => format!("{lacking} of its {waiting} pods fit on no {place} ({reasons})"),
    }
}

/// What else there is to say.
fn besides(subject: &Subject, closeup: &Closeup, starts: Option<usize>) -> Vec<String> {
    let mut more = Vec::new();
    if subject.title() != subject.name {
        more.push(format!(
            "{} {} belongs to it.",
            subject.kind.as_str(),
            subject.name
        ));
    }
    if let Some(within) = &closeup.places.within {
        more.push(format!(
            "All its pods have to be in one domain: most room for them is on nodes with {within}."
        ));
    }
    let (found, needed) = (found(closeup), needed(closeup));
    if starts.is_some() {
        more.push("Once they are there, it starts.".to_owned());
        more.push(
            "Does evictd-batch controllers run, and is there a quota that refuses pods?".to_owned(),
        );
    }
    if found > 0 && found < needed && needed <= closeup.places.waiting {
        more.push(format!(
            "It starts with {needed} pods more or with none: the room for {found} is of no use."
        ));
    }
    if subject.made.dependent > 0 && closeup.missing == 0 && closeup.places.waiting > 0 {
        let count = counted(subject.made.dependent, "pod");
        more.push(format!(
            "{count} more are made once other tasks run (dependsOn)."
        ));
    }
    let gates = closeup.gated.len();
    if gates > 0 && closeup.places.waiting >= needed {
        let count = counted(gates, "pod");
        more.push(format!(
            "{count} of it with scheduling gates are left alone."
        ));
    }
    more
}

/// A job that starts with all as it is.
fn starting(world: &World<'_>, subject: &Subject, outcome: &Outcome, sessions: usize) -> Answer {
    let name = subject.title();
    let own: BTreeSet<&String> = subject.pods(world).map(|(key, _)| key).collect();
    let going = world.pods.iter();
    let going = going.filter(|(_, pod)| pod.metadata.deletion_timestamp.is_some());
    let going: Vec<String> = going.map(|(key, _)| key.clone()).collect();
    let promised = outcome.pipelined.keys().any(|pod| own.contains(pod));
    let victims: Vec<String> = outcome.evicted.iter().map(|own| own.pod.clone()).collect();
    let bound = outcome.binds.keys().filter(|pod| own.contains(pod)).count();
    let headline = if subject.is_started(outcome, subject.min_member) {
        let pods = counted(bound, "pod");
        format!("{name} starts: the next session binds {pods} of it")
    } else if promised && !victims.is_empty() {
        let have = if victims.len() == 1 { "has" } else { "have" };
        format!(
            "{name} starts once {} {have} made room: the next session evicts for it",
            named(&victims)
        )
    } else if !going.is_empty() && sessions > 1 {
        let (pods, have) = if going.len() == 1 {
            ("pod", "is ending has")
        } else {
            ("pods", "are ending have")
        };
        format!(
            "{name} starts once the {pods} that {have} gone: {}",
            named(&going)
        )
    } else if is_pending(world, subject) {
        format!("{name} is let in by the next session, and starts then")
    } else {
        format!("{name} starts within {}", counted(sessions, "session"))
    };
    let mut answer = Answer::of(subject, State::Starts, headline);
    answer
        .more
        .push("If it does not: does the scheduler run, with this configuration?".to_owned());
    answer
}

/// Changes without which nothing else helps.
fn first(
    world: &World<'_>,
    subject: &Subject,
    setting: &Setting,
    closeup: Option<&Closeup>,
) -> Vec<Change> {
    let mut first = Vec::new();
    let queue = queue_of(world, subject, setting);
    match world.queues.get(&queue) {
        None => first.push(Change::MakeQueue { queue }),
        Some(own) if own.status.state != "Open" => {
            let closed = |closeup: &Closeup| closeup.holds.contains(&Hold::Closed);
            if closeup.is_none_or(closed) {
                first.push(Change::OpenQueue { queue });
            }
        }
        Some(_) => {}
    }
    let pods = subject.pods(world).map(|(_, pod)| pod);
    let gates: BTreeSet<String> = pods
        .flat_map(|pod| pod.spec.scheduling_gates.iter())
        .map(|gate| gate.name.clone())
        .collect();
    let short = |closeup: &Closeup| closeup.places.waiting < needed(closeup);
    if !gates.is_empty() && closeup.is_none_or(short) {
        first.push(Change::RemoveGates {
            gates: gates.into_iter().collect(),
        });
    }
    first
}

/// The smallest changes of each kind, and whether more would have been tried in a smaller cluster.
fn soonest(world: &mut World<'_>, subject: &Subject, first: Vec<Change>) -> (Vec<Proposal>, bool) {
    let mark = world.mark();
    for change in &first {
        change.apply(world, subject);
    }
    let (_, closeup) = look(world, subject);
    world.undo(mark);
    let mut search = Search::new(world, subject);
    search.first = first;
    let alone = if search.first.is_empty() {
        None
    } else {
        search.proposal(Vec::new())
    };
    let proposals = match alone {
        Some(own) => vec![own],
        None => each_kind(&mut search, closeup.as_ref()),
    };
    (proposals, search.is_exhausted())
}

/// What happens by itself, then what could be changed.
fn each_kind(search: &mut Search<'_, '_>, closeup: Option<&Closeup>) -> Vec<Proposal> {
    let mut proposals = search.ends();
    let Some(closeup) = closeup else {
        return proposals;
    };
    let fewest = proposals.iter().map(|own| ending(&own.changes)).min();
    proposals.extend(search.ends_before_all(closeup, fewest));
    let limited = closeup.holds.iter().any(|hold| match hold {
        Hold::NotLetIn { plugin, .. } => *plugin != "overcommit",
        Hold::ShareUsed { .. } | Hold::Limit { .. } => true,
        Hold::Closed | Hold::TooFewPods { .. } => false,
    });
    if limited {
        proposals.extend(search.capability(closeup));
        if closeup.queue.plugin == Some("proportion") {
            proposals.extend(search.weight(closeup));
        }
    }
    proposals.extend(search.priority(closeup));
    if found(closeup) < needed(closeup) {
        proposals.extend(search.reconfigured());
    }
    proposals.extend(search.more_on_a_node(closeup));
    proposals.extend(search.more_nodes(closeup));
    proposals.extend(search.smaller_gang(closeup));
    proposals
}
