//! `evictd check-config`: is this configuration correct, which settings are in force, and where does each come from.

use clap::Args;
use evictd_command::{Column, Failure, Output, Table, View, write_to_stdout};
use evictd_node_config::{self as config, Effective, Mistake, Origin};
use evictd_pod::duration;
use evictd_signals::{Signal, Threshold, ThresholdValue};
use serde::Serialize;
use serde_json::Value as Json;
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};

const EXAMPLE: &str = "Example:
  evictd check-config /etc/evictd/evictd.yaml
  kubectl get --raw /api/v1/nodes/node-1/proxy/configz | evictd check-config -";

/// Validates a configuration and shows the settings in force: every default filled in, and where each setting came
/// from.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// A configuration of evictd or of a kubelet, or a kubelet's /configz; - is stdin.
    #[arg(value_name = "FILE", required_unless_present_any = ["defaults", "schema"])]
    files: Vec<PathBuf>,
    /// Print every key with its default and its purpose: a file to start from.
    #[arg(long, conflicts_with = "files")]
    defaults: bool,
    /// Print the JSON Schema of a configuration, for completion and checks in an editor.
    #[arg(long, conflicts_with_all = ["files", "defaults"])]
    schema: bool,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        if self.schema {
            return write_to_stdout(&format!("{:#}\n", config::json_schema()));
        }
        if self.defaults {
            return write_to_stdout(&config::commented_defaults());
        }
        let reports: Vec<Report> = self.files.iter().map(|file| Report::of(file)).collect();
        match reports.as_slice() {
            [report] => {
                self.output
                    .print_with_yaml(report, Report::table, Report::yaml)?;
            }
            several => {
                let table = |reports: &&[Report], view| {
                    let tables = reports.iter().map(|report| report.table(view));
                    tables.collect::<Vec<_>>().join("\n")
                };
                let yaml = |reports: &&[Report]| {
                    let documents = reports.iter().map(Report::yaml);
                    documents.collect::<Vec<_>>().join("---\n")
                };
                self.output.print_with_yaml(&several, table, yaml)?;
            }
        }
        let errors = |report: &Report| report.errors.iter().map(ToString::to_string).collect();
        let errors: Vec<String> = reports
            .iter()
            .flat_map(errors as fn(&Report) -> Vec<_>)
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Failure::Input(anyhow::anyhow!(errors.join("\n"))))
        }
    }
}

/// The result for one file.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    valid: bool,
    errors: Vec<Mistake>,
    warnings: Vec<Mistake>,
    #[serde(flatten)]
    found: Option<Found>,
}

/// The meaning of a correct file.
#[derive(Debug, Serialize)]
struct Found {
    kind: &'static str,
    thresholds: Vec<ThresholdLine>,
    effective: Json,
    /// Origins by key.
    origins: BTreeMap<String, Origin>,
    #[serde(skip)]
    configuration: Effective,
}

/// A threshold with its origin.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThresholdLine {
    #[serde(flatten)]
    threshold: Threshold,
    /// The origin of its value.
    origin: Option<Origin>,
    /// The signal whose threshold this one copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    derived_from: Option<Signal>,
    /// The value and the minimum reclaim as written.
    #[serde(skip)]
    written: [String; 2],
}

impl Report {
    fn of(file: &Path) -> Self {
        let (errors, warnings, found) = match config::open(file) {
            Ok(loaded) => (
                Vec::new(),
                loaded.warnings,
                Some(Found::of(loaded.effective)),
            ),
            Err(refused) => (refused.mistakes, refused.warnings, None),
        };
        Self {
            file: file.display().to_string(),
            valid: errors.is_empty(),
            errors,
            warnings,
            found,
        }
    }

    fn yaml(&self) -> String {
        let found = self.found.as_ref();
        found.map_or_else(String::new, |found| found.configuration.to_yaml())
    }

    fn table(&self, view: View) -> String {
        let mut text = match &self.found {
            Some(found) => format!("{}: a valid {}\n", self.file, found.kind),
            None => format!(
                "{}: cannot be used: {}\n",
                self.file,
                counted(self.errors.len(), "mistake")
            ),
        };
        for warning in &self.warnings {
            let warning = view.hanging("warning: ", &warning.to_string());
            let _ = writeln!(text, "{warning}");
        }
        if let Some(found) = &self.found {
            let _ = write!(
                text,
                "\n{}\n\n{}\n",
                found.threshold_table(&self.file, view),
                found.setting_table(&self.file, view)
            );
        }
        text
    }
}

