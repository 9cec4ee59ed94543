use std::os::unix::fs::symlink;

use super::*;

/// A cgroup file system's worth of directories and files in a temporary directory.
struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let fixture = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            fixture.write(path, text);
        }
        fixture
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn detect(&self) -> Hierarchies {
        Hierarchies::detect(self.root()).unwrap()
    }
}

#[test]
fn a_v2_tree_serves_every_controller() {
    let fixture = Fixture::new(&[("cgroup.controllers", "cpu memory pids\n")]);
    let hierarchies = fixture.detect();
    assert_eq!(hierarchies.version(), Version::V2);
    let dir = fixture.root().join("kubepods");
    let relative = Path::new("/kubepods");
    assert_eq!(
        hierarchies.dir(Controller::Memory, relative),
        Some(dir.clone())
    );
    assert_eq!(
        hierarchies.dir(Controller::Pids, relative),
        Some(dir.clone())
    );
    assert_eq!(hierarchies.unified(relative), Some(dir));
}

/// Small boards start their kernels with `cgroup_disable=memory`.
#[test]
fn a_v2_tree_lacks_a_controller_that_the_kernel_was_started_without() {
    let fixture = Fixture::new(&[("cgroup.controllers", "cpuset cpu pids\n")]);
    let hierarchies = fixture.detect();
    assert_eq!(hierarchies.version(), Version::V2);
    let relative = Path::new("kubepods");
    assert_eq!(hierarchies.dir(Controller::Memory, relative), None);
    assert!(hierarchies.dir(Controller::Pids, relative).is_some());
    assert!(hierarchies.unified(relative).is_some());
}

#[test]
fn v1_controllers_are_found_alone_and_mounted_together() {
    let fixture = Fixture::new(&[
        ("memory/cgroup.procs", ""),
        ("cpu,cpuacct/cgroup.procs", ""),
    ]);
    symlink("cpu,cpuacct", fixture.root().join("cpu")).unwrap();
    let hierarchies = fixture.detect();
    assert_eq!(hierarchies.version(), Version::V1);
    let relative = Path::new("a/b");
    assert_eq!(
        hierarchies.dir(Controller::Memory, relative),
        Some(fixture.root().join("memory/a/b"))
    );
    let cpu = hierarchies.dir(Controller::Cpu, Path::new("")).unwrap();
    assert!(cpu.join("cgroup.procs").is_file());
    assert_eq!(hierarchies.dir(Controller::Freezer, relative), None);
    assert_eq!(hierarchies.unified(relative), None);
}

#[test]
fn a_cgroup2_tree_beside_v1_controllers_is_hybrid() {
    let fixture = Fixture::new(&[("memory/cgroup.procs", ""), ("unified/cgroup.procs", "")]);
    let hierarchies = fixture.detect();
    assert_eq!(hierarchies.version(), Version::Hybrid);
    assert_eq!(
        hierarchies.unified(Path::new("a")),
        Some(fixture.root().join("unified/a"))
    );
}

#[test]
fn a_root_without_hierarchies_or_none_at_all_is_an_error() {
    let fixture = Fixture::new(&[("net_cls/cgroup.procs", "")]);
    assert!(matches!(
        Hierarchies::detect(fixture.root()),
        Err(CgroupError::NoHierarchy { root }) if root == fixture.root()
    ));
    let missing = fixture.root().join("nowhere");
    assert!(matches!(
        Hierarchies::detect(&missing),
        Err(CgroupError::Read { path, .. }) if path == missing
    ));
}

#[test]
fn a_path_that_climbs_is_no_group() {
    let fixture = Fixture::new(&[("cgroup.controllers", "")]);
    let hierarchies = fixture.detect();
    let climbing = Path::new("kubepods/../..");
    assert_eq!(hierarchies.dir(Controller::Memory, climbing), None);
    assert!(hierarchies.procs(climbing).unwrap_err().is_gone());
}

#[test]
fn processes_are_listed_with_those_of_the_groups_below() {
    let fixture = Fixture::new(&[
        ("memory/pod/cgroup.procs", "7\n3\n"),
        ("memory/pod/b/cgroup.procs", "12\n3\n"),
        ("memory/pod/b/c/cgroup.procs", "0\n"),
    ]);
    let procs = fixture.detect().procs(Path::new("pod")).unwrap();
    assert_eq!(procs, [0, 3, 7, 12]);
}

