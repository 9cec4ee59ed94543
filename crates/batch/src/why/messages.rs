//! Amounts and reasons in a few words.

use crate::session::{Feasibility, Shortfall};

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
