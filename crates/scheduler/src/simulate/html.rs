//! A simulation as a document for a browser: nodes before and after, preemptions, and pods that did not fit.

use super::sequence::{self, Comparison};
use super::what_if::WhatIfOutcome;
use super::{rebalance, timeline};
use evictd_html::{Block, Cell, Column, Page, Table, Tone, counted};
use evictd_scheduling::simulation::{Outcome, Rebalance, SequenceOutcome};
use std::collections::{BTreeMap, BTreeSet};

/// The document of a sequence of pods.
pub(crate) fn html(outcome: &SequenceOutcome) -> Page {
    let (colour, verdict) = sequence::headline(outcome);
    let mut page = Page::new("simulate", colour.into(), &verdict);
    let stuck = |title, pods: &BTreeMap<String, String>| (title, by_reason(pods));
    let groups = [
        stuck("Unschedulable pods", &outcome.unschedulable),
        stuck("Gated pods", &outcome.gated),
        stuck("Pods that were not tried", &outcome.not_tried),
    ];
    for (title, table) in groups {
        page.section(title, [table]);
    }
    page.section("Preempted pods", [sequence::preempted(outcome).into()]);
    page.section("Nodes before and after", [nodes(outcome)]);
    page.section("Scheduled pods", [placed(outcome)]);
    page.section("Warnings", [Block::List(outcome.warnings.clone())]);
    page
}

/// The same with added and drained nodes.
pub(crate) fn html_of_what_if(answer: &WhatIfOutcome) -> Page {
    let mut page = html(&answer.outcome);
    page.section(
        "Pods of drained nodes that cannot move",
        [by_reason(&answer.cannot_move)],
    );
    let blockers = answer.blockers.iter();
    let blockers = blockers.flat_map(|(pod, lines)| {
        let rows = lines.iter();
        rows.map(move |line| vec![pod.as_str().into(), line.as_str().into()])
    });
    let columns = [Column::text("Pod"), Column::text("What is in the way")];
    let blockers = Table::new(columns, blockers.collect::<Vec<_>>());
    page.section("What is in the way", [Block::Table(blockers)]);
    let more = answer.more_fit.iter();
    let more = more.map(|(pod, count)| vec![pod.as_str().into(), (*count).into()]);
    let columns = [Column::text("Pods like"), Column::figure("More that fit")];
    page.section("Room for more", [Block::Table(Table::new(columns, more))]);
    let unused = answer.unused_nodes();
    let added = answer.added_nodes.iter().map(|node| {
        let use_of = if unused.contains(&node.as_str()) {
            "no pod was scheduled onto it"
        } else {
            "in use"
        };
        vec![node.as_str().into(), use_of.into()]
    });
    let columns = [Column::text("Node"), Column::text("Use")];
    page.section("Added nodes", [Block::Table(Table::new(columns, added))]);
    page
}

/// Two configurations side by side.
pub(crate) fn html_of_comparison(both: &Comparison) -> Page {
    let mut page = Page::new("simulate --compare", Tone::Plain, &sequence::moved(both));
    page.section("Both side by side", [sequence::compared(both).into()]);
    let (first, other) = (&both.first.outcome.placed, &both.other.outcome.placed);
    let names = first.keys().chain(other.keys()).collect::<BTreeSet<_>>();
    let rows = names
        .into_iter()
        .filter(|pod| first.get(*pod) != other.get(*pod));
    let none = String::from("none");
    let rows = rows.map(|pod| {
        let nodes = [first, other].map(|placed| placed.get(pod).unwrap_or(&none));
        let cells = [pod, nodes[0], nodes[1]];
        cells.map(|text| Cell::from(text.as_str())).to_vec()
    });
    let columns = ["Pod", "First", "Other"].map(Column::text);
    page.section(
        "Pods on another node",
        [Block::Table(Table::new(columns, rows))],
    );
    page
}

/// The moves that repair the spread.
pub(crate) fn html_of_rebalance(answer: &Rebalance) -> Page {
    let (colour, verdict) = rebalance::headline(answer);
    let mut page = Page::new("simulate --rebalance", colour.into(), &verdict);
    page.section("Moves", [rebalance::moves(answer).into()]);
    page.section(
        "Spread before and after",
        [rebalance::spread(answer).into()],
    );
    page.section("Pods that cannot move", [by_reason(&answer.cannot_move)]);
    page
}

/// The queue over time.
pub(crate) fn html_of_timeline(outcome: &Outcome, steps: &[timeline::Row]) -> Page {
    let verdict = timeline::headline(outcome);
    let mut page = Page::new("simulate", Tone::Plain, &verdict);
    page.section("Pending at the end", [timeline::pending(outcome).into()]);
    page.section("Steps", [timeline::steps(outcome, steps).into()]);
    page
}

/// Pods below their reason, the most frequent first.
fn by_reason(pods: &BTreeMap<String, String>) -> Block {
    let mut groups: BTreeMap<&str, Vec<Vec<Cell>>> = BTreeMap::new();
    for (pod, reason) in pods {
        groups
            .entry(reason)
            .or_default()
            .push(vec![pod.as_str().into()]);
    }
    let mut groups: Vec<(&str, Vec<Vec<Cell>>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, pods)| std::cmp::Reverse(pods.len()));
    let groups = groups
        .into_iter()
        .map(|(reason, pods)| (counted(pods.len(), "pod", reason), pods));
    Block::Table(Table::grouped([Column::text("Pod")], groups))
}

fn nodes(outcome: &SequenceOutcome) -> Block {
    let count = |nodes: &mut dyn Iterator<Item = &String>| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for node in nodes {
            *counts.entry(node.clone()).or_default() += 1;
        }
        counts
    };
    let new = count(&mut outcome.placed.values());
    let evicted = count(&mut outcome.preempted.iter().map(|pod| &pod.node));
    let rows = outcome.nodes.iter().map(|node| {
        let of = |counts: &BTreeMap<String, usize>| counts.get(&node.name).copied().unwrap_or(0);
        let before = (node.pods + of(&evicted)).saturating_sub(of(&new));
        vec![
            node.name.as_str().into(),
            before.into(),
            of(&evicted).into(),
            of(&new).into(),
            node.pods.into(),
            share(node.cpu),
            share(node.memory),
        ]
    });
    let columns = [
        Column::text("Node"),
        Column::figure("Pods before"),
        Column::figure("Preempted"),
        Column::figure("New"),
        Column::figure("After"),
        Column::figure("CPU after"),
        Column::figure("Memory after"),
    ];
    Block::Table(Table::new(columns, rows))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a bar and a percentage need no more than 52 bits"
)]
fn share((used, of): (i64, i64)) -> Cell {
    Cell::Share {
        used: used as f64,
        of: of as f64,
    }
}

fn placed(outcome: &SequenceOutcome) -> Block {
    let rows = outcome
        .placed
        .iter()
        .map(|(pod, node)| vec![pod.as_str().into(), node.as_str().into()]);
    let columns = [Column::text("Pod"), Column::text("Node")];
    Block::Table(Table::new(columns, rows))
}
