//! One process: its state according to the kernel, and signals that cannot hit another process.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use jiff::SignedDuration;
use procfs::{FromRead, Uptime};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::KillError;
use crate::cgroup::{CgroupError, Controller, Hierarchies, memberships};

/// The fields of `/proc/PID/stat` that evictd needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: String,
    pub(super) state: char,
    /// Start time in clock ticks since boot.
    pub(super) started: u64,
    pub(super) threads: u64,
    /// Pages of memory that it holds.
    pub(super) resident_pages: Option<u64>,
    flags: u64,
}

/// The kernel's flag for a process that is exiting.
const PF_EXITING: u64 = 0x4;

impl Stat {
    /// Reads a process's line; `None` if the process has exited or is hidden.
    pub(super) fn read(proc_root: &Path, pid: u32) -> Result<Option<Self>, CgroupError> {
        let path = proc_root.join(pid.to_string()).join("stat");
        let Some(line) = gone_is_none(fs::read(&path), &path)? else {
            return Ok(None);
        };
        // A process sets its own name, so the line need not be UTF-8.
        let line = String::from_utf8_lossy(&line);
        match Self::parse(&line) {
            Some(stat) => Ok(Some(stat)),
            None => Err(CgroupError::Malformed {
                path,
                line: line.into_owned(),
            }),
        }
    }

    /// procfs's own parser is not used because it panics on a line that it does not expect.
    fn parse(line: &str) -> Option<Self> {
        // The name may contain anything, including closing brackets and spaces.
        let (head, tail) = line.rsplit_once(')')?;
        let mut fields = tail.split_ascii_whitespace();
        Some(Self {
            name: head.split_once('(')?.1.to_owned(),
            state: fields.next()?.chars().next()?,
            flags: fields.nth(5)?.parse().ok()?,
            threads: fields.nth(10)?.parse().ok()?,
            started: fields.nth(1)?.parse().ok()?,
            resident_pages: fields.nth(1).and_then(|pages| pages.parse().ok()),
        })
    }

    /// How long it has run, `uptime` seconds after the boot.
    pub(super) fn age(&self, uptime: f64) -> Option<SignedDuration> {
        #[allow(clippy::cast_precision_loss, reason = "clock ticks since boot")]
        let started = self.started as f64 / rustix::param::clock_ticks_per_second() as f64;
        SignedDuration::try_from_secs_f64(uptime - started).ok()
    }

    /// Whether it still runs or holds memory. If the first thread of a process exits before the others, the process
    /// looks like a zombie but is not.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.threads > 1
    }

    /// Whether it is exiting: it may hold memory for a while, and cgroup v1 shows it in the root cgroup.
    pub(super) fn is_exiting(&self) -> bool {
        self.flags & PF_EXITING != 0
    }
}

/// The seconds since the boot.
pub(super) fn uptime(proc_root: &Path) -> Option<f64> {
    let uptime = Uptime::from_file(proc_root.join("uptime")).ok()?;
    Some(uptime.uptime)
}

/// Whether a process is in a cgroup or below it, in one hierarchy: a v1 controller's, or (`None`) the cgroup2 tree.
/// The result is `None` if `/proc` does not show the process.
pub(super) fn is_member(
    hierarchies: &Hierarchies,
    proc_root: &Path,
    pid: u32,
    hierarchy: Option<Controller>,
    cgroup: &Path,
) -> Result<Option<bool>, CgroupError> {
    let path = proc_root.join(pid.to_string()).join("cgroup");
    // A process that has ended is a member of nothing, which is not an error.
    let Some(text) = gone_is_none(fs::read(&path), &path)? else {
        return Ok(None);
    };
    let wanted = hierarchy.map_or("", Controller::as_str);
    for membership in memberships(&text) {
        let (controllers, group) = membership.map_err(|line| CgroupError::Malformed {
            path: path.clone(),
            line,
        })?;
        if controllers.split(',').any(|name| name == wanted) {
            let within = hierarchies.absolute(controllers, group).starts_with(cgroup);
            return Ok(Some(within));
        }
    }
    Ok(Some(false))
}

fn failed(pid: u32) -> impl Fn(Errno) -> KillError {
    move |errno| KillError::Signal {
        pid,
        source: errno.into(),
    }
}

/// Opens a pidfd of the process that has this id now; `None` if there is none.
fn open_pidfd(pid: u32) -> Result<Option<OwnedFd>, KillError> {
    let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(None);
    };
    match pidfd_open(id, PidfdFlags::empty()) {
        Err(Errno::SRCH) => Ok(None),
        opened => opened.map(Some).map_err(failed(pid)),
    }
}

/// Whether a process that `/proc` does not show is alive: a pidfd can be opened for a hidden process (`hidepid`),
/// and the pidfd of an exited one is readable.
pub(super) fn can_be_opened_alive(pid: u32) -> Result<bool, KillError> {
    let Some(pidfd) = open_pidfd(pid)? else {
        return Ok(false);
    };
    let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let found = poll(&mut ended, Some(&at_once)).map_err(failed(pid))?;
    Ok(found == 0)
}

