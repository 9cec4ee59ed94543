//! A tracer that makes single system calls of a running program fail.
//!
//! It stops every thread at each call (`ptrace`), tells what the call is about, and where the plan says so has the kernel
//! leave the call out and the program see an error.

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// The numbers of the calls that a kill is made of, and where the path or the descriptor is that they are about.
const CALLS: [(u64, &str, About); 13] = [
    (0, "read", About::File),
    (1, "write", About::File),
    (17, "pread64", About::File),
    (20, "writev", About::File),
    (44, "sendto", About::File),
    (45, "recvfrom", About::File),
    (47, "recvmsg", About::File),
    (217, "getdents64", About::File),
    (257, "openat", About::Path),
    (262, "newfstatat", About::Path),
    (332, "statx", About::Path),
    (424, "pidfd_send_signal", About::Process),
    (434, "pidfd_open", About::Id),
];
/// `PTRACE_SYSCALL_INFO_ENTRY` and `_EXIT`.
const ENTRY: u8 = 1;
const EXIT: u8 = 2;

#[derive(Clone, Copy)]
enum About {
    /// A descriptor.
    File,
    /// A directory's descriptor and a path from there.
    Path,
    /// A descriptor of a process.
    Process,
    /// A process id.
    Id,
}

/// What is watched, and what is to fail.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Directories at and below which files matter.
    pub(crate) below: Vec<PathBuf>,
    /// Processes that matter.
    pub(crate) pids: BTreeSet<u32>,
    /// Whether TCP connections matter.
    pub(crate) connections: bool,
    /// Whether connections to a socket of this machine matter, such as the container runtime's.
    pub(crate) local_connections: bool,
    /// Which of the calls that matter fail, and how.
    pub(crate) plan: Option<Plan>,
    /// The calls that mattered so far.
    pub(crate) seen: Vec<String>,
}

/// Which calls fail, and how.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Counted from the beginning of the watch.
    pub(crate) calls: Range<usize>,
    /// Only those of this name.
    pub(crate) only: Option<&'static str>,
    pub(crate) errno: Errno,
}

/// A program under watch, until it ends.
pub(crate) struct Tracer {
    watch: Arc<Mutex<Option<Watch>>>,
    thread: Option<JoinHandle<()>>,
}

impl Tracer {
    /// Takes hold of all threads of this process, and of those that they start.
    pub(crate) fn attach(pid: u32) -> io::Result<Self> {
        let watch = Arc::<Mutex<Option<Watch>>>::default();
        let shared = Arc::clone(&watch);
        let (attached, has_attached) = mpsc::channel();
        let thread = thread::spawn(move || {
            let held = seize_all(pid);
            let is_held = held.is_ok();
            let _ = attached.send(held);
            if is_held {
                follow(pid, &shared);
            }
        });
        has_attached.recv().expect("the tracer says how it went")?;
        Ok(Self {
            watch,
            thread: Some(thread),
        })
    }

    pub(crate) fn begin(&self, watch: Watch) {
        *self.watch.lock().unwrap() = Some(watch);
    }

    /// Ends the watch; what came of it.
    pub(crate) fn end(&self) -> Watch {
        self.watch.lock().unwrap().take().unwrap_or_default()
    }
}

impl Drop for Tracer {
    /// Returns once the program has ended.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn seize_all(pid: u32) -> io::Result<()> {
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_TRACECLONE;
    let mut held = BTreeSet::new();
    loop {
        let mut found_another = false;
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let name = task?.file_name();
            let id: i32 = name.to_string_lossy().parse().map_err(io::Error::other)?;
            if held.insert(id) {
                found_another = true;
                ptrace::seize(Pid::from_raw(id), options)?;
                ptrace::interrupt(Pid::from_raw(id))?;
            }
        }
        if !found_another {
            return Ok(());
        }
    }
}

/// Follows the threads until none is left.
fn follow(pid: u32, watch: &Mutex<Option<Watch>>) {
    let memory = File::open(format!("/proc/{pid}/mem")).ok();
    let mut to_fail = BTreeMap::new();
    let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
    loop {
        let (thread, signal) = match waitpid(None, Some(flags)) {
            Ok(WaitStatus::PtraceSyscall(thread)) => {
                stopped_at_call(thread, pid, memory.as_ref(), watch, &mut to_fail);
                (thread, None)
            }
            Ok(WaitStatus::PtraceEvent(thread, _, _)) => (thread, None),
            Ok(WaitStatus::Stopped(thread, signal)) => (thread, Some(signal)),
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(_) => return,
        };
        // It may have been killed meanwhile.
        let _ = ptrace::syscall(thread, signal);
    }
}

