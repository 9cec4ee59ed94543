//! What held the memory of a pod is read before its end, and never delays that end.

use crate::cgroup_support::{TestCgroup, left_out};
use crate::evictor_support::{evictor, victim};
use evictd_decision::record::Contents;
use evictd_kernel::kill::CgroupEvictor;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use tokio::time::Instant;

/// Holds 40 MB; its child holds next to nothing.
const HOLDER: &str =
    "sleep 600 & held=$(head -c 40000000 /dev/zero | tr '\\0' x); echo ready; wait";
/// A kill waits 2 ms for its evidence; the rest is for a busy machine, on which a try may still take longer.
const LONGEST: Duration = Duration::from_millis(100);

fn containers() -> Vec<(String, String)> {
    vec![("app".to_owned(), "web".to_owned())]
}

/// A busy machine may take longer than a kill waits, so that there are several tries.
async fn eventually_some<T>(mut read: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(found) = read().await {
            return found;
        }
        // The thread that reads may need this processor.
        std::thread::yield_now();
    }
    panic!("never read in time");
}

async fn read(
    group: &TestCgroup,
    command_lines: bool,
    is_enough: impl Fn(&Contents) -> bool,
) -> Contents {
    let evictor = evictor(group);
    eventually_some(async || {
        let contents = evictor
            .contents(&victim(group), containers(), command_lines)
            .await;
        contents.filter(&is_enough)
    })
    .await
}

#[tokio::test]
async fn what_held_the_memory_is_known_before_the_kill() {
    let test = "what_held_the_memory_is_known_before_the_kill";
    let Some(mut group) = TestCgroup::new(test, &["memory", "pids"]) else {
        return left_out(test, "no cgroups with memory and pids");
    };
    group.script("pod/app", HOLDER);
    let is_all = |contents: &Contents| {
        let memory = contents.memory.as_ref();
        contents.unread == Some(0) && memory.is_some_and(|memory| memory.anon.is_some())
    };
    let contents = read(&group, false, is_all).await;
    let held = contents.processes.iter().map(|one| one.resident_bytes);
    let held: Vec<u64> = held.collect();
    assert!(held.len() >= 2 && held[0] > 40_000_000, "{contents:?}");
    assert!(
        held.is_sorted_by(|one, next| one >= next) && held[1] < 20_000_000,
        "{contents:?}"
    );
    let memory = contents.memory.clone().unwrap();
    assert!(memory.anon.unwrap() > 40_000_000 && memory.usage >= memory.anon);
    let first = &contents.processes[0];
    assert_eq!(first.container_name.as_deref(), Some("web"));
    assert_eq!(first.command_line, None);
    let words = contents.largest().unwrap();
    assert!(words.ends_with(" in container web"), "{words}");
    let has_line = |contents: &Contents| {
        let mut lines = contents
            .processes
            .iter()
            .filter_map(|one| one.command_line.as_ref());
        is_all(contents) && lines.any(|line| line.contains("sleep 600"))
    };
    let contents = read(&group, true, has_line).await;
    let lines = contents
        .processes
        .iter()
        .filter_map(|one| one.command_line.as_ref());
    // A line break in an argument would forge a line of the log.
    assert!(
        lines
            .clone()
            .all(|line| line.len() < 300 && !line.contains('\n')),
        "{contents:?}"
    );
}

/// A `/proc` in which reading the state of one process hangs.
#[tokio::test]
async fn a_read_that_hangs_costs_neither_the_kill_nor_the_rest() {
    let test = "a_read_that_hangs_costs_neither_the_kill_nor_the_rest";
    let Some(mut group) = TestCgroup::new(test, &["memory", "pids"]) else {
        return left_out(test, "no cgroups with memory and pids");
    };
    let pid = group.script("pod/app", "echo ready; exec sleep 600");
    let proc_root = tempfile::tempdir().unwrap();
    let process = proc_root.path().join(pid.to_string());
    fs::create_dir(&process).unwrap();
    let pipe = process.join("stat");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let end_read = || {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
        options.open(&pipe).is_ok()
    };
    let in_a_hanging_proc = CgroupEvictor {
        proc_root: proc_root.path().to_owned(),
        ..evictor(&group)
    };
    let as_usual = evictor(&group);
    let pod = victim(&group);
    let tried = eventually_some(async || {
        let began = Instant::now();
        let contents = in_a_hanging_proc.contents(&pod, containers(), false).await;
        // While that read hangs, no other is begun, and a kill waits for nothing.
        let again = as_usual.contents(&pod, containers(), false).await;
        let took = began.elapsed();
        // On a busy machine the time may be over before the pipe is opened.
        let has_hung = end_read();
        Some((contents.filter(|_| has_hung && took < LONGEST)?, again))
    });
    let (contents, again) = tried.await;
    assert!(
        contents.memory.is_some() && contents.processes.is_empty() && contents.unread != Some(0),
        "{contents:?}"
    );
    assert_eq!(again, None);
}