/// Opens a pidfd of `pid`, and sends the signal if `is_same` still confirms the process after that, so that a
/// reused id is never hit. Returns whether the signal was sent.
pub(super) fn signal_if(
    pid: u32,
    signal: Signal,
    is_same: impl FnOnce() -> Result<bool, KillError>,
) -> Result<bool, KillError> {
    let Some(pidfd) = open_pidfd(pid)? else {
        return Ok(false);
    };
    if !is_same()? {
        return Ok(false);
    }
    match pidfd_send_signal(pidfd, signal) {
        Err(Errno::SRCH) => Ok(false),
        sent => sent.map(|()| true).map_err(failed(pid)),
    }
}

fn gone_is_none<T>(read: io::Result<T>, path: &Path) -> Result<Option<T>, CgroupError> {
    match read {
        Ok(content) => Ok(Some(content)),
        // ESRCH: it exited between open and read. With `hidepid=1` the read is not permitted.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) || error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
        {
            Ok(None)
        }
        Err(source) => Err(CgroupError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const SLEEPING: &str =
        "77 (a) b (c) S 1 77 77 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 3 0 5150 1000 9 184467";

    #[test]
    fn a_stat_line_is_read_whatever_the_process_calls_itself() {
        let stat = Stat::parse(SLEEPING).unwrap();
        assert_eq!(stat.name, "a) b (c");
        assert_eq!((stat.state, stat.threads, stat.started), ('S', 3, 5150));
        assert!(!stat.is_exiting());
        let exiting = SLEEPING.replace("4194304", "4194308");
        assert!(Stat::parse(&exiting).unwrap().is_exiting());
    }

    #[test]
    fn a_zombie_is_dead_only_without_other_threads() {
        let with_threads = SLEEPING.replace(" S ", " Z ");
        assert!(Stat::parse(&with_threads).unwrap().is_alive());
        let alone = with_threads.replace(" 20 0 3 0 ", " 20 0 1 0 ");
        assert!(!Stat::parse(&alone).unwrap().is_alive());
        assert!(Stat::parse(SLEEPING).unwrap().is_alive());
    }

    #[test]
    fn a_missing_process_is_none_and_rubbish_is_an_error() {
        let proc_root = tempfile::tempdir().unwrap();
        assert_eq!(Stat::read(proc_root.path(), 7).unwrap(), None);
        fs::create_dir(proc_root.path().join("7")).unwrap();
        for rubbish in [
            "",
            ")",
            "7 (x",
            "(x) ",
            "7 (x) S 1 2",
            "7 (x) S 1 2 3 4 5 0 7 8 9 10 11 12 13 14 15 16 x 18 y",
        ] {
            fs::write(proc_root.path().join("7/stat"), rubbish).unwrap();
            let error = Stat::read(proc_root.path(), 7).unwrap_err();
            assert!(matches!(error, CgroupError::Malformed { .. }), "{rubbish}");
        }
        fs::write(
            proc_root.path().join("7/stat"),
            b"7 (\xff) S 1 2 3 4 5 0 7 8 9 10 11 12 13 14 15 16 1 0 99 1",
        )
        .unwrap();
        assert_eq!(
            Stat::read(proc_root.path(), 7).unwrap().unwrap().started,
            99
        );
    }

    #[test]
    fn membership_is_by_hierarchy_and_whole_path_components() {
        let proc_root = tempfile::tempdir().unwrap();
        fs::create_dir(proc_root.path().join("memory")).unwrap();
        let hierarchies = Hierarchies::detect(proc_root.path()).unwrap();
        let pod = Path::new("kubepods/poda");
        let in_memory = |pid| {
            is_member(
                &hierarchies,
                proc_root.path(),
                pid,
                Some(Controller::Memory),
                pod,
            )
        };
        let in_unified = |pid| is_member(&hierarchies, proc_root.path(), pid, None, pod);
        let write = |pid: &str, text: &str| {
            fs::create_dir_all(proc_root.path().join(pid)).unwrap();
            fs::write(proc_root.path().join(pid).join("cgroup"), text).unwrap();
        };
        assert_eq!(in_memory(1).unwrap(), None, "a process that is gone");
        write(
            "7",
            "9:name=systemd:/kubepods/poda\n4:cpu,memory:/kubepods/poda/c1\n0::/\n",
        );
        assert_eq!(in_memory(7).unwrap(), Some(true));
        assert_eq!(in_unified(7).unwrap(), Some(false));
        write("8", "4:memory:/kubepods/podab\n0::/kubepods/poda\n");
        assert_eq!(in_memory(8).unwrap(), Some(false));
        assert_eq!(in_unified(8).unwrap(), Some(true));
        write("9", "4:memory:kubepods\n");
        assert!(matches!(in_memory(9), Err(CgroupError::Malformed { .. })));
    }

    /// This is what a reused id looks like: the pidfd is open, and the check then says that the process is not
    /// ours.
    #[test]
    fn a_process_that_fails_the_check_gets_no_signal() {
        let mut stranger = Command::new("sleep").arg("60").spawn().unwrap();
        let sent = signal_if(stranger.id(), Signal::KILL, || Ok(false)).unwrap();
        assert!(!sent);
        assert!(stranger.try_wait().unwrap().is_none(), "the stranger died");
        assert!(signal_if(stranger.id(), Signal::KILL, || Ok(true)).unwrap());
        assert!(!can_be_opened_alive(1 << 30).unwrap());
        stranger.wait().unwrap();
        assert!(!signal_if(stranger.id(), Signal::KILL, || Ok(true)).unwrap());
    }
}
