//! From a manifest on disk to the figures of real processes in a real cgroup.

use crate::cgroup_support::{TestCgroup, eventually, left_out};
use crate::{
    pods::{Binder, ManifestDirectory, ManifestRules, Manifests, PodCache, PodSource},
    usage::{CgroupUsage, DiskRoots, UsageReader, UsageSource, raise_open_files},
};
use evictd_kernel::cgroup::{DEFAULT_ROOT, Hierarchies};
use evictd_usage::{PodUsage, Usage};
use jiff::Timestamp;
use nix::{
    mount::{MsFlags, mount, umount},
    sched::{CloneFlags, unshare},
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::Pid,
};
use std::{fs, os::unix::fs::symlink, path::Path};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const MIB: i64 = 1 << 20;

/// Holds 24 MiB in a variable, and itself and one child as processes.
const HOLDER: &str = "x=$(head -c 24M /dev/zero | tr '\\0' x); sleep 600 & echo ready; wait";

fn hierarchies() -> Hierarchies {
    Hierarchies::detect(Path::new(DEFAULT_ROOT)).unwrap()
}

async fn cache(group: &TestCgroup, manifests: &Path) -> PodCache {
    let directory = ManifestDirectory {
        path: manifests.to_owned(),
        static_pods: false,
    };
    let source = Manifests::new(vec![directory], ManifestRules::default());
    let binder = Binder::new(hierarchies(), "/proc".into(), vec![group.relative.clone()]);
    PodCache::new(source.start().await, binder)
}

fn manifest(name: &str, cgroup: &Path, containers: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  annotations:\n    evictd.dev/cgroup: /{}\nspec:\n  \
         containers: {containers}\n",
        cgroup.display()
    )
}

fn holds_24_mib(usage: Option<&PodUsage>) -> bool {
    let usage = usage.expect("the pod has processes");
    let (working_set, anon) = (usage.working_set.unwrap().value, usage.anon.unwrap().value);
    assert!(anon <= working_set + MIB, "{usage:?}");
    (24 * MIB..64 * MIB).contains(&anon) && usage.processes.is_some_and(|count| count.value == 2)
}

#[tokio::test]
async fn a_manifest_leads_to_the_usage_of_its_processes() {
    let name = "a_manifest_leads_to_the_usage_of_its_processes";
    let Some(mut group) = TestCgroup::new(name, &["memory", "pids"]) else {
        return;
    };
    let manifests = tempfile::tempdir().unwrap();
    let pods = [
        ("alone", "[{name: c}]"),
        ("pair", "[{name: big}, {name: small}]"),
    ];
    for (name, containers) in pods {
        let text = manifest(name, &group.make(name), containers);
        fs::write(manifests.path().join(name), text).unwrap();
    }
    group.script("alone", HOLDER);
    group.script("pair/big", HOLDER);
    group.make("pair/small");
    let mut cache = cache(&group, manifests.path()).await;
    let mut reader = CgroupUsage::new(hierarchies(), raise_open_files());
    let mut usage = Usage::default();

    let set = cache.snapshot(|_, _| Ok(()));
    assert_eq!(set.warnings, []);
    eventually("both hold their memory", || {
        assert!(reader.read_pods(NOW, &set, &mut usage).is_empty());
        [0, 1]
            .into_iter()
            .all(|index| holds_24_mib(usage.of(index)))
    });
    assert!(
        reader
            .containers(NOW, &set, &[0, 1], &mut usage)
            .await
            .is_empty()
    );
    let containers = |index: usize| {
        let containers = usage.of(index).unwrap().containers.iter();
        containers
            .map(|c| (c.name.as_str(), c.working_set.unwrap().value / (24 * MIB)))
            .collect::<Vec<_>>()
    };
    assert_eq!(containers(0), [("c", 1)]);
    assert_eq!(containers(1), [("big", 1), ("small", 0)]);
}

#[tokio::test]
async fn a_cgroup_that_is_removed_and_created_again_is_read() {
    let name = "a_cgroup_that_is_removed_and_created_again_is_read";
    let Some(mut group) = TestCgroup::new(name, &["memory", "pids"]) else {
        return;
    };
    let manifests = tempfile::tempdir().unwrap();
    let text = manifest("web", &group.make("web"), "[{name: c}]");
    fs::write(manifests.path().join("web.yaml"), text).unwrap();
    let mut cache = cache(&group, manifests.path()).await;
    let mut reader = CgroupUsage::new(hierarchies(), raise_open_files());
    let mut usage = Usage::default();
    let set = cache.snapshot(|_, _| Ok(()));
    reader.read_pods(NOW, &set, &mut usage);
    assert_eq!(
        usage.of(0).unwrap().processes.map(|count| count.value),
        Some(0)
    );

    // The files are still open when it goes.
    group.remove("web");
    assert!(reader.read_pods(NOW, &set, &mut usage).is_empty());
    assert_eq!(usage.of(0), None);

    group.script("web", HOLDER);
    eventually("the new group's memory is seen", || {
        assert!(reader.read_pods(NOW, &set, &mut usage).is_empty());
        holds_24_mib(usage.of(0))
    });
}

