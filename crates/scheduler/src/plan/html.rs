//! The plan as a document for a browser.

use super::answer::Answer;
use super::page::{CANDIDATE, headline, reasons, steps, victims};
use crate::explain::replicas;
use evictd_command::View;
use evictd_html::{Block, Column, Page, Table, counted};

pub(crate) fn html(answer: &Answer) -> Page {
    let (colour, verdict) = headline(answer);
    let title = format!("plan for {}", answer.preemptor.pod);
    let mut page = Page::new(&title, colour.into(), &verdict);
    if let Some(chosen) = &answer.chosen {
        let heading = format!("Victims on {}", chosen.node);
        page.section(&heading, [victims(&answer.victims).into()]);
        let heading = format!(
            "Why {}, of {} candidates",
            chosen.node,
            answer.candidates.len()
        );
        page.section(&heading, [Block::List(answer.why.clone())]);
    }
    page.section("Candidates", [candidates(answer)]);
    let cleared = answer.clear_nominations.clone();
    page.section("Nominations that are cleared", [Block::List(cleared)]);
    page.section("The other nodes", [others(answer)]);
    if let Some(explanation) = &answer.explanation {
        let heading = format!("On {}, step by step", explanation.node);
        page.section(&heading, [Block::List(steps(explanation))]);
    }
    page.section("What is in the way", [Block::List(answer.blockers.clone())]);
    let replicas = answer.replicas.map(|count| replicas(count, View::WHOLE));
    page.section("Replicas", [Block::Text(replicas.unwrap_or_default())]);
    page.section("Not in the input", [Block::List(answer.unchecked.clone())]);
    page.section("Warnings", [Block::List(answer.warnings.clone())]);
    page
}

fn candidates(answer: &Answer) -> Block {
    let rows = answer.candidates.iter().map(|candidate| {
        vec![
            candidate.node.as_str().into(),
            candidate.victims.len().into(),
            candidate.violations.into(),
        ]
    });
    let columns = [
        Column::text("Node"),
        Column::figure("Victims"),
        Column::figure("Against budgets"),
    ];
    Block::Table(Table::new(columns, rows))
}

fn others(answer: &Answer) -> Block {
    let others = reasons(answer).into_iter();
    let others = others.filter(|(reason, _)| reason != CANDIDATE);
    let groups = others.map(|(reason, nodes)| {
        let rows = nodes.iter().map(|name| vec![(*name).into()]).collect();
        (counted(nodes.len(), "node", &reason), rows)
    });
    Block::Table(Table::grouped([Column::text("Node")], groups))
}
