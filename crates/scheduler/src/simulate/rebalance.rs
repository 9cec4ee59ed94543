//! The page of `simulate --rebalance`.

use super::sequence::grouped;
use evictd_command::{Colour, Column, Table, View};
use evictd_scheduling::simulation::{Rebalance, SpreadState};
use std::collections::BTreeMap;

pub(crate) fn page(answer: &Rebalance, view: View) -> String {
    let (colour, head) = headline(answer);
    let mut parts = vec![view.paint(colour, &view.sentence(&head))];
    if !answer.moves.is_empty() {
        parts.push(moves(answer).shown(view));
    }
    if !answer.spread.is_empty() {
        parts.push(spread(answer).shown(view));
    }
    if !answer.cannot_move.is_empty() {
        parts.push(grouped("CANNOT MOVE", &answer.cannot_move, view));
    }
    parts.join("\n\n")
}

pub(super) fn headline(answer: &Rebalance) -> (Colour, String) {
    let moves = match answer.moves.len() {
        1 => "1 move".to_owned(),
        count => format!("{count} moves"),
    };
    let missing: i64 = answer.spread.iter().map(|state| state.missing).sum();
    if answer.spread.is_empty() {
        let head = "No running pod violates a spread constraint, so that no move is needed.";
        return (Colour::Good, head.to_owned());
    }
    if missing > 0 {
        let head = format!("{moves} help, but the spread cannot be repaired in full.");
        return (Colour::Bad, head);
    }
    let repair = if answer.moves.len() == 1 {
        "repairs"
    } else {
        "repair"
    };
    let fewest = if answer.moves.len() == answer.at_least {
        "fewer do not suffice".to_owned()
    } else {
        format!("at least {} are needed", answer.at_least)
    };
    let head = format!("{moves} {repair} the spread; {fewest}. Each was tried with all filters.");
    (Colour::Good, head)
}

pub(super) fn moves(answer: &Rebalance) -> Table {
    let rows = answer.moves.iter().enumerate().map(|(index, step)| {
        let note = step.scheduler_chooses.as_ref().map(|node| {
            format!("the scheduler would choose {node}, so that it has to be cordoned meanwhile")
        });
        vec![
            (index + 1).to_string(),
            step.pod.clone(),
            step.from.clone(),
            step.to.clone(),
            note.unwrap_or_default(),
        ]
    });
    let columns = [
        Column::figure("MOVE", 2),
        Column::name("POD", 6),
        Column::name("FROM", 5),
        Column::name("TO", 4),
        Column::sentence("NOTE", 1),
    ];
    Table::new(columns, rows)
}

pub(super) fn spread(answer: &Rebalance) -> Table {
    let rows = answer.spread.iter().map(|state| {
        let SpreadState {
            pod,
            topology_key,
            max_skew,
            before,
            after,
            ..
        } = state;
        vec![
            pod.clone(),
            topology_key.clone(),
            max_skew.to_string(),
            domains(before),
            domains(after),
        ]
    });
    let columns = [
        Column::name("PODS LIKE", 6),
        Column::name("TOPOLOGY KEY", 5),
        Column::figure("MAX SKEW", 2),
        Column::sentence("BEFORE", 3),
        Column::sentence("AFTER", 1),
    ];
    Table::new(columns, rows)
}

/// The most domains that are named.
const NAMED: usize = 8;

/// The fullest domains with their pods.
fn domains(domains: &BTreeMap<String, i64>) -> String {
    let mut sorted: Vec<(&String, i64)> = domains.iter().map(|(key, pods)| (key, *pods)).collect();
    if sorted.len() > NAMED {
        sorted.sort_by_key(|(_, pods)| std::cmp::Reverse(*pods));
    }
    let named = sorted.iter().take(NAMED);
    let named: Vec<String> = named.map(|(key, pods)| format!("{key} {pods}")).collect();
    match sorted.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
