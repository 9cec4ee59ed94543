//! Why a job waits, and the changes that would start it.

use super::answer::{Answer, State};
use super::change::{Change, NodeNames, counted, named};
use super::completion::{self, ending};
use super::queue_changes::{before_all, queues_to_open};
use super::search::{Proposal, Search};
use super::subject::{Kind, Subject};
use super::what_if::WhatIf;
use super::{lifetime, messages};
use crate::session::{BlockingReason, JobDiagnosis, LimitingKey, Outcome, Setting, Shortfall};
use evictd_batch_objects::{Difference, PodGroupConditionType};
use evictd_spelling::close;
use std::collections::BTreeSet;

/// The whole answer without the job's history.
pub(super) fn answer(what_if: &mut WhatIf<'_>, subject: &Subject, setting: &Setting) -> Answer {
    if let Some(mut plain) = lifetime::answer(what_if, subject, setting) {
        let remark = messages::other_group(what_if, subject, setting);
        plain.more.extend(remark);
        return plain;
    }
    let (outcome, diagnosis) = look(what_if, subject);
    let starts = what_if.starts(subject);
    let mut answer = match &diagnosis {
        None => unseen(what_if, subject, setting),
        Some(diagnosis) => seen(what_if, subject, (&outcome, diagnosis), starts),
    };
    answer
        .more
        .extend(messages::other_group(what_if, subject, setting));
    // A job that starts by itself needs no change.
    if starts.is_none() {
        let first = first(what_if, subject, setting, diagnosis.as_ref());
        let mut search = soonest(what_if, subject, first, &mut answer.soonest);
        answer.tried = std::mem::take(&mut search.tried);
        if search.is_exhausted() {
            let more = "The cluster is large: not every change was tried.";
            answer.more.push(more.to_owned());
        }
        if answer.soonest.is_empty() && !unmade(what_if, subject) {
            let nothing = "None of the changes that were tried starts it alone.";
            answer.more.push(nothing.to_owned());
        }
    }
    let group = outcome.pod_groups.get(&subject.group);
    let mut conditions = group.iter().flat_map(|group| &group.conditions);
    let said = conditions.find(|condition| condition.kind == PodGroupConditionType::Unschedulable);
    answer.said = said.map(|condition| condition.message.clone());
    answer.diagnosis = diagnosis;
    answer.ahead = ahead(what_if, answer.diagnosis.as_ref());
    answer
}

/// A session with a close look at the job.
fn look(what_if: &mut WhatIf<'_>, subject: &Subject) -> (Outcome, Option<JobDiagnosis>) {
    let (outcome, mut diagnosis) = what_if.diagnosis(&subject.group);
    if let Some(diagnosis) = &mut diagnosis {
        let queue = what_if.queues.get(&diagnosis.queue.name);
        let state = queue.map(|queue| queue.status.state.to_string());
        diagnosis.queue.state = state.unwrap_or_default();
    }
    (outcome, diagnosis)
}

/// The names of the jobs that come first.
fn ahead(what_if: &WhatIf<'_>, diagnosis: Option<&JobDiagnosis>) -> Vec<String> {
    let ahead = diagnosis.into_iter().flat_map(|diagnosis| &diagnosis.ahead);
    ahead
        .map(|ahead| what_if.job_of(&ahead.pod_group))
        .collect()
}

/// The name of the job's queue, whether that is there or not.
fn queue_of(what_if: &WhatIf<'_>, subject: &Subject, setting: &Setting) -> String {
    let group = what_if.groups.get(&subject.group);
    let group = group.or(subject.pending.group.as_ref());
    let job = subject.job.as_ref().map(|job| &job.spec.queue);
    let named = group.map(|group| &group.spec.queue).or(job);
    let named = named.map(String::as_str);
    let upstream = what_if.upstream.get(&*subject.group);
    let upstream = upstream.map(|upstream| evictd_batch_objects::queue_of(&upstream.metadata));
    let named = named.or(upstream).filter(|name| !name.is_empty());
    let of_pods = || {
        subject
            .pods(what_if)
            .map(|(_, pod)| evictd_batch_objects::queue_of(&pod.metadata))
            .next()
    };
    let named = named.or_else(of_pods).filter(|name| !name.is_empty());
    named.unwrap_or(&setting.default_queue).to_owned()
}

