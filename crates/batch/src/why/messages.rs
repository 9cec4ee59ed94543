//! Amounts and reasons in a few words.

use super::change::named;
use super::subject::Subject;
use super::what_if::WhatIf;
use crate::session::coscheduling;
use crate::session::{BlockingReason, Feasibility, JobDiagnosis, LimitingKey, Setting, Shortfall};
use evictd_batch_objects::Difference;

/// `cpu 40 of 40, memory 80Gi of 100Gi`
pub(super) fn amounts(lacks: &[Shortfall]) -> String {
    let amounts = lacks.iter().map(|shortfall| {
        let Shortfall {
            resource,
            wanted,
            limit,
            ..
        } = shortfall;
        format!("{resource} {wanted} of {limit}")
    });
    amounts.collect::<Vec<_>>().join(", ")
}

/// The same for the allocated amount alone.
pub(super) fn held(lacks: &[Shortfall]) -> String {
    let amounts = lacks
        .iter()
        .filter(|shortfall| shortfall.held >= shortfall.limit);
    let amounts = amounts.map(|shortfall| {
        format!(
            "{} {} of {}",
            shortfall.resource, shortfall.held, shortfall.limit
        )
    });
    amounts.collect::<Vec<_>>().join(", ")
}

/// That pods name a group of an API that sessions do not read, which is easily mistaken for a group that they read.
pub(super) fn other_group(
    what_if: &WhatIf<'_>,
    subject: &Subject,
    setting: &Setting,
) -> Option<String> {
    let mut pods = subject.pods(what_if);
    let found = pods.find_map(|(_, pod)| Some((pod, coscheduling::group_of(pod)?)));
    let (pod, (label, group)) = found?;
    if pod.spec.scheduler_name != setting.scheduler {
        return Some(format!(
            "Its label {label}={group} names a group of the plugin Coscheduling. Its scheduler starts such pods together if it \
             has that plugin; sessions leave them alone."
        ));
    }
    let treatment = coscheduling::treatment(what_if.compat.has(Difference::BarePods));
    Some(format!(
        "Its label {label}={group} names a group of the plugin Coscheduling, which sessions do not read: such pods {treatment}. \
         Sessions start pods together that name a PodGroup of scheduling.volcano.sh or scheduling.k8s.io."
    ))
}

/// Whether no key of the limited queue itself is the limit.
fn is_guarantee(limit: Option<&LimitingKey>) -> bool {
    limit.is_none_or(|limit| limit.key == "spec.guarantee")
}

/// The guarantees of other queues, where these limit the job's queue.
pub(super) fn guarantees(what_if: &WhatIf<'_>, diagnosis: &JobDiagnosis) -> Vec<String> {
    let lacks = diagnosis
        .blocking_reasons
        .iter()
        .flat_map(|reason| match reason {
            BlockingReason::NotEnqueued {
                lacks,
                plugin,
                limited_by,
                ..
            } if *plugin != "overcommit" && is_guarantee(limited_by.as_ref()) => lacks.as_slice(),
            BlockingReason::Limit {
                lacks, limited_by, ..
            } if is_guarantee(limited_by.as_ref()) => lacks,
            _ => &[],
        });
    let queue = what_if.queues.get(&diagnosis.queue.name);
    let limited = lacks.filter(|shortfall| {
        let capability = queue.and_then(|queue| queue.spec.capability.get(&shortfall.resource));
        capability.is_none_or(|capability| shortfall.limit < *capability)
    });
    let remarks = limited.filter_map(|shortfall| {
        let others = what_if
            .queues
            .iter()
            .filter(|(name, _)| **name != diagnosis.queue.name);
        let guaranteed: Vec<String> = others
            .filter_map(|(name, queue)| {
                let amount = queue.spec.guarantee.resource.get(&shortfall.resource)?;
                amount.is_positive().then(|| format!("{name} {amount}"))
            })
            .collect();
        let Shortfall {
            resource, limit, ..
        } = shortfall;
        (!guaranteed.is_empty()).then(|| {
            format!(
                "Of the cluster's {resource} the guarantees of other queues leave it {limit}: {}.",
                named(&guaranteed)
            )
        })
    });
    remarks.collect()
}

/// The most frequent reason of nodes against the first pod that fits nowhere.
pub(super) fn reasons(places: &Feasibility) -> String {
    let role = places.roles.iter().find(|role| role.placed < role.waiting);
    let Some(role) = role else {
        return String::new();
    };
    if let Some(mistake) = &role.mistake {
        return mistake.clone();
    }
    if places.nodes == 0 {
        return "there is no node".to_owned();
    }
    let counts = role.refused.iter();
    let most = counts.max_by_key(|(text, count)| (**count, std::cmp::Reverse(*text)));
    let Some((text, count)) = most else {
        return String::new();
    };
    said(text, *count, places.nodes)
}

/// The reason of so many of all nodes.
fn said(text: &str, count: usize, all: usize) -> String {
    let nodes = match (count, all) {
        (1, 1) => "the only node".to_owned(),
        (count, all) if count == all => format!("all {all} nodes"),
        _ => format!("{count} of {all} nodes"),
    };
    match text.strip_prefix("Insufficient ") {
        Some(resource) if !resource.contains(' ') => {
            return format!("too little {resource} on {nodes}");
        }
        _ => {}
    }
    // Messages of filters follow the number of nodes, mostly with a verb.
    let rest = text.strip_prefix("node(s) ").unwrap_or(text);
    let verb = |rest: &str| ["had ", "did"].iter().any(|verb| rest.starts_with(verb));
    match rest.strip_prefix("were ") {
        Some(rest) if count == 1 => format!("{nodes} was {rest}"),
        Some(rest) => format!("{nodes} were {rest}"),
        None if verb(rest) => format!("{nodes} {rest}"),
        None => format!("{nodes}: {rest}"),
    }
}
