//! The contents of a pod before its end: its largest processes, the kinds of its memory, the parts of its usage. A pod chooses the
//! names of its processes, so they are shown escaped.

use crate::cli::table::{amount, or_dash, used};
use evictd_command::{Column, Table};
use evictd_decision::record::{Contents, Ended, Holder, Outcome, Record};
use evictd_pod::duration;
use jiff::SignedDuration;

fn contents(ended: Option<&Ended>) -> Option<&Contents> {
    ended?.contents.as_deref()
}

fn bytes(bytes: u64) -> String {
    amount(None, i64::try_from(bytes).ok())
}

/// `java 2.9Gi of 3.1Gi in container app`: the process that held most before the first signal.
pub(super) fn held_by(ended: Option<&Ended>) -> String {
    let Some(contents) = contents(ended) else {
        return or_dash(None::<&str>);
    };
    let unread = match contents.unread {
        Some(0) => None,
        Some(1) => Some("1 process or thread was not read in time".to_owned()),
        Some(unread) => Some(format!(
            "{unread} processes and threads were not read in time"
        )),
        None => Some("the processes were not read: their number is not known".to_owned()),
    };
    let words: Vec<String> = contents.largest().into_iter().chain(unread).collect();
    or_dash(Some(words.join("; ")).filter(|words| !words.is_empty()))
}

/// `3.1Gi: anon 2.9Gi, file 12Mi, ..`: the pod's memory by kind before the first signal.
pub(super) fn memory_kinds(ended: Option<&Ended>) -> String {
    let kinds = contents(ended).and_then(|contents| contents.memory.as_ref());
    or_dash(kinds.map(|kinds| {
        let shown = kinds.known();
        let shown = shown.map(|(kind, held)| format!("{kind} {}", bytes(held)));
        let shown = shown.collect::<Vec<_>>().join(", ");
        match kinds.usage {
            Some(usage) if shown.is_empty() => bytes(usage),
            Some(usage) => format!("{}: {shown}", bytes(usage)),
            None => shown,
        }
    }))
}

/// The tables that have rows, each with its heading.
pub(super) fn tables(record: &Record) -> Vec<(&'static str, Table)> {
    let mut tables = Vec::new();
    let ended = record.outcome.as_ref().and_then(Outcome::ended);
    let processes = contents(ended).map_or(&[][..], |contents| &contents.processes);
    if !processes.is_empty() {
        tables.push((
            "Largest processes right before the first signal",
            table_of(processes),
        ));
    }
    if !record.parts.is_empty() {
        let signal = record.acting_signal();
        let has_directories = record.parts.iter().any(|part| part.directory.is_some());
        let rows = record.parts.iter().map(|part| {
            let mut row = vec![
                part.name.escape_debug().to_string(),
                used(signal, Some(part.usage)),
            ];
            let directory = part.directory.as_ref().map(|directory| {
                let held = used(signal, Some(directory.usage));
                format!("{held} in {}", directory.path.escape_debug())
            });
            row.extend(has_directories.then(|| or_dash(directory)));
            row
        });
        let mut columns = vec![Column::name("PART", 9), Column::figure("USAGE", 8)];
        columns.extend(has_directories.then(|| Column::name("MOST OF IT", 7)));
        let table = Table::new(columns, rows);
        tables.push(("Largest parts of its usage at the decision", table));
    }
    tables
}

fn table_of(processes: &[Holder]) -> Table {
    let rows = processes.iter().map(|process| {
        let age = process.age_seconds.and_then(|age| i64::try_from(age).ok());
        let age = age.map(|age| duration::format(SignedDuration::from_secs(age)));
        vec![
            process.shown_name(),
            bytes(process.resident_bytes),
            process.pid.to_string(),
            process.threads.to_string(),
            or_dash(age),
            or_dash(process.shown_container()),
            or_dash(process.command_line.as_ref()),
        ]
    });
    let mut columns = vec![
        Column::name("PROCESS", 9),
        Column::figure("HELD", 8),
        Column::figure("PID", 5),
        Column::figure("THREADS", 4),
        Column::figure("AGE", 3),
        Column::name("CONTAINER", 7),
    ];
    let has_lines = processes
        .iter()
        .any(|process| process.command_line.is_some());
    if has_lines {
        columns.push(Column::sentence("COMMAND LINE", 6));
    }
    let rows = rows.map(|mut row| {
        row.truncate(columns.len());
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    Table::new(columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_command::View;
    use serde_json::{Value, json};

    fn ended(contents: &Value) -> Ended {
        serde_json::from_value(json!({ "contents": contents })).unwrap()
    }

    #[test]
    fn the_largest_process_and_the_kinds_of_memory_are_shown() {
        let whole = ended(&json!({
            "processes": [{ "pid": 7, "name": "java\u{1b}[2J", "containerName": "app", "residentBytes": 3_113_851_289_u64, "threads": 40 }],
            "unread": 2,
            "memory": { "usage": 3_328_599_654_u64, "anon": 3_113_851_289_u64, "file": 12_582_912 },
        }));
        assert_eq!(
            held_by(Some(&whole)),
            "java\\u{1b}[2J 2.9Gi of 3.1Gi in container app; 2 processes and threads were not read in time"
        );
        assert_eq!(memory_kinds(Some(&whole)), "3.1Gi: anon 2.9Gi, file 12Mi");
        let unknown = ended(&json!({}));
        assert!(held_by(Some(&unknown)).contains("not known"));
        assert_eq!(
            (held_by(None), memory_kinds(None)),
            ("-".to_owned(), "-".to_owned())
        );
    }

    #[test]
    fn no_name_of_a_process_breaks_a_page() {
        let process = |name: &str, more: Value| {
            let mut process =
                json!({ "pid": 7, "name": name, "residentBytes": 4096, "threads": 1 });
            for (key, value) in more.as_object().unwrap() {
                process[key] = value.clone();
            }
            process
        };
        let processes = [
            process(
                "a\nFORGED  b",
                json!({ "ageSeconds": 7500, "container": "0123456789ab" }),
            ),
            process(
                "\u{202e}\u{1b}[31m<script>",
                json!({ "containerName": "web" }),
            ),
        ];
        let record: Record = serde_json::from_value(json!({
            "id": "1", "time": "2026-01-01T00:00:00Z", "kind": "hard", "signal": "memory.available", "pod": "shop/hog", "uid": "u",
            "outcome": { "method": "cgroup-kill", "contents": { "processes": processes, "unread": 0 } },
            "parts": [{ "name": "container web", "usage": "2Mi" }],
        }))
        .unwrap();
        let shown = super::super::evidence(&record, View::WHOLE);
        for part in [
            "a\\nFORGED  b",
            "2h5m0s",
            "0123456789ab",
            "\\u{202e}\\u{1b}[31m<script>",
            "container web    2Mi",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(
            !shown.contains("COMMAND LINE") && !shown.contains('\u{1b}'),
            "{shown}"
        );
        assert!(
            !shown.lines().any(|line| line.starts_with("FORGED")),
            "{shown}"
        );
        let document = super::super::html::html(&record).to_html();
        assert!(
            document.contains("&lt;script&gt;") && !document.contains("31m<script>"),
            "{document}"
        );
    }
}
