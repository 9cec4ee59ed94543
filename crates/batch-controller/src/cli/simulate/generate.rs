//! `evictd-batch simulate --generate`: makes a trace.

use clap::Args;
use evictd_batch_trace::{Recipe, Trace, generate};
use evictd_command::{Failure, Output};
use serde_json::Value;
use std::fmt::Write as _;

#[derive(Debug, Args)]
pub(super) struct GenerateArguments {
    /// Print a trace like those of batch clusters; its statistics say how it was made, and what came of it.
    #[arg(long)]
    generate: bool,
    /// How many jobs come.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, requires = "generate", conflicts_with_all = ["file", "trace"],
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: u32,
    /// Another seed makes another trace; the same one always the same.
    #[arg(long, default_value_t = 1, requires = "generate", conflicts_with_all = ["file", "trace"])]
    seed: u64,
    /// The work of all jobs, as a part of what the cluster could do while they arrive.
    #[arg(long, value_name = "PART", default_value_t = 0.7, requires = "generate", conflicts_with_all = ["file", "trace"], value_parser = load)]
    load: f64,
}

/// A part above nothing; far beyond all of it jobs wait longer and longer.
fn load(text: &str) -> Result<f64, String> {
    let load = text
        .parse()
        .ok()
        .filter(|load| (0.01..=100.0).contains(load));
    load.ok_or_else(|| "must be a number from 0.01 to 100".to_owned())
}

impl GenerateArguments {
    pub(super) const fn is_asked(&self) -> bool {
        self.generate
    }

    /// A table would leave out what a trace is made for, so that people get YAML as well.
    pub(super) fn run(&self, output: Output) -> Result<(), Failure> {
        let trace = generate(&Recipe {
            jobs: self.jobs,
            seed: self.seed,
            load: self.load,
        });
        let text = yaml(&trace)?;
        output.print_with_yaml(&trace, |_, _| text.clone(), |_| text.clone())
    }
}

/// A line for each job and each kind of statistics, so that it can be read.
fn yaml(trace: &Trace) -> Result<String, Failure> {
    let head = Trace {
        statistics: Value::Null,
        jobs: Vec::new(),
        ..trace.clone()
    };
    let head = serde_saphyr::to_string(&head)?;
    let head = head.trim_end().trim_end_matches("jobs: []");
    let mut text = format!("{head}statistics:\n");
    for (name, own) in trace.statistics.as_object().into_iter().flatten() {
        writeln!(text, "  {name}: {own}")?;
    }
    text.push_str("jobs:\n");
    for job in &trace.jobs {
        writeln!(text, "- {}", serde_json::to_string(job)?)?;
    }
    Ok(text)
}
