//! The result of an attempt as a document for a browser: the choice beside its rivals, every node, and the smallest changes.

use super::answer::{Answer, Scored};
use super::page::{headline, rejected, replicas};
use evictd_command::View;
use evictd_html::{Block, Cell, Column, Page, Table, counted};
use indexmap::IndexMap;

/// How many of the best nodes have their scores by plugin.
const RIVALS: usize = 6;

pub(crate) fn html(answer: &Answer) -> Page {
    let (colour, verdict) = headline(answer);
    let title = format!("explain {}", answer.pod);
    let mut page = Page::new(&title, colour.into(), &verdict);
    let best = best(answer);
    // The nodes of a pod that waits are those of another profile, and its verdict says that it waits.
    let is_tried = answer.not_tried.is_none();
    let message = answer.message().unwrap_or_default();
    page.section("What kube-scheduler would say", [Block::Text(message)]);
    let replicas = answer.replicas.map(|count| replicas(count, View::WHOLE));
    page.section("Replicas", [Block::Text(replicas.unwrap_or_default())]);
    page.section("The smallest changes", [changes(&answer.suggestions)]);
    let obstacles = answer.obstacles.iter();
    let obstacles = obstacles.map(|(node, obstacle)| format!("{node}: {obstacle}"));
    let obstacles = obstacles.chain(answer.blockers.iter().cloned());
    page.section("What is in the way", [Block::List(obstacles.collect())]);
    page.section("The choice and its rivals", [rivals(answer, &best)]);
    page.section("Nodes that it fits on", [feasible(answer, &best)]);
    if is_tried {
        page.section("Nodes that it does not fit on", [others(answer)]);
        let wakes = answer.wakes.iter();
        let wakes = wakes.map(|(event, plugins)| format!("{event} ({})", plugins.join(", ")));
        page.section("Events that try it again", [Block::List(wakes.collect())]);
    }
    page.section("Not in the input", [Block::List(answer.unchecked.clone())]);
    page.section("Warnings", [Block::List(answer.warnings.clone())]);
    page
}

/// The nodes by their scores, the best first.
fn best(answer: &Answer) -> Vec<(&str, &Scored)> {
    let mut best: Vec<(&str, &Scored)> = answer
        .scores
        .iter()
        .map(|(name, scored)| (name.as_str(), scored))
        .collect();
    best.sort_by_key(|(name, scored)| (-scored.total, *name));
    best
}

fn changes(by_node: &IndexMap<String, Vec<Vec<String>>>) -> Block {
    let rows = by_node.iter().flat_map(|(node, alternatives)| {
        alternatives
            .iter()
            .map(move |changes| vec![node.as_str().into(), changes.join(" and ").into()])
    });
    let columns = [Column::text("Node"), Column::text("It would fit with")];
    Block::Table(Table::new(columns, rows.collect::<Vec<_>>()))
}

/// The weighted score of each plugin on the best nodes.
fn rivals(answer: &Answer, best: &[(&str, &Scored)]) -> Block {
    let rows = best.iter().take(RIVALS).flat_map(|(node, scored)| {
        let plugins = scored
            .plugins
            .iter()
            .map(|(plugin, [raw, normalized, weighted])| {
                let figures = [*raw, *normalized, *weighted];
                let figures = figures.map(|figure| Cell::from(figure.to_string()));
                std::iter::once(plugin.as_str().into())
                    .chain(figures)
                    .collect()
            });
        let amounts = answer.amounts.get(*node).into_iter().flatten();
        let amounts: Vec<String> = amounts
            .map(|(name, amount)| format!("{name} {amount}"))
            .collect();
        let heading = format!(
            "{node}: {} in sum; with the pod {}",
            scored.total,
            amounts.join(", ")
        );
        [(heading, plugins.collect::<Vec<_>>())]
    });
    let columns = [
        Column::text("Plugin"),
        Column::figure("Raw"),
        Column::figure("0 to 100"),
        Column::figure("Weighted"),
    ];
    Block::Table(Table::grouped(columns, rows))
}

fn feasible(answer: &Answer, best: &[(&str, &Scored)]) -> Block {
    let unscored = answer
        .feasible
        .iter()
        .filter(|name| !answer.scores.contains_key(*name));
    let rows = best
        .iter()
        .map(|(name, scored)| vec![(*name).into(), scored.total.to_string().into()])
        .chain(unscored.map(|name| vec![name.as_str().into(), "-".into()]));
    let columns = [Column::text("Node"), Column::figure("Score")];
    Block::Table(Table::new(columns, rows))
}

fn others(answer: &Answer) -> Block {
    let groups = rejected(answer).into_iter().map(|(reasons, nodes)| {
        let rows = nodes.iter().map(|name| vec![(*name).into()]).collect();
        (counted(nodes.len(), "node", &reasons), rows)
    });
    Block::Table(Table::grouped([Column::text("Node")], groups))
}