#[test]
fn a_group_that_only_another_hierarchy_has_is_found_there() {
    let fixture = Fixture::new(&[
        ("memory/cgroup.procs", ""),
        ("pids/pod/cgroup.procs", "5\n"),
        ("unified/cgroup.procs", ""),
        ("unified/pod2/cgroup.procs", "6\n"),
    ]);
    let hierarchies = fixture.detect();
    assert_eq!(hierarchies.procs(Path::new("pod")).unwrap(), [5]);
    assert_eq!(hierarchies.procs(Path::new("pod2")).unwrap(), [6]);
}

#[test]
fn a_missing_group_and_a_malformed_list_are_different_errors() {
    let fixture = Fixture::new(&[
        ("memory/pod/cgroup.procs", "12\ntwelve\n"),
        ("memory/bare/memory.stat", ""),
    ]);
    let hierarchies = fixture.detect();
    let missing = hierarchies.procs(Path::new("other")).unwrap_err();
    assert!(missing.is_gone(), "{missing}");
    let bare = hierarchies.procs(Path::new("bare")).unwrap_err();
    assert!(bare.is_gone(), "{bare}");
    let malformed = hierarchies.procs(Path::new("pod")).unwrap_err();
    assert!(!malformed.is_gone());
    assert!(
        malformed.to_string().contains("memory/pod/cgroup.procs"),
        "{malformed}"
    );
    assert!(malformed.to_string().contains("twelve"), "{malformed}");
}

const CGROUPFS: [(&str, &str); 3] = [
    ("kubepods/podaaa-1", "aaa-1"),
    ("kubepods/besteffort/podbbb-2", "bbb-2"),
    ("kubepods/burstable/podccc-3", "ccc-3"),
];

const SYSTEMD: [(&str, &str); 3] = [
    (
        "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podbbb_2.slice",
        "bbb-2",
    ),
    (
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podccc_3.slice",
        "ccc-3",
    ),
    ("kubepods.slice/kubepods-podaaa_1.slice", "aaa-1"),
];

#[test]
fn pods_are_found_in_every_layout_of_the_kubelet() {
    for mount in ["", "memory/"] {
        for layout in [CGROUPFS, SYSTEMD] {
            let fixture = Fixture::new(&[
                (
                    if mount.is_empty() {
                        "cgroup.controllers"
                    } else {
                        "memory/cgroup.procs"
                    },
                    "",
                ),
                (&format!("{mount}podman/cgroup.procs"), ""),
                (
                    &format!("{mount}system.slice/x-podddd.slice/cgroup.procs"),
                    "",
                ),
            ]);
            for (path, _) in layout {
                fixture.write(&format!("{mount}{path}/app/cgroup.procs"), "");
            }
            let hierarchies = fixture.detect();
            let mut found = hierarchies.pods(Path::new("/")).unwrap();
            found.sort_by(|a, b| a.relative.cmp(&b.relative));
            let mut expected = layout.map(|(path, uid)| PodCgroup {
                uid: uid.to_owned(),
                relative: path.into(),
            });
            expected.sort_by(|a, b| a.relative.cmp(&b.relative));
            assert_eq!(found, expected);
            let base = Path::new(layout[0].0.split('/').next().unwrap());
            let one = hierarchies.find_pod(base, "ccc-3").unwrap().unwrap();
            assert!(expected.contains(&one));
            assert_eq!(hierarchies.find_pod(base, "ccc").unwrap(), None);
        }
    }
}

#[test]
fn pods_are_found_below_a_kubelets_own_cgroup_root() {
    let fixture = Fixture::new(&[
        ("cgroup.controllers", ""),
        (
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod0d_1.slice/cgroup.procs",
            "",
        ),
    ]);
    let hierarchies = fixture.detect();
    let pods = hierarchies.pods(Path::new("kubelet.slice")).unwrap();
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].uid, "0d-1");
}

#[test]
fn listing_pods_below_a_missing_base_is_an_error() {
    let fixture = Fixture::new(&[("memory/cgroup.procs", "")]);
    assert!(
        fixture
            .detect()
            .pods(Path::new("kubepods"))
            .unwrap_err()
            .is_gone()
    );
}

#[test]
fn container_ids_lose_what_the_systemd_driver_adds() {
    let fixture = Fixture::new(&[
        ("memory/pod/0a1b/cgroup.procs", ""),
        ("memory/pod/cri-containerd-2c3d.scope/cgroup.procs", ""),
        ("memory/pod/crio-4e5f.scope/cgroup.procs", ""),
        ("memory/pod/crio-conmon-4e5f.scope/cgroup.procs", ""),
        ("memory/pod/my-app/cgroup.procs", ""),
    ]);
    let children = fixture.detect().children(Path::new("pod")).unwrap();
    let ids: Vec<_> = children.iter().map(|child| child.id.as_str()).collect();
    assert_eq!(ids, ["0a1b", "2c3d", "4e5f", "my-app"]);
    assert_eq!(
        children[1].relative,
        Path::new("pod/cri-containerd-2c3d.scope")
    );
}

