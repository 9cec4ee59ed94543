//! `evictd-batch simulate --trace`: simulates a trace with one configuration, or compares several.

mod html;
mod page;

use crate::cli::extender::not_asked;
use anyhow::{Context, anyhow};
use clap::Args;
use evictd_batch::conf::Conf;
use evictd_batch_objects::Compat;
use evictd_batch_trace::svg::{self, NAMES, Run};
use evictd_batch_trace::{Seconds, SimulatorOptions, Trace, play};
use evictd_command::{Failure, PageOutput, Progress, warn};
use evictd_document::{Document, DocumentError, LARGE, SMALL};
use evictd_pod::duration;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The number of configurations whose columns fit on a page.
const MAX_CONFS: usize = NAMES.len();

#[derive(Debug, Args)]
pub(super) struct TraceArguments {
    /// The trace, JSON or YAML; - is stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "generate")]
    trace: Option<PathBuf>,
    /// The volcano-scheduler.conf. Default: the built-in one.
    #[arg(long, value_name = "FILE", requires = "trace", conflicts_with_all = ["file", "generate"])]
    conf: Option<PathBuf>,
    /// Another volcano-scheduler.conf to compare with the first. Can be repeated up to four times.
    #[arg(long, value_name = "FILE", requires = "trace", conflicts_with_all = ["file", "generate"])]
    compare: Vec<PathBuf>,
    /// Write a picture of the usage of queues over time, of fairness and of pending jobs.
    #[arg(long, value_name = "FILE", requires = "trace", conflicts_with_all = ["file", "generate"])]
    svg: Option<PathBuf>,
    /// The time between two sessions, in the time of the trace.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = period, requires = "trace", conflicts_with_all = ["file", "generate"])]
    schedule_period: Seconds,
}

fn period(text: &str) -> Result<Seconds, String> {
    duration::parse(text)
        .ok()
        .and_then(|period| u64::try_from(period.as_millis()).ok())
        .filter(|millis| (1..=3_600_000).contains(millis))
        .map(Seconds::from_millis)
        .ok_or_else(|| "must be a duration from 1ms to 1h, such as 500ms or 1s".to_owned())
}

#[derive(Debug, Serialize)]
struct Answer {
    runs: Vec<Run>,
}

impl TraceArguments {
    pub(super) fn run(&self, compat: Compat, output: PageOutput) -> Result<(), Failure> {
        if self.compare.len() >= MAX_CONFS {
            let max = MAX_CONFS - 1;
            return Err(Failure::input(anyhow!(
                "--compare: at most {max} configurations can be compared"
            )));
        }
        let trace = read(self.trace.as_deref().unwrap_or(Path::new("-")))?;
        let confs = std::iter::once(self.conf.as_deref());
        let confs = confs.chain(self.compare.iter().map(|path| Some(path.as_path())));
        // All are read before the first simulation, which may take minutes.
        let confs = confs.map(|path| Ok((name_of(path), read_conf(path)?)));
        let confs = confs.collect::<Result<Vec<(String, Conf)>, Failure>>()?;
        let runs = confs.into_iter().map(|(name, conf)| {
            let options = SimulatorOptions {
                conf,
                compat,
                period: self.schedule_period,
            };
            run(&trace, name, &options)
        });
        let answer = Answer {
            runs: runs.collect(),
        };
        if let Some(path) = &self.svg {
            let written = std::fs::write(path, svg::picture(&answer.runs));
            written.with_context(|| format!("--svg {}", path.display()))?;
        }
        let table = |answer: &Answer, view| page::page(&answer.runs, view);
        output.print(&answer, table, |answer| html::html(&answer.runs))
    }
}

fn name_of(conf: Option<&Path>) -> String {
    conf.map_or_else(|| "built-in".to_owned(), |path| path.display().to_string())
}

fn run(trace: &Trace, conf: String, options: &SimulatorOptions) -> Run {
    let mut bar = Progress::default();
    let report = play(trace, options, &mut |ended, all| {
        bar.show(
            format_args!("simulating {all} jobs with {conf}"),
            ended,
            all,
        );
    });
    drop(bar);
    if report.broken_off {
        let message =
            "the simulation was stopped: pods were evicted again and again, and no job ended";
        warn("evictd-batch", &format!("{conf}: {message}"));
    }
    Run { conf, report }
}

/// Reads a trace. The error lists all mistakes with their places.
fn read(path: &Path) -> Result<Trace, Failure> {
    let document = Document::read(path, LARGE).map_err(Failure::input)?;
    let trace: Trace = document.parse().map_err(Failure::input)?;
    let mistakes = trace.mistakes();
    if mistakes.is_empty() {
        return Ok(trace);
    }
    Err(Failure::input(document.wrong_fields(mistakes)))
}

fn read_conf(path: Option<&Path>) -> Result<Conf, Failure> {
    let text = match path.map(|path| Document::read(path, SMALL)) {
        // An empty text is read as the built-in configuration.
        None | Some(Err(DocumentError::Empty(_) | DocumentError::Null(_))) => String::new(),
        Some(Ok(document)) => document.text().to_owned(),
        Some(Err(error)) => return Err(Failure::input(error)),
    };
    let name = name_of(path);
    let conf = Conf::parse(&name, &text).map_err(Failure::input)?;
    for warning in &conf.warnings {
        warn("evictd-batch", &warning.to_string());
    }
    if let Some(url) = conf.extender() {
        let advice = "a trace needs no server";
        warn("evictd-batch", &not_asked(url, advice));
    }
    Ok(conf)
}
