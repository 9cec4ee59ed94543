//! The state that survives a restart of the daemon: the conditions that hold, and the pods that were rejected because
//! of them. It is a file in the runtime directory, so it does not survive a reboot.
//!
//! The file has a version. An older one is read, a newer one is ignored, and one that cannot be read never keeps the
//! daemon from starting.

use crate::{
    pods::{Rejected, Rejection},
    regular_file, whole_file,
};
use evictd_departures::{Departure, NoticeState, Purpose};
use evictd_signals::{ConditionMap, NodeCondition};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, ErrorKind, Read},
    path::PathBuf,
};

/// The file in the runtime directory.
const FILE: &str = "conditions";
/// The version that is written. Raise it if an older daemon would misunderstand the file.
const VERSION: u64 = 1;
/// No more of the file is read.
const LONGEST: u64 = 1 << 20;
/// The most rejected pods that are kept, the latest ones.
const MAX_REJECTED: usize = 256;

/// A condition that held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptCondition {
    /// Since when it keeps new pods off the node.
    pub since: Timestamp,
    /// When its cause was last seen.
    pub seen: Timestamp,
}

/// A pod that was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptRejection {
    /// Id of the decision.
    pub id: String,
    /// `namespace/name`
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// When it was rejected.
    pub time: Timestamp,
    /// The conditions that forbid it; none if it does not fit.
    #[serde(default)]
    pub conditions: Vec<String>,
    /// The reason, one word.
    #[serde(default)]
    pub reason: String,
    /// The message, a sentence.
    #[serde(default)]
    pub message: String,
    /// Whether the API server was informed.
    #[serde(default, rename = "told")]
    pub informed: bool,
}

/// The state that an earlier run kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Kept {
    version: u64,
    boot_id: String,
    /// By name; names that only another version knows are ignored.
    conditions: BTreeMap<String, KeptCondition>,
    rejections: Vec<KeptRejection>,
}

impl Kept {
    /// The state to keep: for each condition, since when it keeps new pods away and when its cause was last seen.
    pub fn new(
        boot_id: &str,
        conditions: &ConditionMap<Option<KeptCondition>>,
        rejections: Vec<KeptRejection>,
    ) -> Self {
        let held = conditions.iter();
        let held = held.filter_map(|(name, held)| Some((name.as_str().to_owned(), (*held)?)));
        Self {
            version: VERSION,
            boot_id: boot_id.to_owned(),
            conditions: held.collect(),
            rejections,
        }
    }

    /// The conditions that this version knows.
    pub fn conditions(&self) -> impl Iterator<Item = (NodeCondition, KeptCondition)> {
        let known =
            |(name, held): (&String, &KeptCondition)| Some((NodeCondition::parse(name)?, *held));
        self.conditions.iter().filter_map(known)
    }

    /// The pods that were rejected.
    pub fn rejections(&self) -> &[KeptRejection] {
        &self.rejections
    }
}

impl KeptRejection {
    /// A pod that is not admitted at present. `None` while the API server has to be informed of it: then the history
    /// keeps it.
    pub fn new(rejected: &Rejected, departure: &Departure) -> Option<Self> {
        let Purpose::Rejection { conditions } = &departure.purpose else {
            return None;
        };
        (departure.notice_state != NoticeState::Pending).then(|| Self {
            id: departure.id.clone(),
            pod: rejected.pod.clone(),
            uid: rejected.uid.clone(),
            time: departure.since,
            conditions: conditions
                .iter()
                .map(|one| one.as_str().to_owned())
                .collect(),
            reason: rejected.rejection.reason.clone(),
            message: rejected.rejection.message.clone(),
            informed: departure.notice_state == NoticeState::Sent,
        })
    }

    /// As the pod cache knows it.
    pub fn rejection(&self) -> Rejection {
        Rejection {
            reason: self.reason.clone(),
            message: self.message.clone(),
        }
    }

    /// The pod stays away: its departure has no process to end.
    pub fn departure(&self) -> Departure {
        let conditions = self.conditions.iter();
        let purpose = Purpose::Rejection {
            conditions: conditions
                .filter_map(|name| NodeCondition::parse(name))
                .collect(),
        };
        let name = (self.id.clone(), self.pod.clone(), self.uid.clone());
        let mut departure = Departure::new(name, purpose, self.time, SignedDuration::ZERO);
        departure.runs = false;
        if self.informed {
            departure.notice_state = NoticeState::Sent;
        }
        departure
    }
}

/// Keeps the latest of them only, because the creators of pods decide how many there are.
pub(crate) fn latest(mut rejections: Vec<KeptRejection>) -> Vec<KeptRejection> {
    rejections.sort_by(|a, b| (a.time, &a.uid).cmp(&(b.time, &b.uid)));
    let surplus = rejections.len().saturating_sub(MAX_REJECTED);
    rejections.drain(..surplus);
    rejections
}

/// The file.
#[derive(Debug, Clone)]
pub(crate) struct KeptFile {
    directory: PathBuf,
}