/// A job that no session looks at.
fn unseen(what_if: &WhatIf<'_>, subject: &Subject, setting: &Setting) -> Answer {
    let name = subject.title();
    let queue = queue_of(what_if, subject, setting);
    let waits = |why: String| Answer::of(subject, State::Waits, format!("{name} waits: {why}"));
    // Without a job no controller will make a pod group for these pods.
    let plain = matches!(subject.kind, Kind::Pod | Kind::Owner) && subject.job.is_none();
    let plain = plain
        && !what_if.groups.contains_key(&subject.group)
        && !what_if.compat.has(Difference::BarePods);
    if !plain && !what_if.queues.contains_key(&queue) {
        let mut answer = waits(format!("its queue {queue} does not exist"));
        let known = what_if.queues.keys().map(String::as_str);
        if let Some(nearest) = close(&queue, known) {
            answer
                .more
                .push(format!("The queue whose name is nearest is {nearest}."));
        }
        return answer;
    }
    if what_if.upstream.contains_key(&*subject.group) {
        let scheduler = &setting.scheduler;
        return waits(format!("no pod with schedulerName {scheduler} is of it"));
    }
    let mut answer = waits(if plain {
        "its pods belong to no pod group".to_owned()
    } else {
        "it has no pod group".to_owned()
    });
    answer.more.push(
        "The controllers make it: does evictd-batch controllers run, and can it reach the API server?".to_owned(),
    );
    answer
}

/// A job that sessions look at.
fn seen(
    what_if: &WhatIf<'_>,
    subject: &Subject,
    (outcome, diagnosis): (&Outcome, &JobDiagnosis),
    starts: Option<usize>,
) -> Answer {
    // The trial has created the missing pods, but in the cluster they do not exist yet.
    let unmade = unmade(what_if, subject);
    if let Some(sessions) = starts.filter(|_| !unmade) {
        return starting(what_if, subject, outcome, sessions);
    }
    let name = subject.title();
    let (why, state) = match promised(what_if, subject, outcome) {
        Some(why) if !unmade => (why, State::Waits),
        _ => cause(subject, diagnosis, unmade),
    };
    let count = |status: &str| diagnosis.pods.get(status).copied().unwrap_or(0);
    let there = count("Running") + count("Bound");
    let to_come = subject.pending.pods.len() + subject.pending.dependent;
    let all = there + count("Pending") + i32::try_from(to_come).unwrap_or(0);
    let (state, headline) = if there == 0 {
        let verb = if state == State::NotEnqueued {
            "is not let in"
        } else {
            "waits"
        };
        (state, format!("{name} {verb}: {why}"))
    } else if diagnosis.missing == 0 {
        let headline =
            format!("{name} runs with {there} of its {all} pods; the others wait: {why}");
        (State::RunsInPart, headline)
    } else {
        let needs = diagnosis.min_member;
        let headline = format!(
            "{name} runs with {there} of the {needs} pods that it needs; the others wait: {why}"
        );
        (State::RunsInPart, headline)
    };
    let mut answer = Answer::of(subject, state, headline);
    answer.more = besides(subject, diagnosis, starts);
    answer.more.extend(messages::guarantees(what_if, diagnosis));
    answer
}

/// Why a job waits that the next session promises the room of other pods, and that no session starts.
fn promised(what_if: &WhatIf<'_>, subject: &Subject, outcome: &Outcome) -> Option<String> {
    let own_pods: BTreeSet<&String> = subject.pods(what_if).map(|(key, _)| key).collect();
    let is_promised = outcome.pipelined.keys().any(|pod| own_pods.contains(pod));
    let evicted = outcome.evicted.iter().map(|eviction| &eviction.pod);
    let victims: Vec<String> = evicted
        .filter(|pod| !own_pods.contains(pod))
        .cloned()
        .collect();
    (is_promised && !victims.is_empty()).then(|| {
        format!(
            "the next session evicts {} and promises it room, but no session after it binds its pods",
            named(&victims)
        )
    })
}

/// Whether the job is enqueued and the controllers have yet to create pods of it.
fn unmade(what_if: &WhatIf<'_>, subject: &Subject) -> bool {
    !subject.pending.pods.is_empty() && !is_pending(what_if, subject)
}

fn is_pending(what_if: &WhatIf<'_>, subject: &Subject) -> bool {
    let group = what_if.groups.get(&subject.group);
    group.is_none_or(|group| group.status.phase.is_pending())
}

/// How many more pods it needs to start.
fn needed(diagnosis: &JobDiagnosis) -> usize {
    usize::try_from(diagnosis.missing).unwrap_or(0).max(1)
}

