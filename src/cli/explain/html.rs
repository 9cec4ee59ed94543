//! The report as a document for a browser.

use super::report::{ChosenBy, Report};
use super::{freed, page, taints, verdict};
use crate::cli::ranking;
use evictd_html::{Block, Page};

/// The most ranked pods.
const SHOWN: usize = 500;

pub(super) fn html(report: &Report) -> Page {
    let (colour, sentences) = verdict::sentences(report);
    let mut sentences = sentences.into_iter();
    let verdict = sentences.next().unwrap_or_default();
    let mut document = Page::new("evictd explain", colour.into(), &verdict);
    document.section("Why", [Block::List(sentences.collect())]);
    let warnings = report.node.iter().flat_map(|node| node.warnings.clone());
    document.section("Contradictions", [Block::List(warnings.collect())]);
    document.section("Signals", signals(report));
    let signal = report.ranked_for;
    // Without a threshold no order is the one of an eviction.
    if report.has_thresholds() || report.chosen_by == ChosenBy::Asked {
        let heading = format!("Pods in the order of eviction for {signal}");
        let pods = &report.ranked.pods;
        let table = ranking::explained(SHOWN, pods, signal);
        let more = match pods.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!("{more} more pods are in -o json."),
        };
        let outside = page::outside(report).unwrap_or_default();
        let blocks = [table.into(), Block::Text(more), Block::Text(outside)];
        document.section(&heading, blocks);
    }
    document.section(
        "Freed before a pod had to go",
        [Block::List(freed::lines(&report.freed))],
    );
    if let Some(node) = &report.node {
        let headline = taints::headline(node);
        let read_only = node.read_only.clone().unwrap_or_default();
        let blocks = [
            Block::Text(headline),
            Block::Text(read_only),
            taints::taint_table(node).into(),
            taints::removal_table(node, SHOWN).into(),
        ];
        document.section("The node for the scheduler", blocks);
    }
    document.section("Assumed", [Block::List(report.assumed.clone())]);
    document
}

fn signals(report: &Report) -> Vec<Block> {
    if !report.has_thresholds() {
        return vec![page::left(report).into()];
    }
    let unwatched: Vec<String> = report.signals.iter().filter_map(page::unwatched).collect();
    let unwatched = match unwatched.as_slice() {
        [] => String::new(),
        all => format!("Without a threshold: {}.", all.join(", ")),
    };
    let held = match page::conditions(report).as_slice() {
        [] => String::new(),
        held => format!("Node conditions set: {}.", held.join(", ")),
    };
    vec![
        page::watched(report).into(),
        Block::Text(unwatched),
        Block::Text(held),
    ]
}
