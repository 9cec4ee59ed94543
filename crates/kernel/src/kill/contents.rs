//! The contents of a victim's cgroup right before its first signal.

use super::{CgroupEvictor, Victim, process};
use crate::cgroup::{Controller, GroupDir, Hierarchies, container_of, memberships, normalized};
use crate::threads::Pool;
use evictd_decision::record::{Contents, Holder, MemoryKinds};
use process::Stat;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A kill waits this long for its evidence.
const BUDGET: Duration = Duration::from_millis(2);
/// Processes are read for so long, which leaves time for their containers.
const READING: Duration = Duration::from_micros(1400);
/// How many processes a record has.
const LISTED: usize = 5;
/// A pod with more processes and threads is not listed, because the list alone would take too long.
const MOST_TASKS: u64 = 4096;
/// Digits of a container's id that tell containers apart.
const ID_DIGITS: usize = 12;
/// So much of a command line is read, and kept after escaping, in bytes.
const COMMAND_LINE: usize = 256;

/// Whether an earlier look still runs. Where reads hang, only one thread hangs with them.
static LOOKING: AtomicBool = AtomicBool::new(false);

impl CgroupEvictor {
    /// The processes and the memory of a pod. Takes 2 ms at most, and returns the part that was read by then; `None` if that
    /// is nothing. Under memory pressure each read may stall, so that another thread reads.
    ///
    /// `containers` are the ids of the pod's containers, or the names of their cgroups, with the names in the pod. An empty id
    /// stands for processes in the pod's cgroup itself. `command_lines` are read if asked for: arguments may be secrets.
    pub async fn contents(
        &self,
        victim: &Victim,
        containers: Vec<(String, String)>,
        command_lines: bool,
    ) -> Option<Contents> {
        let cgroup = normalized(&victim.cgroup)?;
        // A read that hangs keeps its thread, so that there is one at most.
        if LOOKING.swap(true, Ordering::Relaxed) {
            return None;
        }
        let found = Arc::new(Mutex::new(Contents::default()));
        let look = Look {
            hierarchies: self.hierarchies.clone(),
            proc_root: self.proc_root.clone(),
            cgroup,
            containers,
            command_lines,
            until: Instant::now() + READING,
            found: Arc::clone(&found),
        };
        let submitted = Pool::of_this_process().run(move || {
            look.all();
            LOOKING.store(false, Ordering::Relaxed);
        });
        match submitted {
            Ok(read) => drop(timeout(BUDGET, read).await),
            Err(_) => LOOKING.store(false, Ordering::Relaxed),
        }
        // The reader holds the lock for moments only, but it may be preempted in one of them.
        let contents = found.try_lock().ok()?.clone();
        (contents != Contents::default()).then_some(contents)
    }
}

struct Look {
    hierarchies: Hierarchies,
    proc_root: PathBuf,
    cgroup: PathBuf,
    containers: Vec<(String, String)>,
    command_lines: bool,
    until: Instant,
    /// The contents so far. A read that hangs later costs none of them.
    found: Arc<Mutex<Contents>>,
}

impl Look {
    fn all(&self) {
        let memory = self.dir(Controller::Memory);
        let usage = memory.as_ref().and_then(memory_usage);
        let count = self
            .dir(Controller::Pids)
            .and_then(|dir| dir.pids_current());
        self.note(|found| {
            found.unread = count;
            found.memory = usage.map(|bytes| MemoryKinds {
                usage: Some(bytes),
                ..MemoryKinds::default()
            });
        });
        // Where the kernel gives no count, there may be many thousands.
        if count.is_some_and(|count| count <= MOST_TASKS) {
            self.list();
        }
        // The last, because on a large machine the kernel may take long to add this up.
        if let Some(dir) = memory {
            let kinds = memory_kinds(&dir, usage);
            self.note(|found| found.memory = Some(kinds));
        }
    }

