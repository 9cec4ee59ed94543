//! Keys of the pre-kill hook, and the rules between their values.

use crate::{
    key::{Effect::Reload, Field, Key, Kubelet::Same, key, one, schema_of},
    reader::Reader,
    value::Value,
};
use evictd_configuration::Fault;
use jiff::SignedDuration;

/// A hook that is waited for any longer is no longer one that saves evidence.
const LONGEST: SignedDuration = SignedDuration::from_secs(60);

pub(super) const COMMAND: Key = key(
    "preKillHook.command",
    "[]",
    Same,
    Reload,
    one!(pre_kill_hook.command),
    "A command that is run before a pod is evicted, as the daemon's user, for heap dumps and the ends of logs: program and arguments. Its environment names the pod (EVICTD_POD, EVICTD_POD_UID, EVICTD_CGROUP, EVICTD_SIGNAL, EVICTD_KIND, EVICTD_DECISION_ID, EVICTD_BUDGET_MS). It runs before soft evictions, and before hard ones where the forecast leaves time; it is killed when its time is over. []: none.",
);

pub(super) const SOCKET: Key = key(
    "preKillHook.socket",
    r#""""#,
    Same,
    Reload,
    one!(pre_kill_hook.socket),
    "Instead of a command, the Unix socket of a service, which may have other rights than the daemon. It gets the same as one line of JSON, and is waited for until it closes the connection. Empty: none.",
);

pub(super) const BUDGET: Key = key(
    "preKillHook.budget",
    "500ms",
    Same,
    Reload,
    one!(pre_kill_hook.budget),
    "The longest time that the hook may take, at most 1m. The grace period of the pod begins when the hook has ended.",
);

/// Checks the values against each other.
pub(crate) fn check(reader: &mut Reader<'_>) {
    let hook = reader.effective.pre_kill_hook.clone();
    let mut mistake = |key: &str, message: &str, advice: &str| {
        let fault = Fault::new(reader.value_place(key), message).advise(advice);
        reader.mistake(key, fault);
    };
    if let Some(program) = hook.command.first() {
        if !program.starts_with('/') {
            let message = "the program is not named by an absolute path";
            mistake(COMMAND.path, message, "begin it with /");
        }
        if hook.socket.is_some() {
            mistake(
                SOCKET.path,
                "there is a command, too",
                "set only one of the two",
            );
        }
    }
    let is_set = hook.socket.is_some() || !hook.command.is_empty();
    if is_set && (hook.budget.is_zero() || hook.budget > LONGEST) {
        mistake(
            BUDGET.path,
            "it is not above 0s and at most 1m",
            "write it like 500ms",
        );
    }
}