fn found(diagnosis: &JobDiagnosis) -> usize {
    diagnosis.feasibility.now + diagnosis.feasibility.later
}

/// The cause.
fn cause(subject: &Subject, diagnosis: &JobDiagnosis, unmade: bool) -> (String, State) {
    let waits = |why: String| (why, State::Waits);
    let kept_out = diagnosis
        .blocking_reasons
        .iter()
        .find_map(|reason| kept_out(diagnosis, reason));
    if let Some(kept_out) = kept_out {
        return kept_out;
    }
    if unmade {
        let count = counted(subject.pending.pods.len(), "pod");
        return waits(format!("the controllers have not made {count} of it"));
    }
    if !diagnosis.gated.is_empty() && diagnosis.feasibility.waiting < needed(diagnosis) {
        let gated = diagnosis.gated.len();
        let have = if gated == 1 { "has" } else { "have" };
        let count = counted(gated, "pod");
        return waits(format!("{count} of it {have} scheduling gates"));
    }
    let few = |reason: &BlockingReason| matches!(reason, BlockingReason::TooFewPods { .. });
    if diagnosis.blocking_reasons.iter().any(few) {
        return waits(too_few(subject, diagnosis));
    }
    if diagnosis.feasibility.waiting == 0 {
        return waits(match subject.pending.dependent {
            0 => "none of its pods waits for room".to_owned(),
            count => format!(
                "{} are made once other tasks run (dependsOn)",
                counted(count, "pod")
            ),
        });
    }
    // A queue that may use the whole cluster is not the limit.
    let short = found(diagnosis) < needed(diagnosis);
    let limited = diagnosis
        .blocking_reasons
        .iter()
        .find_map(|reason| limited(diagnosis, reason));
    if let Some((why, _)) = limited.filter(|(_, by_queue)| *by_queue || !short) {
        return waits(why);
    }
    if short {
        return waits(no_room(diagnosis));
    }
    waits("the session gave the room to others, or would free it for others".to_owned())
}

/// Why a job is not enqueued, or its queue is closed.
fn kept_out(diagnosis: &JobDiagnosis, reason: &BlockingReason) -> Option<(String, State)> {
    let queue = &diagnosis.queue;
    let (plugin, words, lacks, limited_by) = match reason {
        BlockingReason::Closed { queue: closed } if *closed != queue.name => {
            let why = format!("queue {closed} above queue {} is not open", queue.name);
            return Some((why, State::NotEnqueued));
        }
        BlockingReason::Closed { .. } => {
            let state = match queue.state.as_str() {
                "" => "not open yet".to_owned(),
                state => state.to_lowercase(),
            };
            return Some((format!("queue {} is {state}", queue.name), State::Waits));
        }
        BlockingReason::NotEnqueued {
            plugin,
            words,
            lacks,
            limited_by,
        } => (*plugin, words, lacks, limited_by),
        _ => return None,
    };
    let amounts = messages::amounts(lacks);
    let why = match plugin {
        _ if lacks.is_empty() => words.clone(),
        "overcommit" if lacks.iter().all(|shortfall| !shortfall.held.is_positive()) => {
            format!("it needs more than is left in the cluster ({amounts})")
        }
        "overcommit" => {
            format!("other jobs were promised what is left in the cluster ({amounts} with it)")
        }
        _ => match above(diagnosis, limited_by.as_ref()) {
            Some(limit) => format!("{limit} ({amounts} with it)"),
            None => format!(
                "queue {} may not have so much ({amounts} with it)",
                queue.name
            ),
        },
    };
    Some((why, State::NotEnqueued))
}

/// The limit of a queue above that of the job, with its key.
fn above(diagnosis: &JobDiagnosis, limit: Option<&LimitingKey>) -> Option<String> {
    let limit = limit.filter(|limit| limit.limited != diagnosis.queue.name)?;
    Some(format!(
        "queue {} above queue {} may not have so much: {}",
        limit.limited, diagnosis.queue.name, limit.message
    ))
}

