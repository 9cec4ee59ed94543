//! The runtime of a kubelet's containers.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use tokio::sync::mpsc;

/// A container that has ended: its id and its exit code.
pub type Exits = mpsc::UnboundedSender<(String, i32)>;

/// The exit code of a process that was killed.
pub const KILLED: i32 = 137;

/// Runs containers. Each end of a container, for any reason, is reported to `exits` once.
pub trait Runtime: Debug + Send {
    /// Starts a container of a pod and returns its id, 64 hexadecimal digits.
    fn start(&mut self, pod: &Value, container: &Value, exits: &Exits) -> io::Result<String>;

    /// Asks it to end.
    fn terminate(&mut self, id: &str);

    /// Ends it.
    fn kill(&mut self, id: &str);
}

/// Containers that are only remembered. A pod's annotation `testkit/on-term` is the effect of SIGTERM on them: an exit code,
/// 0 if there is none, or `ignore`.
#[derive(Debug, Default)]
pub struct FakeRuntime {
    /// By id: the effect of SIGTERM (`None` for none) and the receiver of the end.
    running: BTreeMap<String, (Option<i32>, Exits)>,
    started: u64,
    deaf: bool,
}

impl FakeRuntime {
    /// All of them deaf to SIGTERM, as the first process of a container is unless it listens.
    pub fn deaf() -> Self {
        Self {
            deaf: true,
            ..Self::default()
        }
    }

    fn end(&mut self, id: &str, code: i32) {
        if let Some((_, exits)) = self.running.remove(id) {
            // The kubelet may have stopped.
            let _ = exits.send((id.to_owned(), code));
        }
    }
}

impl Runtime for FakeRuntime {
    fn start(&mut self, pod: &Value, _: &Value, exits: &Exits) -> io::Result<String> {
        self.started += 1;
        let id = format!("{:064x}", self.started);
        let on_term = match pod["metadata"]["annotations"]["testkit/on-term"].as_str() {
            Some("ignore") => None,
            None if self.deaf => None,
            code => Some(code.and_then(|code| code.parse().ok()).unwrap_or(0)),
        };
        self.running.insert(id.clone(), (on_term, exits.clone()));
        Ok(id)
    }

    fn terminate(&mut self, id: &str) {
        if let Some((Some(code), _)) = self.running.get(id) {
            let code = *code;
            self.end(id, code);
        }
    }

    fn kill(&mut self, id: &str) {
        self.end(id, KILLED);
    }
}
