//! The report of a simulated trace as a document for a browser, with its picture.

use super::page::{figures, queue_table, unfinished_headline, unfinished_table};
use evictd_batch_trace::svg::{self, NAMES, Run};
use evictd_html::{Block, Page, Tone};

/// The most jobs that are listed.
const MAX_UNFINISHED: usize = 1000;

pub(super) fn html(runs: &[Run]) -> Page {
    let left: Vec<String> = runs.iter().filter_map(unfinished_headline).collect();
    let jobs = runs.first().map_or(0, |run| run.report.jobs);
    let (tone, verdict) = if left.is_empty() {
        (Tone::Good, format!("All of {jobs} jobs have ended."))
    } else {
        (Tone::Bad, left.join("\n"))
    };
    let mut page = Page::new("evictd-batch simulate --trace", tone, &verdict);
    let names = runs.iter().zip(NAMES);
    let names = names.map(|(run, name)| (name.to_owned(), run.conf.clone()));
    page.section("Configurations", [Block::Facts(names.collect())]);
    page.section("Over time", [Block::Picture(svg::picture(runs))]);
    page.section("Figures", [figures(runs).into()]);
    if let Some((table, note)) = queue_table(runs) {
        page.section("Queues", [table.into(), Block::Text(note)]);
    }
    for run in runs {
        let heading = format!("Jobs that have not ended with {}", run.conf);
        page.section(&heading, [unfinished_table(run, MAX_UNFINISHED).into()]);
    }
    page
}
