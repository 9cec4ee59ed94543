//! The pre-kill hook: a command, or a service on a socket, that may save evidence of a pod before its first signal.
//!
//! It is never waited for beyond its budget, and everything that it writes beyond a bound is dropped.

use crate::config::PreKillHook;
use evictd_decision::record::{self, HookOutcome};
use jiff::SignedDuration;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use serde_json::json;
use std::{fs, io, os::fd::OwnedFd, path::PathBuf, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{UnixStream, unix::pipe::Receiver},
    process::{Child, Command},
    sync::{Notify, Semaphore},
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
    /// Held while a command is started: one whose disk hangs takes one of the few threads for such calls, and not all.
    starts: Arc<Semaphore>,
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
            starts: Arc::new(Semaphore::new(1)),
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
            output: text(&output),
        }
    }

    /// Returns the failure that the hook reports. Its processes end when this future is dropped.
    async fn ask(&self, request: &HookRequest, output: &mut Vec<u8>) -> io::Result<Option<String>> {
        match &self.via {
            Via::Command(words) => {
                let command = command(words, request)?;
                run_command(command, &self.starts, output).await
            }
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

/// Kills the processes of a command, with those that it leaves behind.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by now.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn command(words: &[String], request: &HookRequest) -> io::Result<Command> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(request.environment())
        .current_dir("/")
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    Ok(command)
}

async fn run_command(
    mut command: Command,
    starts: &Arc<Semaphore>,
    output: &mut Vec<u8>,
) -> io::Result<Option<String>> {
    // One pipe for both: a command that fills the one that is not read would hang.
    let (read, write) = io::pipe()?;
    command.stdout(write.try_clone()?).stderr(write);
    let starts = Arc::clone(starts).acquire_owned().await;
    // It returns when the program is read from its disk, which may take long on a starved machine.
    let (mut child, group) = spawn_blocking(move || {
        let _starts = starts;
        start(command)
    })
    .await??;
    let mut written = Receiver::from_owned_fd(OwnedFd::from(read))?;
    let kept = keep(&mut written, output);
    tokio::pin!(kept);
    let status = tokio::select! {
        status = child.wait() => {
            // What it leaves behind has the rights of the daemon.
            drop(group);
            // Later output is lost.
            let _ = timeout(LAST_OUTPUT, &mut kept).await;
            status?
        }
        () = &mut kept => child.wait().await?,
    };
    Ok((!status.success()).then(|| status.to_string()))
}

/// Blocks until the program is loaded. If the caller has given up by then, the dropped [`Group`] ends all its processes.
fn start(mut command: Command) -> io::Result<(Child, Group)> {
    let child = command.spawn()?;
    let group = Group::of(&child);
    if let Some(id) = child.id() {
        // Without it the hook would be spared as the agent is, whose protection it inherits.
        let _ = fs::write(format!("/proc/{id}/oom_score_adj"), OOM_SCORE);
    }
    Ok((child, group))
}

/// Reads to the end, and keeps the beginning.
async fn keep(from: &mut (impl AsyncRead + Unpin), kept: &mut Vec<u8>) {
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let room = OUTPUT.saturating_sub(kept.len());
        kept.extend_from_slice(&piece[..count.min(room)]);
    }
}

/// The bytes as text of no more bytes: what is no UTF-8 takes three bytes for each of its own.
fn text(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    text.truncate(text.floor_char_boundary(OUTPUT));
    text
}

#[cfg(test)]
mod tests;