impl Found {
    fn of(configuration: Effective) -> Self {
        let settings = configuration.settings();
        let mut thresholds = configuration.thresholds();
        thresholds.sort_by_key(Threshold::order);
        Self {
            kind: configuration.kind.as_str(),
            thresholds: thresholds
                .into_iter()
                .map(|threshold| ThresholdLine::of(threshold, &configuration))
                .collect(),
            effective: configuration.to_json(),
            origins: settings
                .into_iter()
                .filter_map(|setting| Some((setting.key, setting.origin?)))
                .collect(),
            configuration,
        }
    }

    fn threshold_table(&self, file: &str, view: View) -> String {
        if self.thresholds.is_empty() {
            return view.sentence(
                "No thresholds: no pod is ever evicted for lack of memory, disk or process ids.",
            );
        }
        let rows = self.thresholds.iter().map(|line| {
            let [value, min_reclaim] = line.written.clone();
            let lasting = line.threshold.acts_after();
            // The thresholds of nodefs or imagefs take their place.
            let replaced = matches!(
                line.threshold.signal,
                Signal::ContainerfsAvailable | Signal::ContainerfsInodesFree
            );
            let grace = if replaced {
                "no effect".to_owned()
            } else if lasting.is_zero() {
                "at once".to_owned()
            } else {
                format!("after {}", duration::format(lasting))
            };
            vec![
                line.threshold.signal.to_string(),
                value,
                grace,
                min_reclaim,
                match line.derived_from {
                    Some(signal) => format!("derived from {signal}"),
                    None => in_this_file(file, line.origin.as_ref()),
                },
            ]
        });
        let columns = [
            Column::words("SIGNAL", 5),
            Column::words("THRESHOLD", 4),
            Column::words("ACTS", 3),
            Column::words("MINIMUM RECLAIM", 1),
            Column::sentence("FROM", 2),
        ];
        Table::new(columns, rows).shown(view)
    }

    fn setting_table(&self, file: &str, view: View) -> String {
        let rows = self.configuration.settings().into_iter().map(|setting| {
            let origin = in_this_file(file, setting.origin.as_ref());
            vec![setting.key.clone(), setting.written(), origin]
        });
        let columns = [
            Column::name("SETTING", 3),
            Column::sentence("VALUE", 2),
            Column::sentence("FROM", 1),
        ];
        Table::new(columns, rows).shown(view)
    }
}

impl ThresholdLine {
    fn of(threshold: Threshold, configuration: &Effective) -> Self {
        let maps = &configuration.maps;
        let leader = match threshold.signal {
            Signal::AllocatableMemoryAvailable => Some(Signal::MemoryAvailable),
            Signal::AllocatablePidAvailable => Some(Signal::PidAvailable),
            _ => None,
        };
        // One that is written down itself has a line of its own in the file.
        let is_derived = !configuration.configured_thresholds.contains(&threshold);
        let derived_from = leader.filter(|_| is_derived);
        let signal = derived_from.unwrap_or(threshold.signal).as_str();
        let (name, map) = if threshold.is_hard() && maps.hard.contains_key(signal) {
            ("evictionHard", &maps.hard)
        } else {
            ("evictionSoft", &maps.soft)
        };
        let written = [map.get(signal), maps.minimum_reclaim.get(signal)];
        let mut written = written.map(|value| value.cloned().unwrap_or_default());
        if let (Some(_), ThresholdValue::Percentage(part)) = (derived_from, threshold.value)
            && !written[0].ends_with('%')
        {
            // The value was computed from that of another signal, so no text in the file is equal to it.
            written[0] = format!("{}%", (part * 100.0).round());
            written[1].clear();
        }
        Self {
            origin: configuration.origin(&format!("{name}.{signal}")).cloned(),
            derived_from,
            written,
            threshold,
        }
    }
}

fn is_drop_in(file: &str) -> bool {
    let directory = Path::new(file).parent();
    directory.is_some_and(|directory| directory.ends_with(config::DROP_INS))
}

/// In the main file the line number says where; for a drop-in its name is added.
fn in_this_file(file: &str, origin: Option<&Origin>) -> String {
    match origin {
        Some(Origin::File {
            file: origin,
            line: Some(line),
        }) if origin == file || !is_drop_in(origin) => format!("line {line}"),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
