//! The answer as a document for a browser.

use super::page::{
    BUILT_IN, ahead_table, colour, nearest, nodes_headline, nodes_table, queue_headline,
    queue_table, waits,
};
use evictd_batch::why::Answer;
use evictd_html::{Block, Page};

/// The number of jobs ahead of it that are shown.
const MAX_JOBS: usize = 1000;

pub(super) fn html(answer: &Answer, title: &str, conf_is_given: bool) -> Page {
    let headline = format!("{}.", answer.headline);
    let mut page = Page::new(title, colour(answer.state).into(), &headline);
    page.section("More", [Block::Text(answer.more.join(" "))]);
    let changes = answer.soonest.iter().map(|proposal| proposal.words.clone());
    page.section(
        "Changes that would start it, each tried in a session",
        [Block::List(changes.collect())],
    );
    page.section(
        "Evicted for other jobs",
        [Block::List(answer.history.clone())],
    );
    if let Some(diagnosis) = answer.diagnosis.as_ref().filter(|_| waits(answer.state)) {
        let queue = &diagnosis.queue;
        page.section(
            "The queue",
            [
                Block::Text(queue_headline(queue)),
                queue_table(queue).into(),
            ],
        );
        page.section(
            "Jobs before it in the queue",
            [ahead_table(answer, diagnosis, MAX_JOBS).into()],
        );
        let feasibility = &diagnosis.feasibility;
        let roles = feasibility
            .roles
            .iter()
            .filter(|role| role.placed < role.waiting);
        let blocks = roles.flat_map(|role| {
            [
                Block::Text(nodes_headline(role, feasibility)),
                nodes_table(role).into(),
            ]
        });
        page.section("The nodes", blocks.collect::<Vec<_>>());
        if !feasibility.nearest.is_empty() {
            page.section("The nearest nodes", [nearest(feasibility).into()]);
        }
    }
    if !conf_is_given && answer.diagnosis.is_some() {
        page.section("Assumed", [Block::Text(BUILT_IN.to_owned())]);
    }
    page
}
