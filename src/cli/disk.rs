//! `evictd disk`: who fills the node's disks.

use super::daemon::Daemon;
use super::table::duration;
use anyhow::Context;
use clap::Args;
use evictd_command::{Colour, Column, Failure, Output, Row, Table, View};
use evictd_node::disk::{
    DiskLedger, FilesystemLedger, Kind, PodLedger, Reclaimable, ThresholdLine,
};
use evictd_signals::{Signal, human_bytes};
use jiff::SignedDuration;

const EXAMPLE: &str = "Example:
  evictd disk
  evictd disk -o json | jq '.filesystems[].pods[] | {pod, bytes}'";

/// Figures that are older, in seconds, are named in the headline. Runtimes count every 10 s.
const RECENT: i64 = 10;

/// Shows who fills the node's disks: pods by kind, and usage that belongs to no pod.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let document = self.daemon.get("/v1/disk")?;
        let ledger: DiskLedger = serde_json::from_value(document.clone())
            .context("the daemon's answer is not understood; is it of another version?")?;
        self.output.print(&document, |_, view| page(&ledger, view))
    }
}

fn page(ledger: &DiskLedger, view: View) -> String {
    let mut parts: Vec<String> = ledger
        .filesystems
        .iter()
        .map(|filesystem| section(filesystem, view))
        .collect();
    if parts.is_empty() {
        parts.push(view.sentence("No filesystem is watched."));
    }
    if let Some(reclaimable) = &ledger.reclaimable {
        parts.push(view.sentence(&without_a_pod(reclaimable)));
    }
    let notes = notes(ledger).into_iter();
    parts.extend(notes.map(|note| view.paint(Colour::Warning, &view.hanging("WARNING   ", &note))));
    format!("{}\n", parts.join("\n\n"))
}

fn section(filesystem: &FilesystemLedger, view: View) -> String {
    let ages = filesystem.pods.iter().map(|pod| pod.age_seconds);
    let ages = ages.chain(filesystem.unowned.iter().filter_map(|one| one.age_seconds));
    let oldest = ages.max();
    let old = oldest.filter(|oldest| *oldest > RECENT);
    let old = old.map_or_else(String::new, |oldest| {
        format!(", as of up to {} ago", age(oldest))
    });
    let name = view.sentence(&format!(
        "{} on {} ({}){old}",
        filesystem.roles.join(", "),
        filesystem.path.display(),
        filesystem.description,
    ));
    let used = format!(
        "{} of {} used, {} available{}.",
        human_bytes(filesystem.used_bytes),
        human_bytes(filesystem.capacity_bytes),
        human_bytes(filesystem.available_bytes),
        inodes(filesystem),
    );
    let mut lines = vec![name, view.sentence(&used)];
    if let Some(oldest) = oldest {
        lines.push(view.sentence(&format!("The oldest figure is of {} ago.", age(oldest))));
    }
    for threshold in &filesystem.thresholds {
        let line = view.sentence(&limit(threshold));
        let colour = threshold.met.then_some(Colour::Warning);
        // Painted last, since the codes of a colour count as characters when a line is broken.
        lines.push(colour.map_or_else(|| line.clone(), |colour| view.paint(colour, &line)));
    }
    lines.push(String::new());
    lines.push(holders(filesystem).shown(view));
    lines.join("\n")
}

fn inodes(filesystem: &FilesystemLedger) -> String {
    let (used, all) = (filesystem.inodes_used, filesystem.inodes);
    if all == 0 {
        return String::new();
    }
    format!("; {used} of {all} inodes used")
}

fn limit(threshold: &ThresholdLine) -> String {
    if threshold.unmeasured {
        let signal = &threshold.signal;
        return format!("Threshold {signal}: not measured, the filesystem makes them on demand.");
    }
    let bytes = Signal::parse(&threshold.signal).is_none_or(Signal::counts_bytes);
    let value = if bytes {
        human_bytes(threshold.value)
    } else {
        threshold.value.to_string()
    };
    let kind = match threshold.grace_period_seconds {
        0 => "hard",
        _ => "soft",
    };
    let met = if threshold.met { "crossed" } else { "kept" };
    format!("Threshold {} < {value} ({kind}): {met}.", threshold.signal)
}

fn holders(filesystem: &FilesystemLedger) -> Table {
    let mut pods = filesystem.pods.iter();
    let known = pods.any(|pod| pod.written_bytes_per_second.is_some());
    // A column without figures gives its room to the others.
    let writes = if known { 7 } else { 1 };
    let columns = vec![
        Column::name("HELD BY", 9),
        Column::figure("SIZE", 8),
        Column::figure("GROWTH", 8),
        Column::figure("WRITES", writes),
        Column::figure("LAYERS", 6),
        Column::figure("LOGS", 5),
        Column::figure("EMPTYDIRS", 7),
        Column::figure("OTHER", 2),
        Column::figure("DELETED", 4),
        Column::figure("INODES", 3),
        Column::figure("AGE", 1),
    ];
    let of_pod = |pod: &PodLedger| {
        let kind = |kind| {
            let bytes = pod.by_kind.get(&kind);
            bytes.map_or_else(|| "-".to_owned(), |bytes| human_bytes(*bytes))
        };
        let other = [Kind::OtherVolumes, Kind::KubeletFiles].map(|kind| pod.by_kind.get(&kind));
        let other = other
            .into_iter()
            .flatten()
            .copied()
            .reduce(i64::saturating_add);
        Row::from(vec![
            pod.pod.clone(),
            human_bytes(pod.bytes),
            pod.growth_bytes_per_second
                .map_or_else(|| "-".to_owned(), growth),
            pod.written_bytes_per_second
                .map_or_else(|| "-".to_owned(), |rate| format!("{}/s", human_bytes(rate))),
            kind(Kind::WritableLayers),
            kind(Kind::Logs),
            kind(Kind::EmptyDirs),
            other.map_or_else(|| "-".to_owned(), human_bytes),
            kind(Kind::DeletedFiles),
            pod.inodes.to_string(),
            age(pod.age_seconds),
        ])
    };
    let pods = filesystem.pods.iter().map(of_pod);
    let unowned = filesystem.unowned.iter().map(|one| {
        let mut row = vec![format!("({})", one.what), human_bytes(one.bytes)];
        row.resize(10, "-".to_owned());
        row.push(one.age_seconds.map_or_else(|| "-".to_owned(), age));
        Row::from(row).coloured(Some(Colour::Faint))
    });
    Table::new(columns, pods.chain(unowned).collect::<Vec<_>>())
}