/// Without memory, which is when they are read, opening them could take long.
#[tokio::test]
async fn the_files_of_a_new_pod_are_open_before_they_are_needed() {
    let name = "the_files_of_a_new_pod_are_open_before_they_are_needed";
    let Some(group) = TestCgroup::new(name, &["memory", "pids"]) else {
        return;
    };
    let manifests = tempfile::tempdir().unwrap();
    let web = group.make("web");
    fs::write(
        manifests.path().join("web.yaml"),
        manifest("web", &web, "[{name: c}]"),
    )
    .unwrap();
    let mut cache = cache(&group, manifests.path()).await;
    let mut reader = CgroupUsage::new(hierarchies(), raise_open_files());
    let open = || {
        let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets
            .filter(|target| target.parent().is_some_and(|group| group.ends_with(&web)))
            .filter_map(|target| Some(target.file_name()?.to_str()?.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(open(), [""; 0]);
    reader.open(&cache.snapshot(|_, _| Ok(())));
    let open = open();
    assert!(open.iter().any(|file| file == "memory.stat"), "{open:?}");
    assert!(open.iter().any(|file| file == "pids.current"), "{open:?}");
}

/// The mounts of this thread alone, and of what it starts; `None`, having said so, where there can be none.
fn own_mounts(test: &str) -> Option<()> {
    let nothing = None::<&str>;
    let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
    let done = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(nothing, "/", nothing, private, nothing));
    done.map_err(|error| left_out(test, format!("cannot have mounts of its own: {error}")))
        .ok()
}

#[test]
fn what_a_pod_leaves_in_memory_is_seen_until_its_volume_is_unmounted() {
    let name = "what_a_pod_leaves_in_memory_is_seen_until_its_volume_is_unmounted";
    let Some(mut group) = TestCgroup::new(name, &["memory", "pids"]) else {
        return;
    };
    let Some(()) = own_mounts(name) else { return };
    let top = tempfile::tempdir().unwrap();
    let volume = top
        .path()
        .join("pods/u-1/volumes/kubernetes.io~empty-dir/ram");
    fs::create_dir_all(&volume).unwrap();
    let tmpfs = Some("tmpfs");
    mount(tmpfs, &volume, tmpfs, MsFlags::empty(), Some("size=64m")).unwrap();
    // This thread's mounts are not those of the process.
    symlink("/proc/thread-self", top.path().join("self")).unwrap();
    let roots = DiskRoots {
        kubelet: top.path().to_owned(),
        logs: top.path().to_owned(),
        proc: top.path().to_owned(),
    };
    let mut gauge = UsageReader::new(hierarchies(), roots, None);
    let cgroup = group.relative.join("pod");
    let mut remains = || {
        let remains = gauge.remaining("u-1", &cgroup);
        let mebibytes = |bytes: Option<i64>| bytes.map(|bytes| bytes / MIB);
        (mebibytes(remains.memory), remains.processes)
    };
    assert_eq!(remains(), (Some(0), Some(0)));

    let data = volume.join("data");
    let script = format!(
        "head -c 16M /dev/zero >{}; echo ready; exec sleep 600",
        data.display()
    );
    let pid = group.script("pod", &script);
    let (memory, processes) = remains();
    assert!(
        memory.is_some_and(|held| (16..24).contains(&held)),
        "{memory:?}"
    );
    assert_eq!(processes, Some(1));

    // It has ended, and nobody has waited for it yet.
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).unwrap();
    eventually("it has ended", || TestCgroup::has_ended(pid));
    let (memory, processes) = remains();
    assert!(
        memory.is_some_and(|held| (16..24).contains(&held)),
        "{memory:?}"
    );
    assert_eq!(processes, Some(1), "it still takes a process id");
    waitpid(Pid::from_raw(pid.cast_signed()), None).unwrap();
    eventually("its process id is free", || remains().1 == Some(0));

    group.remove("pod");
    assert_eq!(remains(), (Some(16), Some(0)));
    umount(&volume).unwrap();
    assert_eq!(remains(), (Some(0), Some(0)));
}
