//! What tests share.

#[path = "../tests/support/left_out.rs"]
mod left_out;

pub(crate) use left_out::left_out;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Waits for a condition, for 10 s at most.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let clock = crate::clock::Clock::start();
    let deadline = clock.now() + jiff::SignedDuration::from_secs(10);
    while !condition() {
        assert!(clock.now() < deadline, "waited 10 s in vain until {what}");
        std::thread::yield_now();
    }
}

/// Runs `test` with a tmpfs mounted at `at`, which nobody else sees and which goes with its thread.
pub(crate) fn with_tmpfs(
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
pub(crate) fn logged(test: impl FnOnce()) -> String {
    let mut lines = tempfile::tempfile().unwrap();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(Arc::new(lines.try_clone().unwrap()))
        .finish();
    tracing::subscriber::with_default(subscriber, test);
    lines.rewind().unwrap();
    std::io::read_to_string(lines).unwrap()
}
