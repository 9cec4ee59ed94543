//! Real cgroups with real processes for tests: uniquely named, and always removed again.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use evictd_kernel::cgroup::{DEFAULT_ROOT, subdirectories};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) use evictd_testkit::testing::left_out;

static MADE: AtomicU32 = AtomicU32::new(0);

/// A cgroup of this test alone, in one or more hierarchies. Dropping it kills what is in it and removes it.
pub(crate) struct TestCgroup {
    /// Its path relative to the root of each hierarchy.
    pub(crate) relative: PathBuf,
    dirs: Vec<PathBuf>,
    children: Vec<Child>,
}

impl TestCgroup {
    /// Makes a group in each of the named v1 hierarchies (`unified` is the cgroup2 tree beside them); on a machine
    /// with cgroup v2 only, in its one tree. None, with a line on stderr that names the test, where that can't be.
    pub(crate) fn new(test: &str, hierarchies: &[&str]) -> Option<Self> {
        Self::named(test, hierarchies, "")
    }

    /// The same with this at the end of its name.
    pub(crate) fn named(test: &str, hierarchies: &[&str], suffix: &str) -> Option<Self> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let relative = format!("evictd-test-{}-{number}{suffix}", std::process::id());
        let relative = PathBuf::from(relative);
        let root = Path::new(DEFAULT_ROOT);
        let dirs = if root.join("cgroup.controllers").is_file() {
            vec![root.join(&relative)]
        } else {
            let dir = |name: &&str| root.join(name).join(&relative);
            hierarchies.iter().map(dir).collect()
        };
        let mut group = Self {
            relative,
            dirs: Vec::new(),
            children: Vec::new(),
        };
        for dir in dirs {
            if let Err(error) = fs::create_dir(&dir) {
                left_out(test, format!("cannot make {}: {error}", dir.display()));
                return None;
            }
            group.dirs.push(dir);
        }
        Some(group)
    }

    /// Makes a group below this one in every hierarchy; returns its path relative to their roots.
    pub(crate) fn make(&self, below: &str) -> PathBuf {
        for dir in &self.dirs {
            fs::create_dir_all(dir.join(below)).expect("make a cgroup");
            hand_down_controllers(dir, Path::new(below));
        }
        self.relative.join(below)
    }

    /// Removes an empty group below this one.
    pub(crate) fn remove(&self, below: &str) {
        for dir in &self.dirs {
            eventually("an empty cgroup can be removed", || {
                fs::remove_dir(dir.join(below)).is_ok()
            });
        }
    }

    /// The directory of a group below this one in the first hierarchy.
    pub(crate) fn dir(&self, below: &str) -> PathBuf {
        self.dirs[0].join(below)
    }

    /// Runs a shell script in a group below this one and waits until it prints a line ("ready"). Its process id.
    pub(crate) fn script(&mut self, below: &str, script: &str) -> u32 {
        self.script_of(Path::new("/bin/sh"), below, script)
    }

    /// Like [`Self::script`], with another name for the shell.
    pub(crate) fn script_of(&mut self, shell: &Path, below: &str, script: &str) -> u32 {
        self.make(below);
        let groups: Vec<_> = self.dirs.iter().map(|dir| dir.join(below)).collect();
        let mut child = Command::new("/bin/sh")
            .args(["-c", JOIN_THEN_RUN, "sh"])
            .arg(shell)
            .arg(script)
            .args(groups)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a shell");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        let pid = child.id();
        self.children.push(child);
        let mut readable = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut readable, PollTimeout::from(10_000_u16));
        assert!(
            readable[0].any().unwrap_or_default(),
            "the script in {below} said nothing for 10 s"
        );
        BufReader::new(output).read_line(&mut line).expect("read");
        assert_eq!(line, "ready\n", "the script in {below} did not start");
        pid
    }

    /// Whether the process, a child of this test, has ended; it stays a zombie.
    pub(crate) fn has_ended(pid: u32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a child not waited for");
        let after_name = stat.rsplit_once(") ").expect("a stat line").1;
        after_name.starts_with('Z')
    }

    fn kill_all(&self) {
        for dir in &self.dirs {
            thaw(dir);
            for pid in processes_below(dir) {
                if let Some(pid) = i32::try_from(pid).ok().filter(|pid| *pid > 1) {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
            }
        }
    }
}

/// `$1` is the shell to become, `$2` its script, the rest are groups to join first.
const JOIN_THEN_RUN: &str = r#"
    shell=$1 script=$2; shift 2
    for group; do echo $$ > "$group/cgroup.procs" || exit 1; done
    exec "$shell" -c "$script"
"#;

impl Drop for TestCgroup {
    fn drop(&mut self) {
        let removed = wait_for(|| {
            self.kill_all();
            for child in &mut self.children {
                let _ = child.try_wait();
            }
            self.dirs.iter().all(|dir| remove(dir).is_ok())
        });
        for child in &mut self.children {
            let _ = child.wait();
        }
        if !removed {
            let _ = writeln!(io::stderr(), "could not remove {:?}", self.dirs);
        }
    }
}

/// A v2 group has the controllers that each group above it hands down. One with processes of its own can't; then those
/// below do without. v1 knows no such thing.
fn hand_down_controllers(top: &Path, below: &Path) {
    let mut group = top.to_owned();
    for name in below {
        let _ = fs::write(group.join("cgroup.subtree_control"), "+memory +pids");
        group.push(name);
    }
}

fn remove(dir: &Path) -> io::Result<()> {
    if let Ok(open) = fs::File::open(dir) {
        // However deep it is, the path to it stays short.
        let here = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        for child in subdirectories(&here).unwrap_or_default() {
            remove(&here.join(child))?;
        }
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The ids of the processes in the group at `dir` and below; none if it does not exist.
pub(crate) fn processes_below(dir: &Path) -> Vec<u32> {
    let listed = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<u32> = listed
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    for child in subdirectories(dir).unwrap_or_default() {
        pids.extend(processes_below(&dir.join(child)));
    }
    pids
}

fn thaw(dir: &Path) {
    let state = dir.join("freezer.state");
    if state.is_file() {
        let _ = fs::write(state, "THAWED");
    }
    for child in subdirectories(dir).unwrap_or_default() {
        thaw(&dir.join(child));
    }
}

/// Looks every few milliseconds until the condition holds; panics after ten seconds.
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(wait_for(condition), "still not after 10 s: {what}");
}

fn wait_for(mut condition: impl FnMut() -> bool) -> bool {
    for _ in 0..2000 {
        if condition() {
            return true;
        }
        let _ = poll(&mut [], PollTimeout::from(5_u16));
    }
    false
}
