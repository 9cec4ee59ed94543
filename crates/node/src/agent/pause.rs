//! The pause: while one is in force, decisions are published as in a dry run. Terminations that have begun are
//! finished.

use crate::{
    pause::{Pause, PauseFile},
    server::state::{Answer, Unanswered},
};
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use tokio::{
    sync::{Mutex, watch},
    task::spawn_blocking,
};

/// The sources of pauses.
#[derive(Debug)]
pub struct Pauses {
    by_command: Option<Pause>,
    by_annotation: Option<Pause>,
    /// The pause in the Node's annotation, if there is a Node.
    annotated: Option<watch::Receiver<Option<Pause>>>,
    /// The pause file; the lock keeps writes in order.
    file: Arc<Mutex<PauseFile>>,
}

impl Pauses {
    /// Starts with the pause that an earlier run wrote to the file.
    pub fn new(
        file: PauseFile,
        annotated: Option<watch::Receiver<Option<Pause>>>,
        now: Timestamp,
    ) -> Self {
        Self {
            by_command: file.read(now),
            by_annotation: None,
            annotated,
            file: Arc::new(Mutex::new(file)),
        }
    }

    /// The pause to show; if both are in force, that of the command, which may have an end.
    pub(super) fn in_force(&self) -> Option<&Pause> {
        self.by_command.as_ref().or(self.by_annotation.as_ref())
    }

    /// Updates the pause in force; true if it changed.
    pub(super) fn update(&mut self, now: Timestamp) -> bool {
        // The file is emptied, too: else the next start would read a pause that is over.
        let over = self
            .by_command
            .take_if(|pause| pause.is_over(now))
            .is_some();
        if over {
            self.save(None, None);
        }
        let annotation = self.annotated.as_mut();
        let changed = annotation
            .filter(|annotation| annotation.has_changed().unwrap_or(false))
            .map(|annotation| annotation.borrow_and_update().clone());
        let annotated = changed.is_some_and(|annotation| {
            let before = std::mem::replace(&mut self.by_annotation, annotation);
            before != self.by_annotation
        });
        over || annotated
    }

    /// Writes the pause to the file for the next start, in the background: the file is usually in memory, but may
    /// be on a disk that hangs.
    fn save(&self, pause: Option<Pause>, answer: Option<Answer>) {
        let file = Arc::clone(&self.file);
        let in_force = self.in_force().cloned();
        tokio::spawn(async move {
            let file = file.lock_owned().await;
            let written = spawn_blocking(move || file.write(pause.as_ref())).await;
            let problem = match written {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(problem) = &problem {
                tracing::error!("the pause cannot be saved for the next start: {problem}");
            }
            if let Some(answer) = answer {
                // The receiver may be closed by now.
                let _ = answer.send(Ok(json!({ "paused": in_force, "notKept": problem })));
            }
        });
    }

    /// Starts this pause now; it replaces an earlier one of the command. False if it has already ended.
    pub(super) fn begin(&mut self, now: Timestamp, pause: Pause, answer: Answer) -> bool {
        if pause.is_over(now) {
            let _ = answer.send(Err(Unanswered::Refused(
                "that pause has already ended".into(),
            )));
            return false;
        }
        self.by_command = Some(pause.clone());
        self.save(Some(pause), Some(answer));
        true
    }

    /// Ends the pause of the command. A pause by the Node's annotation ends only when the annotation is removed.
    pub(super) fn end(&mut self, answer: Answer) {
        self.by_command = None;
        self.save(None, Some(answer));
    }
}
