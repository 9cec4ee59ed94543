//! Looks at this machine, and at a real cgroup of its own.

use super::*;
use evictd_testkit::testing::{left_out, wait_until};
use std::process::{Child, Command, Stdio};

/// This machine's own /proc and cgroups.
fn this_machine() -> SignalSources {
    SignalSources {
        proc_root: "/proc".into(),
        hierarchies: Hierarchies::detect(Path::new(crate::cgroup::DEFAULT_ROOT)).ok(),
        node_cgroup: None,
        pods_cgroups: Vec::new(),
        memory_available: MemoryAvailable::MemAvailable,
        filesystems: FilesystemPaths {
            nodefs: Some("/".into()),
            imagefs: Some("/proc".into()),
            ..FilesystemPaths::default()
        },
    }
}

#[test]
fn this_machine_has_something_left() {
    let mut sampler = Sampler::new(&this_machine()).unwrap();
    wait_until("every filesystem has answered", || {
        sampler.sample(at(1));
        sampler.layout().is_some()
    });
    let sample = sampler.sample(at(2));
    for signal in [
        Signal::MemoryAvailable,
        Signal::PidAvailable,
        Signal::NodefsAvailable,
    ] {
        let observation = sample.observations.get(signal).unwrap();
        assert!(0 < observation.available && observation.available <= observation.capacity);
        assert_eq!(observation.time, Some(at(2)));
    }
    // A filesystem without bytes is no place for images.
    assert_eq!(
        sample.health(Signal::ImagefsAvailable).state,
        SignalState::Rejected
    );
    assert!(sample.swap.is_some());
    let layout = sampler.layout().unwrap();
    assert!(layout.dedicated_image_fs && !layout.split_container_fs);
    assert!(
        layout.to_string().contains("imagefs /proc (proc"),
        "{layout}"
    );
}

/// A real cgroup of 128 MiB, and at most one process in it.
struct BoundedGroup {
    name: String,
    directory: PathBuf,
    hog: Option<Child>,
}

impl BoundedGroup {
    const LIMIT: &str = "134217728";

    fn create(hierarchies: &Hierarchies, test: u32) -> Result<Self, String> {
        let name = format!("evictd-test-signals-{}-{test}", std::process::id());
        let directory = hierarchies
            .dir(crate::cgroup::Controller::Memory, Path::new(&name))
            .ok_or("no memory controller")?;
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let group = Self {
            name,
            directory,
            hog: None,
        };
        group.limit()?;
        Ok(group)
    }

    fn limit(&self) -> Result<(), String> {
        let files = ["memory.limit_in_bytes", "memory.max"];
        let file = files.iter().map(|file| self.directory.join(file));
        let file = file.into_iter().find(|file| file.exists());
        let file = file.ok_or("the group has no memory controller")?;
        fs::write(&file, Self::LIMIT).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// A process that fills 64 MiB and then stands still, because nobody reads what it wants to write.
    fn fill_half(&mut self) {
        let procs = self.directory.join("cgroup.procs");
        let script = format!(
            "echo $$ > {} && exec dd if=/dev/zero bs=64M count=1 2>/dev/null",
            procs.display()
        );
        let hog = Command::new("sh")
            .args(["-c", &script])
            .stdout(Stdio::piped())
            .spawn();
        self.hog = Some(hog.unwrap());
    }

    fn kill_hog(&mut self) {
        if let Some(mut hog) = self.hog.take() {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

impl Drop for BoundedGroup {
    fn drop(&mut self) {
        self.kill_hog();
        let _ = fs::remove_dir(&self.directory);
    }
}

#[test]
fn a_real_cgroup_and_a_real_memory_user() {
    let mut sources = this_machine();
    let created = sources
        .hierarchies
        .as_ref()
        .ok_or_else(|| "no control groups".to_owned())
        .and_then(|hierarchies| BoundedGroup::create(hierarchies, 1));
    let mut group = match created {
        Ok(group) => group,
        Err(why) => return left_out("a_real_cgroup_and_a_real_memory_user", why),
    };
    sources.node_cgroup = Some(group.name.clone().into());
    let mut sampler = Sampler::new(&sources).unwrap();
    let mut available = || {
        let sample = sampler.sample(at(1));
        let observation = *sample.observations.get(Signal::MemoryAvailable).unwrap();
        assert_eq!(observation.capacity, 128 * MI);
        observation.available
    };
    assert!(available() > 120 * MI);
    group.fill_half();
    wait_until("half of the node is used", || {
        (48 * MI..64 * MI).contains(&available())
    });
    group.kill_hog();
    wait_until("it is free again", || available() > 110 * MI);

    // The group goes away and comes back, as when the demo starts again.
    fs::remove_dir(&group.directory).unwrap();
    let sample = sampler.sample(at(2));
    assert_eq!(
        sample.health(Signal::MemoryAvailable).state,
        SignalState::Failed
    );
    fs::create_dir(&group.directory).unwrap();
    group.limit().unwrap();
    let sample = sampler.sample(at(3));
    assert_eq!(
        sample.health(Signal::MemoryAvailable).state,
        SignalState::Observed
    );
}
