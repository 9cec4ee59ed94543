//! `evictd-batch simulate --generate`: generates a trace.

use clap::Args;
use evictd_batch_trace::{Recipe, Trace, generate};
use evictd_command::{Failure, Output};
use serde_json::Value;
use std::fmt::Write as _;

#[derive(Debug, Args)]
pub(super) struct GenerateArguments {
    /// Print a random trace with the statistics of real batch clusters.
    #[arg(long)]
    generate: bool,
    /// The number of jobs.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, requires = "generate", conflicts_with_all = ["file", "trace"],
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: u32,
    /// The seed. The same seed always gives the same trace.
    #[arg(long, default_value_t = 1, requires = "generate", conflicts_with_all = ["file", "trace"])]
    seed: u64,
    /// The work of all jobs, as a fraction of the capacity of the cluster while they arrive.
    #[arg(long, value_name = "PART", default_value_t = 0.7, requires = "generate", conflicts_with_all = ["file", "trace"], value_parser = load)]
    load: f64,
}

/// Above 1 the waiting times grow without bounds.
fn load(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|load| (0.01..=100.0).contains(load))
        .ok_or_else(|| "must be a number from 0.01 to 100".to_owned())
}

impl GenerateArguments {
    pub(super) const fn is_requested(&self) -> bool {
        self.generate
    }

    /// The output for people is YAML, too: a table could not be used as a trace.
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

/// YAML with one line for each job and each statistic, so that a person can read it.
fn yaml(trace: &Trace) -> Result<String, Failure> {
    let head = Trace {
        statistics: Value::Null,
        jobs: Vec::new(),
        ..trace.clone()
    };
    let head = serde_saphyr::to_string(&head)?;
    // Statistics and jobs follow below, a line each.
    let head = head.trim_end().trim_end_matches("jobs: []");
    let mut text = format!("{head}statistics:\n");
    for (name, value) in trace.statistics.as_object().into_iter().flatten() {
        writeln!(text, "  {name}: {value}")?;
    }
    text.push_str("jobs:\n");
    for job in &trace.jobs {
        writeln!(text, "- {}", serde_json::to_string(job)?)?;
    }
    Ok(text)
}
