//! A pause: while one is in force no pod is terminated. Everything else continues.
//!
//! It comes from `evictd pause`, which saves it in the runtime directory, so that it survives a restart of the
//! daemon but not a reboot; or from an annotation of this node's Node.

use crate::{regular_file, whole_file};
use evictd_decision::record::Paused;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs,
    io::{self, ErrorKind},
    path::PathBuf,
};

/// The annotation of the Node; its value is `true` or a reason.
pub(crate) const ANNOTATION: &str = "evictd.dev/paused";
/// The file in the runtime directory.
const FILE: &str = "paused";
/// The longest reason that is kept, in characters.
const LONGEST_REASON: usize = 200;

/// Where the pause came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum By {
    /// `evictd pause`.
    #[default]
    Command,
    /// The annotation of the Node.
    Annotation,
}

impl By {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "`evictd pause`",
            Self::Annotation => "the Node's annotation evictd.dev/paused",
        }
    }
}

/// A pause, as it is published and saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Since when; for an annotation, when it was first seen.
    pub since: Timestamp,
    /// Until when; `None` for a pause without an end.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// The reason that was given, if any; one line.
    #[serde(default)]
    pub reason: String,
    /// Whether the command or the annotation asked for it.
    #[serde(default)]
    pub by: By,
}

impl Pause {
    /// The pause that this value of the annotation asks for; `None` if it asks for none.
    pub(crate) fn of_annotation(value: Option<&str>, since: Timestamp) -> Option<Self> {
        let value = value?.trim();
        let reason = match value {
            "" | "false" => return None,
            "true" => "",
            reason => reason,
        };
        Some(Self {
            since,
            until: None,
            reason: one_line(reason),
            by: By::Annotation,
        })
    }

    /// The form for the record of a decision.
    pub fn record(&self) -> Paused {
        Paused {
            since: self.since,
            until: self.until,
            reason: self.reason.clone(),
            by: match self.by {
                By::Command => "command".into(),
                By::Annotation => "annotation".into(),
            },
        }
    }

    /// Whether it is over.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// `by evictd pause, until 2026-01-02T03:04:05Z: the reason`
impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by {}", self.by.as_str())?;
        if let Some(until) = self.until {
            write!(f, " until {}", until.strftime("%Y-%m-%dT%H:%M:%SZ"))?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        Ok(())
    }
}

/// Whether the error means that the file does not exist.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The text without characters that could control a terminal or a log.
pub(crate) fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let line: String = text
        .trim()
        .chars()
        .map(plain)
        .take(LONGEST_REASON)
        .collect();
    line.trim_end().to_owned()
}

/// The file that keeps a pause for the next start.
#[derive(Debug, Clone)]
pub struct PauseFile {
    directory: PathBuf,
}

impl PauseFile {
    /// In this directory, which is created if it does not exist.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The pause that an earlier run saved, unless it is over. If the file cannot be read, a pause without an end
    /// is assumed, because a pause was requested.
    pub fn read(&self, now: Timestamp) -> Option<Pause> {
        let path = self.directory.join(FILE);
        let read = regular_file::read(&path).and_then(|text| Ok(serde_json::from_str(&text)?));
        match read {
            Ok(pause) => Some(pause).filter(|pause: &Pause| !pause.is_over(now)),
            Err(error) if is_missing(&error) => None,
            Err(error) => Some(Pause {
                since: now,
                until: None,
                reason: one_line(&format!("{} cannot be read: {error}", path.display())),
                by: By::Command,
            }),
        }
    }

    /// Saves the pause, or that there is none. Takes as long as the directory's filesystem does.
    pub fn write(&self, pause: Option<&Pause>) -> io::Result<()> {
        let Some(pause) = pause else {
            return match fs::remove_file(self.directory.join(FILE)) {
                Err(error) if !is_missing(&error) => Err(error),
                _ => Ok(()),
            };
        };
        whole_file::write(&self.directory, FILE, 0o644, &serde_json::to_vec(pause)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pause(until: Option<i64>) -> Pause {
        Pause {
            since: at(1),
            until: until.map(at),
            reason: "a drill".to_owned(),
            by: By::Command,
        }
    }

    #[test]
    fn an_annotation_is_true_or_a_reason() {
        let reason = |value| Pause::of_annotation(value, at(1)).map(|pause| pause.reason);
        let table = [
            (None, None),
            (Some(""), None),
            (Some("false"), None),
            (Some(" true "), Some("")),
            (Some("a drill"), Some("a drill")),
            (Some("a\u{1b}[2Jdrill\nforged"), Some("a [2Jdrill forged")),
        ];
        for (value, expected) in table {
            assert_eq!(reason(value).as_deref(), expected, "{value:?}");
        }
        assert_eq!(one_line(&"x".repeat(5000)).len(), LONGEST_REASON);
    }

    #[test]
    fn a_pause_is_shown_with_its_end_and_its_reason() {
        let told = pause(Some(60)).to_string();
        assert_eq!(
            told,
            "by `evictd pause` until 1970-01-01T00:01:00Z: a drill"
        );
        let silent = Pause::of_annotation(Some("true"), at(1)).unwrap();
        assert_eq!(
            silent.to_string(),
            "by the Node's annotation evictd.dev/paused"
        );
    }

    #[test]
    fn a_kept_pause_holds_at_the_next_start_until_it_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let file = PauseFile::new(directory.path().join("run"));
        assert_eq!(file.read(at(5)), None);
        file.write(None).unwrap();
        file.write(Some(&pause(Some(60)))).unwrap();
        assert_eq!(file.read(at(59)), Some(pause(Some(60))));
        assert_eq!(file.read(at(60)), None);
        file.write(Some(&pause(None))).unwrap();
        assert_eq!(file.read(at(60)), Some(pause(None)));
        file.write(None).unwrap();
        assert_eq!(file.read(at(60)), None);
    }

    #[test]
    fn a_kept_pause_that_cannot_be_read_holds() {
        let directory = tempfile::tempdir().unwrap();
        for nonsense in ["", "{}", "\0"] {
            fs::write(directory.path().join(FILE), nonsense).unwrap();
            let pause = PauseFile::new(directory.path().to_owned())
                .read(at(7))
                .unwrap();
            assert!(pause.reason.contains("cannot be read"), "{pause}");
            assert_eq!((pause.since, pause.until), (at(7), None));
        }
    }
}
