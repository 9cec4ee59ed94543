//! Which nodes the selectors of members name.

use super::object::{HyperNode, MemberSelector};
use evictd_pod::selector::selects;
use evictd_pod::wire::Metadata;
use regex::{Regex, RegexBuilder};
use std::collections::BTreeSet;

/// The longest regular expression, in bytes. A longer one matches no node, as an invalid one does.
pub const LONGEST_PATTERN: usize = 1024;

/// The most memory of a compiled expression, in bytes: repetitions can make a short one large.
const LARGEST_REGEX: usize = 1 << 20;

/// The expression of a member; `None` if it is invalid or too large.
fn compiled(pattern: &str) -> Option<Regex> {
    let mut builder = RegexBuilder::new(pattern);
    let builder = builder
        .size_limit(LARGEST_REGEX)
        .dfa_size_limit(LARGEST_REGEX);
    (pattern.len() <= LONGEST_PATTERN)
        .then(|| builder.build().ok())
        .flatten()
}

/// The names that a selector finds. An exact name counts although no such node exists.
pub(super) fn names(selector: &MemberSelector, nodes: &[&Metadata]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if let Some(exact) = &selector.exact_match {
        if exact.name.is_empty() {
            return found;
        }
        found.insert(exact.name.clone());
    }
    if let Some(regex) = &selector.regex_match {
        let Some(regex) = compiled(&regex.pattern) else {
            return BTreeSet::new();
        };
        let matching = nodes.iter().filter(|node| regex.is_match(&node.name));
        found.extend(matching.map(|node| node.name.clone()));
    }
    if let Some(selector) = &selector.label_match {
        let asks = !selector.match_labels.is_empty() || !selector.match_expressions.is_empty();
        let matching = nodes
            .iter()
            .filter(|node| asks && selects(selector, &node.labels));
        found.extend(matching.map(|node| node.name.clone()));
    }
    found
}

/// The number of members that the selectors name. A HyperNode counts as one, whatever its nodes (S6-242).
pub fn node_count(hyper_node: &HyperNode, nodes: &[&Metadata]) -> i64 {
    let members = hyper_node.spec.members.iter();
    let names: BTreeSet<String> = members
        .flat_map(|member| names(&member.selector, nodes))
        .collect();
    i64::try_from(names.len()).unwrap_or(i64::MAX)
}