/// The usage and share of the job's queue, and whether the share is less than the whole cluster.
fn limited(diagnosis: &JobDiagnosis, reason: &BlockingReason) -> Option<(String, bool)> {
    let (lacks, used) = match reason {
        BlockingReason::ShareUsed { lacks } => (lacks, true),
        BlockingReason::Limit {
            lacks,
            allowed,
            limited_by,
            ..
        } if *allowed < needed(diagnosis) => {
            if let Some(limit) = above(diagnosis, limited_by.as_ref()) {
                let amounts = messages::amounts(lacks);
                return Some((format!("{limit} ({amounts} with it)"), true));
            }
            (lacks, false)
        }
        _ => return None,
    };
    let usage = |shortfall: &Shortfall| {
        let mut usages = diagnosis.queue.resources.iter();
        usages.find(|usage| usage.resource == shortfall.resource)
    };
    let capped = |shortfall: &Shortfall| {
        usage(shortfall)
            .is_some_and(|usage| usage.capped && usage.capability == Some(shortfall.limit))
    };
    let whole = |shortfall: &Shortfall| {
        usage(shortfall)
            .is_some_and(|usage| !usage.capped && usage.capability == Some(shortfall.limit))
    };
    let queue_lacks = !lacks.iter().all(whole);
    let capped = lacks.iter().any(capped);
    let full = used
        || lacks
            .iter()
            .any(|shortfall| shortfall.held >= shortfall.limit);
    let amounts = if full {
        messages::held(lacks)
    } else {
        messages::amounts(lacks)
    };
    let why = match (capped, full) {
        (true, true) => format!("holds all that it may have ({amounts})"),
        (true, false) => format!("may not have so much ({amounts} with it)"),
        (false, true) => format!("holds all that it deserves ({amounts})"),
        (false, false) => format!("does not deserve so much ({amounts} with it)"),
    };
    Some((format!("queue {} {why}", diagnosis.queue.name), queue_lacks))
}

fn too_few(subject: &Subject, diagnosis: &JobDiagnosis) -> String {
    let there = diagnosis.pods.iter();
    let there = there.filter(|(status, _)| !matches!(**status, "Failed" | "Unknown" | "Releasing"));
    let there = there.map(|(_, count)| *count).sum::<i32>();
    let dependent = subject.pending.dependent;
    let failed = diagnosis.pods.get("Failed").copied().unwrap_or(0);
    let mut text = format!(
        "it has {there} of the {} pods that it needs",
        diagnosis.min_member
    );
    if dependent > 0 {
        let count = counted(dependent, "pod");
        text = format!("{text}; {count} are made once other tasks run (dependsOn)");
    } else if failed > 0 {
        text = format!("{text}; {failed} have failed");
    }
    text
}

