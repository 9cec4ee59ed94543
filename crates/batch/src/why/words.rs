//! Amounts and reasons in a few words.

use crate::session::{Lack, Places};

/// The most reasons of nodes in a line.
const REASONS: usize = 2;

/// `cpu 40 of 40, memory 80Gi of 100Gi`
pub(super) fn amounts(lacks: &[Lack]) -> String {
    let amounts = lacks.iter().map(|own| {
        let Lack {
            resource,
            wanted,
            limit,
        } = own;
        format!("{resource} {wanted} of {limit}")
    });
    amounts.collect::<Vec<_>>().join(", ")
}

/// What nodes say, the most frequent first.
pub(super) fn reasons(places: &Places) -> String {
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
    let mut counts: Vec<(&String, usize)> = role.refused.iter().map(|(text, own)| (text, *own)).collect();
    counts.sort_by_key(|(text, count)| (std::cmp::Reverse(*count), *text));
    let left = counts.len().saturating_sub(REASONS);
    let told = counts.into_iter().take(REASONS).map(|(text, count)| said(text, count));
    let mut told: Vec<String> = told.collect();
    if left > 0 {
        told.push(format!("{left} more reasons"));
    }
    told.join(", ")
}

/// What so many nodes say.
fn said(text: &str, count: usize) -> String {
    let (nodes, have) = if count == 1 { ("node", "has") } else { ("nodes", "have") };
    match text.strip_prefix("Insufficient ") {
        Some(resource) if !resource.contains(' ') => {
            format!("{count} {nodes} {have} too little {resource}")
        }
        _ => {
            let text = text.strip_prefix("node(s) ").unwrap_or(text);
            format!("{count} {nodes}: {text}")
        }
    }
}