fn stopped_at_call(
    thread: Pid,
    pid: u32,
    memory: Option<&File>,
    watch: &Mutex<Option<Watch>>,
    to_fail: &mut BTreeMap<Pid, Errno>,
) {
    let Ok(op) = ptrace::syscall_info(thread).map(|info| info.op) else {
        return;
    };
    let Ok(mut registers) = ptrace::getregs(thread) else {
        return;
    };
    if op == EXIT {
        if let Some(errno) = to_fail.remove(&thread) {
            registers.rax = i64::from(errno as i32).wrapping_neg().cast_unsigned();
            let _ = ptrace::setregs(thread, registers);
        }
        return;
    }
    let mut watch = watch.lock().unwrap();
    let Some(watch) = watch.as_mut().filter(|_| op == ENTRY) else {
        return;
    };
    let call = CALLS
        .iter()
        .find(|(number, ..)| *number == registers.orig_rax);
    let Some((_, name, about)) = call else {
        return;
    };
    let descriptor = |number: u64| fs::read_link(format!("/proc/{pid}/fd/{number}"));
    let what = match about {
        About::File => descriptor(registers.rdi).ok(),
        About::Path => {
            let path = memory.and_then(|memory| text_at(memory, registers.rsi));
            // The directory's descriptor counts where the path begins with nothing.
            path.map(|path| {
                descriptor(registers.rdi & 0xffff_ffff)
                    .unwrap_or_default()
                    .join(path)
            })
        }
        About::Process => Some("/".into()),
        About::Id => Some(format!("/proc/{}", registers.rdi).into()),
    };
    let about_a_process = matches!(about, About::Process);
    let Some(what) = what.filter(|what| about_a_process || watch.matters(what)) else {
        return;
    };
    if watch.fails(format!("{name} {}", watch.short(&what))) {
        let errno = watch.plan.as_ref().map_or(Errno::EIO, |plan| plan.errno);
        if errno == Errno::EAGAIN && is_socket(&what) {
            // The kernel says so only when it reports later that the connection is ready. Whoever waits for that report
            // would wait in vain.
            return;
        }
        to_fail.insert(thread, errno);
        registers.orig_rax = u64::MAX;
        let _ = ptrace::setregs(thread, registers);
    }
}

/// The text that ends with a zero there.
fn text_at(memory: &File, address: u64) -> Option<PathBuf> {
    let mut text = Vec::new();
    let mut piece = [0; 64];
    while text.len() < 4096 {
        let address = address + u64::try_from(text.len()).ok()?;
        // Never over the end of a page, where the next may be none.
        let left = usize::try_from(4096 - address % 4096)
            .ok()?
            .min(piece.len());
        memory.read_exact_at(&mut piece[..left], address).ok()?;
        let end = piece[..left].iter().position(|byte| *byte == 0);
        text.extend_from_slice(&piece[..end.unwrap_or(left)]);
        if end.is_some() {
            break;
        }
    }
    Some(PathBuf::from(OsStr::from_bytes(&text)))
}

fn is_socket(what: &Path) -> bool {
    what.to_string_lossy().starts_with("socket:")
}

/// `socket` is as in `/proc/PID/fd`: `socket:[12345]`.
fn is_tcp(socket: &Path) -> bool {
    let socket = socket.to_string_lossy();
    let inode = socket.trim_start_matches("socket:[").trim_end_matches(']');
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let mut inodes = table
        .lines()
        .filter_map(|line| line.split_whitespace().nth(9));
    inodes.any(|other| other == inode)
}

/// Whether it is this machine's and ours is the end without a name, which is that of a client.
fn is_local_client(socket: &Path) -> bool {
    let socket = socket.to_string_lossy();
    let inode = socket.trim_start_matches("socket:[").trim_end_matches(']');
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut lines = table.lines().map(str::split_whitespace);
    lines.any(|mut fields| fields.nth(6) == Some(inode) && fields.next().is_none())
}

impl Watch {
    /// Notes a call; whether it is to fail.
    fn fails(&mut self, call: String) -> bool {
        let number = self.seen.len();
        let fails = self.plan.as_ref().is_some_and(|plan| {
            let is_planned = plan.calls.contains(&number);
            is_planned && plan.only.is_none_or(|name| call.starts_with(name))
        });
        self.seen.push(call);
        fails
    }

    fn matters(&self, what: &Path) -> bool {
        if is_socket(what) {
            return (self.connections && is_tcp(what))
                || (self.local_connections && is_local_client(what));
        }
        // What a pod uses is read for the decision, not for the kill.
        let name = what.file_name().unwrap_or_default().as_bytes();
        let is_usage = [&b"memory."[..], b"blkio.", b"io.", b"cpuacct."];
        if is_usage.iter().any(|prefix| name.starts_with(prefix)) {
            return false;
        }
        self.below.iter().any(|dir| what.starts_with(dir)) || self.process_of(what).is_some()
    }

    fn process_of<'a>(&self, what: &'a Path) -> Option<&'a Path> {
        let below = what.strip_prefix("/proc").ok()?;
        let pid = below.iter().next()?.to_str()?.parse().ok()?;
        self.pids.contains(&pid).then_some(below)
    }

    /// The same without what differs from one pod to the next.
    fn short(&self, what: &Path) -> String {
        if is_socket(what) {
            return "connection".to_owned();
        }
        if let Some(below) = self.process_of(what) {
            let file = below.iter().skip(1).collect::<PathBuf>();
            return format!("process/{}", file.display());
        }
        let group = self
            .below
            .iter()
            .find_map(|dir| what.strip_prefix(dir).ok().map(|rest| (dir, rest)));
        group.map_or_else(String::new, |(dir, rest)| {
            let hierarchy = dir.iter().nth(4).unwrap_or_default().to_string_lossy();
            format!("{hierarchy}/{}", rest.display())
        })
    }
}
