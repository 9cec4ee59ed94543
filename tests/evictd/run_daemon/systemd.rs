//! What the service manager hears, and what probes see.

use crate::daemon::{Daemon, wait};
use crate::node::{EVICTD, Node};
use nix::sys::signal::Signal;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::process::Command;

/// The service manager's socket.
struct Manager {
    path: PathBuf,
    socket: UnixDatagram,
    messages: Vec<String>,
}

impl Manager {
    fn of(node: &Node) -> Self {
        let path = node.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self {
            path,
            socket,
            messages: Vec::new(),
        }
    }

    fn hear(&mut self) {
        let mut buffer = [0; 512];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            let message = String::from_utf8_lossy(&buffer[..length]);
            self.messages.push(message.into_owned());
        }
    }

    /// Waits for a message with these words, and forgets it and all before it.
    fn listen_for(&mut self, words: &str) {
        let came = wait(|| {
            self.hear();
            let found = |message: &String| message.contains(words);
            let found = self.messages.iter().position(found);
            found.is_some_and(|index| self.messages.drain(..=index).count() > 0)
        });
        assert!(came, "{words} was not heard: {:?}", self.messages);
    }
}

#[test]
fn systemd_is_notified_of_readiness_life_reload_and_end() {
    let Some(node) = Node::new("systemd_hears_that_it_is_ready") else {
        return;
    };
    let mut manager = Manager::of(&node);
    let mut command = Command::new(EVICTD);
    command
        .env("NOTIFY_SOCKET", &manager.path)
        .env("WATCHDOG_USEC", "1000000");
    let lines = "housekeepingInterval: 1h";
    let mut daemon = Daemon::start_by(&node, command, &[("memory.available", "1Mi")], lines);
    manager.listen_for("READY=1");
    // Fed again and again although the loop might sleep for an hour.
    for _ in 0..3 {
        manager.listen_for("WATCHDOG=1");
    }
    for page in ["/livez", "/readyz"] {
        assert_eq!(daemon.page(page), ("200".to_owned(), "ok\n".to_owned()));
    }
    daemon.signal(Signal::SIGHUP);
    manager.listen_for("RELOADING=1\nMONOTONIC_USEC=");
    manager.listen_for("READY=1");
    manager.listen_for("WATCHDOG=1");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
    manager.listen_for("STOPPING=1");
}

#[test]
fn sigterm_during_the_start_ends_the_agent_like_any_other_run() {
    let Some(node) = Node::new("sigterm_during_the_start") else {
        return;
    };
    let mut manager = Manager::of(&node);
    let mut command = Command::new(EVICTD);
    command.env("NOTIFY_SOCKET", &manager.path);
    // A container runtime that does not answer, for which the start waits.
    let socket = node.path("cri.sock");
    let runtime = UnixListener::bind(&socket).unwrap();
    runtime.set_nonblocking(true).unwrap();
    let lines = format!("containerRuntimeEndpoint: unix://{}", socket.display());
    let mut daemon = Daemon::spawn(&node, command, &[("memory.available", "1Mi")], &lines);
    let mut connection = None;
    let asked = wait(|| {
        connection = runtime.accept().ok();
        connection.is_some()
    });
    assert!(asked, "the start asks the container runtime");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
    manager.listen_for("STOPPING=1");
    assert_eq!(daemon.said(" has stopped"), 1);
}