/// `+12Mi/s`.
fn growth(rate: i64) -> String {
    let sign = if rate > 0 { "+" } else { "" };
    format!("{sign}{}/s", human_bytes(rate))
}

fn age(seconds: i64) -> String {
    duration(SignedDuration::from_secs(seconds))
}

fn without_a_pod(found: &Reclaimable) -> String {
    let removable = found.sentence();
    format!(
        "Without evicting a pod {removable} could go, as of {} ago.",
        age(found.age_seconds)
    )
}

fn notes(ledger: &DiskLedger) -> Vec<String> {
    let mut notes: Vec<String> = ledger.problem.iter().cloned().collect();
    for one in &ledger.unwatched {
        notes.push(format!(
            "{} is on a filesystem that is not watched; pods mount it: {}",
            one.path.display(),
            one.pods.join(", ")
        ));
    }
    if !ledger.unknown_pods.is_empty() {
        let pods = ledger.unknown_pods.join(", ");
        notes.push(format!("nothing is known of what these pods hold: {pods}"));
    }
    if ledger.hidden_processes > 0 {
        notes.push(format!(
            "the open files of {} processes cannot be seen without CAP_SYS_PTRACE, so deleted files that are open are \
             not told from the system's",
            ledger.hidden_processes
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ledger() -> DiskLedger {
        serde_json::from_value(json!({
            "filesystems": [{
                "roles": ["nodefs", "imagefs"], "path": "/var/lib/kubelet", "description": "ext4 on /dev/vda1",
                "capacityBytes": 100_i64 << 30, "usedBytes": 93_i64 << 30, "availableBytes": 2_i64 << 30,
                "inodes": 6_553_600, "inodesUsed": 512_000,
                "thresholds": [
                    { "signal": "nodefs.available", "value": 10_i64 << 30, "met": true },
                    { "signal": "nodefs.inodesFree", "value": 327_680, "gracePeriodSeconds": 90, "met": false },
                    { "signal": "imagefs.inodesFree", "value": 0, "met": false, "unmeasured": true },
                ],
                "pods": [{
                    "pod": "shop/recommendations-6d5f9c7b8-x2x9z", "bytes": 40_i64 << 30, "inodes": 1_200_000,
                    "byKind": { "writableLayers": 1 << 30, "logs": 300 << 20, "emptyDirs": 38_i64 << 30 },
                    "ageSeconds": 4, "growthBytesPerSecond": 12 << 20, "writtenBytesPerSecond": 55 << 20,
                }],
                "nobodys": [
                    { "what": "images", "bytes": 30_i64 << 30, "ageSeconds": 9 },
                    { "what": "deleted or system", "bytes": 23_i64 << 30 },
                ],
            }],
            "unwatched": [{ "path": "/mnt/data", "pods": ["shop/db"] }],
            "reclaimable": {
                "containers": 1, "containerBytes": 20 << 20, "images": 7, "imageBytes": 12_u64 << 30,
                "imageBytesOnDisk": true, "ageSeconds": 4,
            },
            "hiddenProcesses": 12,
        }))
        .unwrap()
    }

    #[test]
    fn figures_older_than_10_seconds_are_named_in_the_headline() {
        let mut ledger = ledger();
        ledger.filesystems[0].pods[0].age_seconds = 75;
        let page = page(&ledger, View::WHOLE);
        let headline = page.lines().next().unwrap();
        assert!(headline.ends_with(", as of up to 1m 15s ago"), "{headline}");
    }

    #[test]
    fn the_disk_page_fits_80_columns_and_names_the_holders() {
        let page = page(&ledger(), View::of_width(80));
        let long: Vec<&str> = page
            .lines()
            .filter(|line| line.chars().count() > 80)
            .collect();
        assert!(long.is_empty(), "{long:#?}");
        for shown in [
            "93Gi of 100Gi used, 2Gi available; 512000 of 6553600 inodes used.",
            "The oldest figure is of 9s ago.",
            "nodefs, imagefs on /var/lib/kubelet (ext4 on /dev/vda1)\n",
            "nodefs.available < 10Gi (hard): crossed",
            "nodefs.inodesFree < 327680 (soft): kept",
            "shop/recommendations…c7b8-x2x9z",
            "38Gi",
            "+12Mi/s",
            "55Mi/s",
            "(images)",
            "Threshold imagefs.inodesFree: not measured",
            "(deleted or system)",
            "/mnt/data is on a filesystem that is not watched",
            "CAP_SYS_PTRACE",
            "Without evicting a pod 1 dead container (20Mi) and 7 unused images (about 12Gi)",
        ] {
            assert!(page.contains(shown), "{shown} in\n{page}");
        }
    }
}