#[test]
fn our_own_groups_and_all_above_them_are_known() {
    let fixture = Fixture::new(&[(
        "self/cgroup",
        "9:name=systemd:/\n4:memory:/a/b:c\n0::/kubepods/podx\n",
    )]);
    let own = OwnCgroups::read(&nowhere(), fixture.root()).unwrap();
    for within in [
        "/",
        "",
        "a",
        "/a/b:c",
        "kubepods",
        "kubepods/podx",
        "a/../..",
    ] {
        assert!(own.are_within(Path::new(within)), "{within}");
    }
    for outside in ["a/b", "a/b:c/d", "kubepods/pod", "kubepods/podx/y", "b"] {
        assert!(!own.are_within(Path::new(outside)), "{outside}");
    }
}

#[test]
fn own_groups_that_cannot_be_read_are_an_error() {
    let fixture = Fixture::new(&[]);
    assert!(matches!(
        OwnCgroups::read(&nowhere(), fixture.root()),
        Err(CgroupError::Read { .. })
    ));
    fixture.write("self/cgroup", "4:memory\n");
    assert!(matches!(
        OwnCgroups::read(&nowhere(), fixture.root()),
        Err(CgroupError::Malformed { line, .. }) if line == "4:memory"
    ));
}

#[test]
fn this_machine_is_recognised() {
    let root = Path::new(DEFAULT_ROOT);
    let Ok(hierarchies) = Hierarchies::detect(root) else {
        let why = format!("no cgroups at {DEFAULT_ROOT}");
        return evictd_testkit::testing::left_out("this_machine_is_recognised", why);
    };
    assert!(
        hierarchies
            .process_directory(Path::new("/"))
            .unwrap()
            .is_dir()
    );
    assert!(
        OwnCgroups::read(&hierarchies, Path::new("/proc"))
            .unwrap()
            .are_within(Path::new("/"))
    );
}

/// Hierarchies of a machine that has only one v1 controller, in a directory that is gone.
fn nowhere() -> Hierarchies {
    let fixture = Fixture::new(&[("memory/cgroup.procs", "")]);
    Hierarchies::detect(fixture.root()).unwrap()
}

#[test]
fn paths_in_a_namespace_of_ones_own_are_found_in_the_whole_tree() {
    let pid = std::process::id();
    let own = "kubepods.slice/pod1.slice/c1.scope";
    let fixture = Fixture::new(&[
        ("cgroup.controllers", "memory pids\n"),
        ("cgroup.procs", "1\n"),
        ("self/cgroup", "0::/\n"),
    ]);
    fixture.write(&format!("{own}/cgroup.procs"), &format!("7\n{pid}\n"));
    fixture.write("kubepods.slice/pod2.slice/c2.scope/cgroup.procs", "8\n");
    let seen = || {
        let detected = Hierarchies::detect(fixture.root()).unwrap();
        detected
            .with_namespace_of_this_process(fixture.root())
            .unwrap()
    };
    let table = [
        ("/", own),
        ("/below", "kubepods.slice/pod1.slice/c1.scope/below"),
        (
            "/../../pod2.slice/c2.scope",
            "kubepods.slice/pod2.slice/c2.scope",
        ),
        ("/../../../init.scope", "init.scope"),
    ];
    for (shown, real) in table {
        assert_eq!(seen().absolute("", Path::new(shown)), Path::new(real));
    }
    let own_groups = OwnCgroups::read(&seen(), fixture.root()).unwrap();
    assert!(own_groups.are_within(Path::new("kubepods.slice/pod1.slice")));
    assert!(!own_groups.are_within(Path::new("kubepods.slice/pod2.slice")));
    // The namespace of everybody: what is shown is what is.
    fixture.write("self/cgroup", &format!("0::/{own}\n"));
    assert_eq!(seen().absolute("", Path::new("/a/b")), Path::new("a/b"));
    // It began above this process.
    fixture.write("self/cgroup", "0::/pod1.slice/c1.scope\n");
    let shown = Path::new("/pod2.slice");
    assert_eq!(
        seen().absolute("", shown),
        Path::new("kubepods.slice/pod2.slice")
    );
    // Nobody is found who is not there.
    fixture.write(&format!("{own}/cgroup.procs"), "7\n");
    fixture.write("self/cgroup", "0::/\n");
    assert_eq!(seen().absolute("", Path::new("/a")), Path::new("a"));
}