impl KeptFile {
    /// In this directory, which is created if it does not exist.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Reads the state that an earlier run since this boot kept. A file that cannot be used is reported in the log.
    pub(crate) fn read(&self, boot_id: &str) -> Kept {
        let path = self.directory.join(FILE);
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) if is_missing(&error) => return Kept::default(),
            Err(error) => {
                let path = path.display();
                tracing::warn!("conditions from before this start are not kept: {path}: {error}");
                return Kept::default();
            }
        };
        match parse(&text) {
            Ok(kept) if kept.boot_id == boot_id => kept,
            Ok(_) => Kept::default(),
            Err(why) => {
                let path = path.display();
                tracing::warn!("conditions from before this start are not kept: {path} {why}");
                Kept::default()
            }
        }
    }

    /// Writes it for the next start. Takes as long as the directory's filesystem does.
    pub(crate) fn write(&self, kept: &Kept) -> io::Result<()> {
        whole_file::write(&self.directory, FILE, 0o644, &serde_json::to_vec(kept)?)
    }
}

fn read(path: &std::path::Path) -> io::Result<String> {
    let mut text = String::new();
    let file = regular_file::open(path, OpenOptions::new().read(true))?;
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// `Err` says why the file is not used.
fn parse(text: &str) -> Result<Kept, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("is damaged: {error}"))?;
    let version = value["version"].as_u64().unwrap_or(0);
    if version > VERSION {
        return Err(format!(
            "was written by a newer evictd (version {version} of the file, {VERSION} is known)"
        ));
    }
    serde_json::from_value(value).map_err(|error| format!("is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_testkit::testing::logged;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn kept() -> Kept {
        let mut conditions = ConditionMap::default();
        conditions[NodeCondition::MemoryPressure] = Some(KeptCondition {
            since: at(10),
            seen: at(20),
        });
        let rejection = KeptRejection {
            id: "d-1".to_owned(),
            pod: "shop/web".to_owned(),
            uid: "u-1".to_owned(),
            time: at(15),
            conditions: vec!["MemoryPressure".to_owned()],
            reason: "Evicted".to_owned(),
            message: "The node had condition: [MemoryPressure]. ".to_owned(),
            informed: false,
        };
        Kept::new("boot", &conditions, vec![rejection])
    }

    #[test]
    fn kept_state_is_read_by_the_next_start_but_not_after_a_reboot() {
        let directory = tempfile::tempdir().unwrap();
        let file = KeptFile::new(directory.path().join("run"));
        assert_eq!(file.read("boot"), Kept::default());
        file.write(&kept()).unwrap();
        assert_eq!(file.read("boot"), kept());
        assert_eq!(file.read("another"), Kept::default());
        let departure = kept().rejections()[0].departure();
        assert!(!departure.runs);
        let memory = vec![NodeCondition::MemoryPressure];
        assert_eq!(departure.purpose, Purpose::Rejection { conditions: memory });
    }

    /// What a file with this text is read as, and what is logged.
    fn read_as(text: &str) -> (Kept, String) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), text).unwrap();
        let file = KeptFile::new(directory.path().to_owned());
        let mut kept = Kept::default();
        let log = logged(|| kept = file.read("boot"));
        (kept, log)
    }

    #[test]
    fn an_older_file_is_read_and_a_newer_one_is_ignored_with_a_line() {
        let held = json!({ "since": at(10), "seen": at(20), "new": 1 });
        // The one before the file had versions and rejections, and a condition that only another version has.
        let conditions = json!({ "MemoryPressure": held, "SwapPressure": held });
        let older = json!({ "bootId": "boot", "conditions": conditions });
        let (read, log) = read_as(&older.to_string());
        let conditions: Vec<_> = read.conditions().collect();
        assert_eq!(conditions.len(), 1, "{read:?}");
        assert_eq!((conditions[0].1.seen, log.as_str()), (at(20), ""));
        let mut newer = serde_json::to_value(kept()).unwrap();
        newer["version"] = json!(VERSION + 1);
        newer["conditions"] = json!(["of another form"]);
        let (read, log) = read_as(&newer.to_string());
        assert_eq!(read, Kept::default());
        assert!(log.contains("was written by a newer evictd"), "{log}");
    }

    #[test]
    fn a_damaged_file_is_ignored_with_a_line() {
        for text in ["", "{", "\0\0\0", "[]x", r#"{"version":1,"conditions":7}"#] {
            let (read, log) = read_as(text);
            assert_eq!(read, Kept::default(), "{text:?}");
            assert!(log.contains("are not kept"), "{text:?}: {log}");
        }
    }

    #[test]
    fn of_many_rejected_pods_the_latest_are_kept() {
        let rejection = |second| KeptRejection {
            time: at(second),
            ..kept().rejections()[0].clone()
        };
        let all = (0..1000).rev().map(rejection).collect();
        let kept = latest(all);
        assert_eq!((kept.len(), kept[0].time), (MAX_REJECTED, at(1000 - 256)));
    }
}
