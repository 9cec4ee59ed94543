//! Helpers that tests share.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "in a test a panic is the report"
)]

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Reports on stderr that this test cannot run here. It bypasses the test harness, which hides the output of a passing test.
pub fn left_out(name: &str, why: impl std::fmt::Display) {
    // In one piece, since other tests write there too.
    let line = format!("LEFT OUT {name}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The pause between two looks at a condition, so that the processor is left to what is waited for.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);

/// Waits for a condition, for 30 s at most: a busy machine may need more than ten.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(
            Instant::now() < deadline,
            "waited 30 s in vain until {what}"
        );
        std::thread::park_timeout(PAUSE);
    }
}

/// Runs `test` with a tmpfs mounted at `at` in a mount namespace of its own thread, with which the tmpfs ends.
pub fn with_tmpfs(
    name: &str,
    at: PathBuf,
    kibibytes: u32,
    test: impl FnOnce(&Path) + Send + 'static,
) {
    let mounted = move || -> nix::Result<PathBuf> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let (nothing, private) = (None::<&str>, MsFlags::MS_PRIVATE | MsFlags::MS_REC);
        mount(nothing, "/", nothing, private, nothing)?;
        let size = format!("size={kibibytes}k");
        mount(
            Some("tmpfs"),
            &at,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(size.as_str()),
        )?;
        Ok(at)
    };
    let name = name.to_owned();
    let thread = std::thread::spawn(move || match mounted() {
        Ok(at) => test(&at),
        Err(errno) => left_out(&name, format!("cannot mount a tmpfs of its own: {errno}")),
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// The log lines that `test` writes, as a file has them.
pub fn logged(test: impl FnOnce()) -> String {
    let mut lines = tempfile::tempfile().unwrap();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(Arc::new(lines.try_clone().unwrap()))
        .finish();
    tracing::subscriber::with_default(subscriber, test);
    lines.rewind().unwrap();
    std::io::read_to_string(lines).unwrap()
}
