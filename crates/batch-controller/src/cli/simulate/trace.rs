//! `evictd-batch simulate --trace`: plays jobs that arrive over time, under one configuration or several.

mod page;

use anyhow::{Context, anyhow};
use clap::Args;
use evictd_batch::compat::Compat;
use evictd_batch::conf::Conf;
use evictd_batch_trace::svg::{self, NAMES, Run};
use evictd_batch_trace::{Seconds, SimulatorOptions, Trace, play};
use evictd_command::{Failure, Output, Progress, warn};
use evictd_document::{Document, DocumentError, LARGE, SMALL};
use evictd_pod::duration;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// With so many configurations there is no room for more columns.
const MOST: usize = NAMES.len();

#[derive(Debug, Args)]
pub(super) struct TraceArguments {
    /// A trace to play, JSON or YAML; - is stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "generate")]
    trace: Option<PathBuf>,
    /// The volcano-scheduler.conf that it is played under. Default: the built-in one.
    #[arg(long, value_name = "FILE", requires = "trace", conflicts_with_all = ["file", "generate"])]
    conf: Option<PathBuf>,
    /// Another one, to play the same trace under and to compare with the first; up to four times.
    #[arg(long, value_name = "FILE", requires = "trace", conflicts_with_all = ["file", "generate"])]
    compare: Vec<PathBuf>,
    /// Write a picture of what queues held over time, of fairness, and of the jobs that waited.
    #[arg(long, value_name = "FILE", requires = "trace", conflicts_with_all = ["file", "generate"])]
    svg: Option<PathBuf>,
    /// How long after a session the next one begins, in the trace's time.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = period, requires = "trace", conflicts_with_all = ["file", "generate"])]
    schedule_period: Seconds,
}

fn period(text: &str) -> Result<Seconds, String> {
    let millis = duration::parse(text).ok().map(|length| length.as_millis());
    let millis = millis.and_then(|own| u64::try_from(own).ok());
    let millis = millis.filter(|own| (1..=3_600_000).contains(own));
    let wanted = || "must be a duration from 1ms to 1h, like 500ms or 1s".to_owned();
    millis.map(Seconds::from_millis).ok_or_else(wanted)
}

/// The answer.
#[derive(Debug, Serialize)]
struct Answer {
    runs: Vec<Run>,
}

impl TraceArguments {
    pub(super) fn run(&self, compat: Compat, output: Output) -> Result<(), Failure> {
        if self.compare.len() >= MOST {
            let most = MOST - 1;
            let text = format!("--compare: at most {most} configurations can be compared");
            return Err(Failure::input(anyhow!(text)));
        }
        let trace = read(self.trace.as_deref().unwrap_or(Path::new("-")))?;
        let confs = std::iter::once(self.conf.as_deref());
        let confs = confs.chain(self.compare.iter().map(|path| Some(path.as_path())));
        // All of them are read before the first one is played.
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
        output.print(&answer, |answer, view| page::page(&answer.runs, view))
    }
}

fn name_of(conf: Option<&Path>) -> String {
    conf.map_or_else(|| "built-in".to_owned(), |path| path.display().to_string())
}

fn run(trace: &Trace, conf: String, options: &SimulatorOptions) -> Run {
    let mut bar = Progress::default();
    let report = play(trace, options, &mut |ended, all| {
        bar.show(format_args!("playing {all} jobs under {conf}"), ended, all);
    });
    drop(bar);
    if report.broken_off {
        let message =
            "pods were evicted again and again and none came to its end; it was broken off";
        warn("evictd-batch", &format!("{conf}: {message}"));
    }
    Run { conf, report }
}

/// The trace in a file; every mistake is told with its place.
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
        None | Some(Err(DocumentError::Empty(_) | DocumentError::Null(_))) => String::new(),
        Some(Ok(document)) => document.text().to_owned(),
        Some(Err(error)) => return Err(Failure::input(error)),
    };
    let name = name_of(path);
    let conf = Conf::read(&text);
    let conf = conf.map_err(|error| Failure::input(anyhow!("{name}: {error}")))?;
    for warning in &conf.warnings {
        warn("evictd-batch", &format!("{name}: {warning}"));
    }
    Ok(conf)
}