    fn note(&self, change: impl FnOnce(&mut Contents)) {
        change(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn dir(&self, controller: Controller) -> Option<GroupDir> {
        GroupDir::open(&self.hierarchies.dir(controller, &self.cgroup)?).ok()
    }

    fn list(&self) {
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
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.resident_bytes));
        holders.truncate(LISTED);
        self.note(|found| {
            found.unread = Some(unread);
            found.processes.clone_from(&holders);
        });
        for (place, holder) in holders.iter_mut().enumerate() {
            self.add_container(holder);
            if self.command_lines {
                holder.command_line = self.command_line(holder.pid);
            }
            self.note(|found| found.processes[place].clone_from(holder));
        }
    }

    /// The container by the cgroup of the process, which may be below that of its container.
    fn add_container(&self, holder: &mut Holder) {
        let file = self.proc_root.join(holder.pid.to_string()).join("cgroup");
        let text = fs::read(file).unwrap_or_default();
        for (controllers, group) in memberships(&text).flatten() {
            let group = self.hierarchies.absolute(controllers, group);
            let Ok(below) = group.strip_prefix(&self.cgroup) else {
                continue;
            };
            // Some hierarchies have no cgroups of the containers.
            let id = below.iter().next().and_then(container_of);
            let id = id.unwrap_or_default();
            let known = self.containers.iter().find(|(one, _)| *one == id);
            if let Some((_, name)) = known {
                holder.container_name = Some(name.clone());
            }
            if is_id(&id) {
                holder.container = Some(id.chars().take(ID_DIGITS).collect());
            }
            if !id.is_empty() {
                return;
            }
        }
    }

    /// The beginning of the command line, escaped.
    fn command_line(&self, pid: u32) -> Option<String> {
        let file = File::open(self.proc_root.join(pid.to_string()).join("cmdline")).ok()?;
        let mut bytes = Vec::new();
        let most = u64::try_from(COMMAND_LINE).ok()?;
        file.take(most).read_to_end(&mut bytes).ok()?;
        let is_cut = bytes.len() == COMMAND_LINE;
        let arguments = bytes.split(|byte| *byte == 0);
        let arguments = arguments.filter(|argument| !argument.is_empty());
        let shown = arguments.map(|one| String::from_utf8_lossy(one).escape_debug().to_string());
        let mut line = shown.collect::<Vec<_>>().join(" ");
        if is_cut || line.len() > COMMAND_LINE {
            line.truncate(line.floor_char_boundary(COMMAND_LINE));
            line.push_str("...");
        }
        (!line.is_empty()).then_some(line)
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn holder(pid: u32, stat: Stat, uptime: Option<f64>) -> Option<Holder> {
    let page = u64::try_from(rustix::param::page_size()).ok()?;
    let age = uptime.and_then(|uptime| stat.age(uptime));
    Some(Holder {
        pid,
        container: None,
        container_name: None,
        command_line: None,
        resident_bytes: stat.resident_pages?.saturating_mul(page),
        threads: stat.threads,
        age_seconds: age.and_then(|age| u64::try_from(age.as_secs()).ok()),
        name: stat.name,
    })
}

fn text(dir: &GroupDir, name: &str) -> Option<String> {
    let text = dir.read(name).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn number(dir: &GroupDir, name: &str) -> Option<u64> {
    text(dir, name)?.trim().parse().ok()
}

/// By the name that cgroup v2 has, then that of v1.
fn memory_usage(dir: &GroupDir) -> Option<u64> {
    number(dir, "memory.current").or_else(|| number(dir, "memory.usage_in_bytes"))
}

/// Kinds of memory by the names that cgroup v2 has, then those that v1 has for a cgroup with all below it.
fn memory_kinds(dir: &GroupDir, usage: Option<u64>) -> MemoryKinds {
    let stat = text(dir, "memory.stat").unwrap_or_default();
    let of = |name: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        let (_, bytes) = lines.find(|(key, _)| *key == name)?;
        bytes.parse().ok()
    };
    MemoryKinds {
        usage,
        anon: of("anon").or_else(|| of("total_rss")),
        file: of("file").or_else(|| of("total_cache")),
        // cgroup v1 has `shmem`, too, without the cgroups below.
        shmem: of("total_shmem").or_else(|| of("shmem")),
        kernel: of("kernel").or_else(|| number(dir, "memory.kmem.usage_in_bytes")),
        swap: number(dir, "memory.swap.current").or_else(|| of("total_swap")),
    }
}
