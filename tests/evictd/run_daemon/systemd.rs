//! What the service manager hears, and what probes see.

use crate::daemon::{Daemon, wait};
use crate::node::{EVICTD, Node};
use nix::sys::signal::Signal;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

#[test]
fn systemd_hears_that_it_is_ready_lives_reloads_and_ends() {
    let Some(node) = Node::new("systemd_hears_that_it_is_ready") else {
        return;
    };
    let path = node.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut messages = Vec::new();
    let mut listen_for = |words: &str| {
        let came = wait(|| {
            let mut buffer = [0; 512];
            while let Ok(length) = socket.recv(&mut buffer) {
                messages.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
            let found = messages.iter().position(|message| message.contains(words));
            // What was heard before that is of no interest any more, what came after it is.
            found.is_some_and(|index| messages.drain(..=index).count() > 0)
        });
        assert!(came, "{words} was not heard: {messages:?}");
    };
    let mut command = Command::new(EVICTD);
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "1000000");
    let lines = "housekeepingInterval: 1h";
    let mut daemon = Daemon::start_by(&node, command, &[("memory.available", "1Mi")], lines);
    listen_for("READY=1");
    // Fed again and again although the loop might sleep for an hour.
    for _ in 0..3 {
        listen_for("WATCHDOG=1");
    }
    for page in ["/livez", "/readyz"] {
        assert_eq!(daemon.page(page), ("200".to_owned(), "ok\n".to_owned()));
    }
    daemon.signal(Signal::SIGHUP);
    listen_for("RELOADING=1\nMONOTONIC_USEC=");
    listen_for("READY=1");
    listen_for("WATCHDOG=1");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
    listen_for("STOPPING=1");
}
