//! The contents of a victim's cgroup right before its first signal.

use super::process::{self, Stat};
use crate::cgroup::{Controller, GroupDir, Hierarchies, container_of, memberships};
use crate::threads::Pool;
use evictd_decision::record::{Contents, Holder, MemoryKinds};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A kill waits this long for its evidence.
const BUDGET: Duration = Duration::from_millis(2);
/// How many processes a record has.
const LISTED: usize = 5;
/// A pod with more processes and threads is not listed, because the list alone would take too long.
const MOST_TASKS: u64 = 256;
/// Digits of a container's id that tell containers apart.
const ID_DIGITS: usize = 12;

/// Whether an earlier look still runs. Where reads hang, only one thread hangs with them.
static LOOKING: AtomicBool = AtomicBool::new(false);

/// The processes and the memory of a cgroup; `None` if they could not be read in time. Under memory pressure each read may stall, so that
/// another thread reads.
pub(super) async fn contents(
    hierarchies: &Hierarchies,
    proc_root: &Path,
    cgroup: &Path,
) -> Option<Contents> {
    // A read that hangs keeps its thread, so that there is one at most.
    if LOOKING.swap(true, Ordering::Relaxed) {
        return None;
    }
    let look = Look {
        hierarchies: hierarchies.clone(),
        proc_root: proc_root.to_owned(),
        cgroup: cgroup.to_owned(),
        until: Instant::now() + BUDGET,
    };
    let submitted = Pool::of_this_process().run(move || {
        let contents = look.contents();
        LOOKING.store(false, Ordering::Relaxed);
        contents
    });
    let Ok(read) = submitted else {
        LOOKING.store(false, Ordering::Relaxed);
        return None;
    };
    timeout(BUDGET, read).await.ok()?.ok()
}

struct Look {
    hierarchies: Hierarchies,
    proc_root: PathBuf,
    cgroup: PathBuf,
    until: Instant,
}

impl Look {
    fn contents(&self) -> Contents {
        let memory = self.dir(Controller::Memory).map(|dir| memory_kinds(&dir));
        let count = self
            .dir(Controller::Pids)
            .and_then(|dir| dir.pids_current());
        let mut contents = Contents {
            memory,
            unread: count,
            ..Contents::default()
        };
        // Where the kernel gives no count, there may be many thousands.
        if count.is_some_and(|count| count <= MOST_TASKS) {
            self.list(&mut contents);
        }
        contents
    }

    fn dir(&self, controller: Controller) -> Option<GroupDir> {
        GroupDir::open(&self.hierarchies.dir(controller, &self.cgroup)?).ok()
    }

    fn list(&self, contents: &mut Contents) {
        let directory = self.hierarchies.process_directory(&self.cgroup);
        let Some(dir) = directory.ok().and_then(|path| GroupDir::open(&path).ok()) else {
            return;
        };
        let (pids, _) = dir.processes();
        let uptime = process::uptime(&self.proc_root);
        let (mut holders, mut unread) = (Vec::new(), 0);
        for pid in pids {
            let in_time = Instant::now() < self.until;
            let stat = in_time.then(|| Stat::read(&self.proc_root, pid).ok().flatten());
            match stat.flatten() {
                Some(stat) if stat.is_alive() => holders.extend(holder(pid, stat, uptime)),
                // It has ended already.
                Some(_) => {}
                None => unread += 1,
            }
        }
        contents.unread = Some(unread);
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.resident_bytes));
        holders.truncate(LISTED);
        for holder in &mut holders {
            holder.container = self.container(holder.pid);
        }
        contents.processes = holders;
    }

    fn container(&self, pid: u32) -> Option<String> {
        let text = fs::read(self.proc_root.join(pid.to_string()).join("cgroup")).ok()?;
        memberships(&text).flatten().find_map(|(_, group)| {
            let id = container_of(group.file_name()?)?;
            let is_id = id.len() == 64 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_id.then(|| id.chars().take(ID_DIGITS).collect())
        })
    }
}

fn holder(pid: u32, stat: Stat, uptime: Option<f64>) -> Option<Holder> {
    let page = u64::try_from(rustix::param::page_size()).ok()?;
    let age = uptime.and_then(|uptime| stat.age(uptime));
    Some(Holder {
        pid,
        container: None,
        resident_bytes: stat.resident_pages?.saturating_mul(page),
        threads: stat.threads,
        age_seconds: age.and_then(|age| u64::try_from(age.as_secs()).ok()),
        name: stat.name,
    })
}

/// Kinds of memory by the names that cgroup v2 has, then those that v1 has for a cgroup with all below it.
fn memory_kinds(dir: &GroupDir) -> MemoryKinds {
    let read = |name| {
        dir.read(name)
            .ok()
            .map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let stat = read("memory.stat").unwrap_or_default();
    let of = |name: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        let (_, bytes) = lines.find(|(key, _)| *key == name)?;
        bytes.parse().ok()
    };
    let file = |name| read(name).and_then(|text| text.trim().parse().ok());
    MemoryKinds {
        anon: of("anon").or_else(|| of("total_rss")),
        file: of("file").or_else(|| of("total_cache")),
        // cgroup v1 has `shmem`, too, without the cgroups below.
        shmem: of("total_shmem").or_else(|| of("shmem")),
        kernel: of("kernel").or_else(|| file("memory.kmem.usage_in_bytes")),
        swap: file("memory.swap.current").or_else(|| of("total_swap")),
    }
}
