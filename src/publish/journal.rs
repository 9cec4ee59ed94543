//! A decision as one log line, which under systemd is a journal entry with fields to search by.

use serde_json::Value;

/// The journal's message ids (`journalctl MESSAGE_ID=…`), one a kind of decision.
const HARD: &str = "a05675d9a00b4cfa9e873395e2735072";
const SOFT: &str = "8b601c4739e44442bfa4ed9b68ce3b53";
const LOCAL_STORAGE: &str = "21302457f91f431e94dd7e61160494ca";

/// What the log line takes from a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement<'a> {
    /// The decision's own id, by which `evictd history` finds its evidence.
    pub id: &'a str,
    /// The signal it was made for.
    pub signal: &'a str,
    /// `hard`, `soft` or `localStorage`.
    pub kind: &'a str,
    /// The victim as `namespace/name`.
    pub pod: &'a str,
    /// The victim's UID.
    pub uid: &'a str,
    /// The message that its status gets.
    pub message: &'a str,
}

impl<'a> Announcement<'a> {
    /// Takes it from a decision's JSON; a field that is missing is empty.
    pub fn of(decision: &'a Value) -> Self {
        let text = |name: &str| decision[name].as_str().unwrap_or_default();
        Self {
            id: text("id"),
            signal: text("signal"),
            kind: text("kind"),
            pod: text("pod"),
            uid: text("uid"),
            message: text("message"),
        }
    }

    /// Logs it, before anything is done about it.
    pub fn log(&self, dry_run: bool) {
        let what = if dry_run { "would evict" } else { "evicting" };
        tracing::warn!(
            MESSAGE_ID = message_id(self.kind),
            EVICTD_DECISION_ID = self.id,
            EVICTD_SIGNAL = self.signal,
            EVICTD_KIND = self.kind,
            EVICTD_POD = self.pod,
            EVICTD_POD_UID = self.uid,
            "{what} {}: {}",
            self.pod,
            self.message.trim_end(),
        );
    }
}

fn message_id(kind: &str) -> &'static str {
    match kind {
        "soft" => SOFT,
        "localStorage" => LOCAL_STORAGE,
        _ => HARD,
    }
}