fn no_room(diagnosis: &JobDiagnosis) -> String {
    let places = &diagnosis.feasibility;
    let reasons = messages::reasons(places);
    let (waiting, lacking) = (places.waiting, places.waiting - found(diagnosis));
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

/// Further remarks.
fn besides(subject: &Subject, diagnosis: &JobDiagnosis, starts: Option<usize>) -> Vec<String> {
    let mut more = Vec::new();
    if subject.title() != subject.name {
        more.push(format!(
            "{} {} belongs to it.",
            subject.kind.as_str(),
            subject.name
        ));
    }
    if let Some(within) = &diagnosis.feasibility.within {
        more.push(format!(
            "All its pods have to be in one domain: most room for them is on nodes with {within}."
        ));
    }
    let (found, needed) = (found(diagnosis), needed(diagnosis));
    if starts.is_some() {
        more.push("Once they are there, it starts.".to_owned());
        more.push(
            "Does evictd-batch controllers run, and is there a quota that refuses pods?".to_owned(),
        );
    }
    if found > 0 && found < needed && needed <= diagnosis.feasibility.waiting {
        more.push(format!(
            "It starts with {needed} pods more or with none: the room for {found} is of no use."
        ));
    }
    if subject.pending.dependent > 0 && diagnosis.missing == 0 && diagnosis.feasibility.waiting > 0
    {
        let count = counted(subject.pending.dependent, "pod");
        more.push(format!(
            "{count} more are made once other tasks run (dependsOn)."
        ));
    }
    let gates = diagnosis.gated.len();
    if gates > 0 && diagnosis.feasibility.waiting >= needed {
        let count = counted(gates, "pod");
        more.push(format!(
            "{count} of it with scheduling gates are left alone."
        ));
    }
    more
}

/// A job that starts with all as it is.
fn starting(what_if: &WhatIf<'_>, subject: &Subject, outcome: &Outcome, sessions: usize) -> Answer {
    let name = subject.title();
    let own_pods: BTreeSet<&String> = subject.pods(what_if).map(|(key, _)| key).collect();
    let going = what_if.pods.iter();
    let going = going.filter(|(_, pod)| pod.metadata.deletion_timestamp.is_some());
    let going: Vec<String> = going.map(|(key, _)| key.clone()).collect();
    let promised = outcome.pipelined.keys().any(|pod| own_pods.contains(pod));
    let victims: Vec<String> = outcome
        .evicted
        .iter()
        .map(|eviction| eviction.pod.clone())
        .collect();
    let bound = outcome
        .binds
        .keys()
        .filter(|pod| own_pods.contains(pod))
        .count();
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
    } else if is_pending(what_if, subject) {
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
    what_if: &WhatIf<'_>,
    subject: &Subject,
    setting: &Setting,
    diagnosis: Option<&JobDiagnosis>,
) -> Vec<Change> {
    let mut first = Vec::new();
    let queue = queue_of(what_if, subject, setting);
    if what_if.queues.contains_key(&queue) {
        let is_closed = |reason: &BlockingReason| matches!(reason, BlockingReason::Closed { .. });
        let closed = |diagnosis: &JobDiagnosis| diagnosis.blocking_reasons.iter().any(is_closed);
        if diagnosis.is_none_or(closed) {
            first.extend(queues_to_open(what_if, &queue));
        }
    } else {
        first.push(Change::MakeQueue { queue });
    }
    let pods = subject.pods(what_if).map(|(_, pod)| pod);
    let gates: BTreeSet<String> = pods
        .flat_map(|pod| pod.spec.scheduling_gates.iter())
        .map(|gate| gate.name.clone())
        .collect();
    let short = |diagnosis: &JobDiagnosis| diagnosis.feasibility.waiting < needed(diagnosis);
    if !gates.is_empty() && diagnosis.is_none_or(short) {
        first.push(Change::RemoveGates {
            gates: gates.into_iter().collect(),
        });
    }
    first
}

/// Finds the smallest changes of each kind.
fn soonest<'s, 'w>(
    what_if: &'s mut WhatIf<'w>,
    subject: &'s Subject,
    first: Vec<Change>,
    proposals: &mut Vec<Proposal>,
) -> Search<'s, 'w> {
    let mark = what_if.mark();
    for change in &first {
        change.apply(what_if, subject, NodeNames::Last);
    }
    let (_, diagnosis) = look(what_if, subject);
    what_if.undo(mark);
    let mut search = Search::new(what_if, subject);
    search.first = first;
    // If the unavoidable changes start it alone, every other proposal would only add to them.
    let alone = if search.first.is_empty() {
        None
    } else {
        search.proposal(Vec::new())
    };
    let found = match alone {
        Some(proposal) => vec![proposal],
        None => each_kind(&mut search, diagnosis.as_ref()),
    };
    for proposal in found {
        // Two ways of searching may find the same changes.
        if !proposals.contains(&proposal) {
            proposals.push(proposal);
        }
    }
    search
}

/// The expected completions, then possible changes.
fn each_kind(search: &mut Search<'_, '_>, diagnosis: Option<&JobDiagnosis>) -> Vec<Proposal> {
    let mut proposals = completion::ends(search);
    let Some(diagnosis) = diagnosis else {
        return proposals;
    };
    let fewest = proposals
        .iter()
        .map(|proposal| ending(&proposal.changes))
        .min();
    proposals.extend(completion::ends_before_all(search, diagnosis, fewest));
    let limited = diagnosis
        .blocking_reasons
        .iter()
        .any(|reason| match reason {
            // Overcommit limits the cluster and not the queue.
            BlockingReason::NotEnqueued { plugin, .. } => *plugin != "overcommit",
            BlockingReason::ShareUsed { .. } | BlockingReason::Limit { .. } => true,
            BlockingReason::Closed { .. } | BlockingReason::TooFewPods { .. } => false,
        });
    if limited {
        let lifted = search.lifted(diagnosis);
        proposals.extend(search.proposal(lifted));
        if diagnosis.queue.plugin == Some("proportion") {
            proposals.extend(search.weight(diagnosis));
        }
    }
    let priority = before_all(diagnosis).into_iter().collect();
    proposals.extend(search.proposal(priority));
    if found(diagnosis) < needed(diagnosis) {
        proposals.extend(search.reconfigured());
    }
    proposals.extend(search.more_on_a_node(diagnosis));
    proposals.extend(search.more_nodes(diagnosis));
    // Completions are expected anyway, so they come first. A smaller gang changes the job itself, so it comes last.
    proposals.extend(search.smaller_gang(diagnosis));
    proposals
}
