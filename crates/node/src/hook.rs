//! The pre-kill hook: a command, or a service on a socket, that may save evidence of a pod before its first signal.
//!
//! It is never waited for beyond its budget, and everything that it writes beyond a bound is dropped.

use crate::config::PreKillHook;
use evictd_decision::record::{self, HookOutcome};
use jiff::SignedDuration;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use serde_json::json;
use std::{io, path::PathBuf, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    process::Command,
    sync::Notify,
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};

/// The most bytes of output that are kept.
const OUTPUT: usize = 2048;
/// How long the output of a command that has ended is read on. A child of it may keep the pipe open.
const LAST_OUTPUT: Duration = Duration::from_millis(20);
/// The kernel kills a hook that uses much memory before anything else of the node.
const OOM_SCORE: &str = "1000";

/// A configured hook. Clones share its parts.
#[derive(Debug, Clone)]
pub struct Hook {
    via: Via,
    budget: SignedDuration,
}

#[derive(Debug, Clone)]
enum Via {
    Command(Arc<[String]>),
    Socket(Arc<PathBuf>),
}

/// The pod that the hook shall save evidence of.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HookRequest {
    /// Id of the decision.
    pub(crate) id: String,
    /// `namespace/name`.
    pub(crate) pod: String,
    pub(crate) uid: String,
    /// Relative to the root of its hierarchy.
    pub(crate) cgroup: PathBuf,
    pub(crate) signal: String,
    /// `hard` or `soft`.
    pub(crate) kind: &'static str,
    pub(crate) budget_milliseconds: u64,
}

impl HookRequest {
    fn environment(&self) -> [(&'static str, String); 7] {
        [
            ("EVICTD_DECISION_ID", self.id.clone()),
            ("EVICTD_POD", self.pod.clone()),
            ("EVICTD_POD_UID", self.uid.clone()),
            ("EVICTD_CGROUP", self.cgroup.display().to_string()),
            ("EVICTD_SIGNAL", self.signal.clone()),
            ("EVICTD_KIND", self.kind.to_owned()),
            ("EVICTD_BUDGET_MS", self.budget_milliseconds.to_string()),
        ]
    }
}

impl Hook {
    /// `None` if neither a command nor a socket is configured.
    pub fn of(config: &PreKillHook) -> Option<Self> {
        let via = match &config.socket {
            Some(socket) => Via::Socket(Arc::new(socket.clone())),
            None if config.command.is_empty() => return None,
            None => Via::Command(config.command.clone().into()),
        };
        Some(Self {
            via,
            budget: config.budget,
        })
    }

    pub(crate) const fn budget(&self) -> SignedDuration {
        self.budget
    }

    /// Runs it to its end, at most for the budget of the request, and until `end` is notified.
    pub(crate) async fn run(&self, request: &HookRequest, end: &Notify) -> record::Hook {
        let began = Instant::now();
        let budget = Duration::from_millis(request.budget_milliseconds);
        let mut output = Vec::new();
        let (outcome, detail) = tokio::select! {
            biased;
            () = end.notified() => (HookOutcome::Cut, String::new()),
            () = sleep(budget) => (HookOutcome::TimedOut, String::new()),
            ended = self.ask(request, &mut output) => match ended {
                Ok(None) => (HookOutcome::Succeeded, String::new()),
                Ok(Some(problem)) => (HookOutcome::Failed, problem),
                Err(error) => (HookOutcome::Failed, error.to_string()),
            },
        };
        record::Hook {
            outcome,
            milliseconds: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            detail,
            output: String::from_utf8_lossy(&output).into_owned(),
        }
    }

    /// Returns the failure that the hook reports. Its processes end when this future is dropped.
    async fn ask(&self, request: &HookRequest, output: &mut Vec<u8>) -> io::Result<Option<String>> {
        match &self.via {
            Via::Command(words) => run_command(words, request, output).await,
            Via::Socket(path) => {
                let mut stream = UnixStream::connect(path.as_path()).await?;
                stream
                    .write_all(format!("{}\n", json!(request)).as_bytes())
                    .await?;
                keep(&mut stream, output).await;
                Ok(None)
            }
        }
    }
}

/// Kills the processes of a command that has not ended.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by now.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn run_command(
    words: &[String],
    request: &HookRequest,
    output: &mut Vec<u8>,
) -> io::Result<Option<String>> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(None);
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(request.environment())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    // It returns when the program is read from its disk, which may take long on a starved machine.
    let mut child = spawn_blocking(move || command.spawn()).await??;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let mut group = Group(id.and_then(Pid::from_raw));
    if let Some(id) = id {
        // Without it the hook would be spared as the agent is, whose protection it inherits.
        let _ = std::fs::write(format!("/proc/{id}/oom_score_adj"), OOM_SCORE);
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let both = async {
        if let Some(mut stdout) = stdout {
            keep(&mut stdout, output).await;
        }
        if let Some(mut stderr) = stderr {
            keep(&mut stderr, output).await;
        }
    };
    tokio::pin!(both);
    let status = tokio::select! {
        status = child.wait() => {
            // Later output is lost.
            let _ = timeout(LAST_OUTPUT, &mut both).await;
            status?
        }
        () = &mut both => child.wait().await?,
    };
    group.0 = None;
    Ok((!status.success()).then(|| status.to_string()))
}

/// Reads to the end, and keeps the beginning.
async fn keep(from: &mut (impl AsyncRead + Unpin), kept: &mut Vec<u8>) {
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let room = OUTPUT.saturating_sub(kept.len());
        kept.extend_from_slice(&piece[..count.min(room)]);
    }
}

#[cfg(test)]
mod tests;
