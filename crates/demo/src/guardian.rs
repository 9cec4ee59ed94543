//! The guardian process: starts the demo as a child process, and cleans up however the child ends.

use super::node;
use nix::{
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::{Pid, getppid},
};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::{
    env,
    io::{self, IsTerminal, Write},
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    select,
    signal::unix::{SignalKind, signal},
    time::sleep,
};

/// The flag that passes the guardian's process id to the child.
pub const FLAG: &str = "guarded";
/// A demo that has not ended this long after it was asked to is killed.
const LONGEST_END: Duration = Duration::from_secs(10);
/// The exit code of a demo that failed.
const FAILED: u8 = 1;
/// The highest exit code to which the command line gives a meaning.
const LAST_CODE: i32 = 3;

/// Runs this same command line as a guarded child; returns its exit code after the cleanup.
pub async fn guard() -> io::Result<u8> {
    let terminal = Terminal::save();
    let mut child = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .arg(format!("--{FLAG}={}", std::process::id()))
        .kill_on_drop(true)
        .spawn()?;
    let pid = child.id();
    let status = wait_for_end(&mut child).await?;
    if let Some(pid) = pid {
        node::clear_away(pid).await;
    }
    if let Some(code @ 0..=LAST_CODE) = status.code() {
        return Ok(u8::try_from(code).unwrap_or(FAILED));
    }
    terminal.restore();
    let ended = ended_by(status);
    writeln!(
        io::stderr(),
        "evictd: the demo {ended}; everything that it created is removed"
    )?;
    Ok(FAILED)
}

/// Passes the first request to stop to the child, which cleans up best by itself; the second one kills it.
async fn wait_for_end(child: &mut Child) -> io::Result<ExitStatus> {
    let mut stop = Stop::listen()?;
    select! {
        status = child.wait() => return status,
        () = stop.asked() => {}
    }
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        // The child was not waited for yet, so its id was not reused. If it has ended already, the wait below shows
        // that.
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
    select! {
        status = child.wait() => return status,
        () = stop.asked() => {}
        () = sleep(LONGEST_END) => {}
    }
    child.start_kill()?;
    child.wait().await
}

fn ended_by(status: ExitStatus) -> String {
    let signal = status.signal().and_then(|it| Signal::try_from(it).ok());
    match (signal, status.code()) {
        (Some(signal), _) => format!("was ended by {signal}"),
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// For the guarded process: ends it when its guardian ends.
pub fn be_guarded(guardian: i32) -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    if getppid() != Pid::from_raw(guardian) {
        return Err(io::Error::other(
            "the guardian process of the demo has ended",
        ));
    }
    Ok(())
}

/// Requests to stop: Ctrl-C, from a service manager, or because the terminal was closed.
pub struct Stop([tokio::signal::unix::Signal; 3]);

impl Stop {
    /// From now on these requests do not end the process by themselves.
    pub fn listen() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// Waits for a request to stop.
    pub async fn asked(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// The terminal's settings at start, if there is a terminal.
struct Terminal(Option<Termios>);

impl Terminal {
    fn save() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    fn restore(self) {
        if let Some(found) = self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &found);
        }
        if io::stdout().is_terminal() {
            let _ = write!(io::stdout(), "\r\n\x1b[0m\x1b[J\x1b[?25h")
                .and_then(|()| io::stdout().flush());
        }
    }
}
