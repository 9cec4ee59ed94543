use super::*;
use evictd_pod::{Pod, wire};
use std::{fs, os::unix::fs::symlink, sync::Arc};

/// A machine's cgroups (v1: memory and pids) and this process's place in them, in a temporary directory.
struct Machine {
    top: tempfile::TempDir,
}

impl Machine {
    fn new(groups: &[&str], own: &str) -> Self {
        let machine = Self {
            top: tempfile::tempdir().unwrap(),
        };
        for hierarchy in ["memory", "pids"] {
            machine.make(hierarchy, "");
            for group in groups {
                machine.make(hierarchy, group);
            }
        }
        let proc = machine.top.path().join("proc/self");
        fs::create_dir_all(&proc).unwrap();
        fs::write(proc.join("cgroup"), format!("4:memory:{own}\n8:pids:/\n")).unwrap();
        machine
    }

    fn make(&self, hierarchy: &str, group: &str) {
        fs::create_dir_all(self.top.path().join("cgroup").join(hierarchy).join(group)).unwrap();
    }

    fn binder(&self, roots: &[&str]) -> Binder {
        let hierarchies = Hierarchies::detect(&self.top.path().join("cgroup")).unwrap();
        let roots = roots.iter().map(PathBuf::from).collect();
        Binder::new(hierarchies, self.top.path().join("proc"), roots)
    }
}

impl Binder {
    /// With nothing known from before.
    fn tie(&self, pods: &[Listed]) -> Result<Bindings, CgroupError> {
        self.bind(pods, &DeletedPods::new(), &LastBindings::new())
    }
}

fn listed(name: &str, uid: &str, annotation: Option<&str>) -> Listed {
    let mut pod = wire::Pod::default();
    pod.metadata.name = name.to_owned();
    pod.metadata.uid = uid.into();
    if let Some(path) = annotation {
        pod.metadata.annotations.insert(CGROUP_ANNOTATION, path);
    }
    Listed {
        pod: Arc::new(Pod::from_wire(pod)),
        manifest: Some(Arc::from(Path::new("/etc/evictd/pod.yaml"))),
        wire: None,
        evicted: false,
        evicted_at: None,
    }
}

fn bound(bindings: &Bindings) -> Vec<Option<&str>> {
    bindings
        .cgroups
        .iter()
        .map(|cgroup| cgroup.as_ref().and_then(|cgroup| cgroup.relative.to_str()))
        .collect()
}

fn refusals(bindings: &Bindings) -> Vec<(&str, &Refusal)> {
    let warnings = bindings.warnings.iter();
    let refusals = warnings.filter_map(|warning| match warning {
        Warning::Cgroup { pod, refusal, .. } => Some((pod.as_str(), refusal)),
        _ => None,
    });
    refusals.collect()
}

#[test]
fn a_pod_is_found_by_its_uid_and_a_stranger_is_listed() {
    let machine = Machine::new(
        &[
            "kubepods/burstable/podu-1/abc",
            "kubepods/podu-2",
            "kubepods/podstranger",
        ],
        "/system",
    );
    let pods = [
        listed("a", "u-1", None),
        listed("b", "u-2", None),
        listed("c", "u-3", None),
    ];
    let bindings = machine.binder(&["/kubepods"]).tie(&pods).unwrap();
    assert_eq!(
        bound(&bindings),
        [
            Some("kubepods/burstable/podu-1"),
            Some("kubepods/podu-2"),
            None
        ]
    );
    assert_eq!(bindings.warnings, []);
    let unknown: Vec<_> = bindings
        .unknown
        .iter()
        .map(|group| group.uid.as_str())
        .collect();
    assert_eq!(unknown, ["stranger"]);
}

#[test]
fn a_kubelet_may_have_a_root_of_its_own() {
    let pods = [
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podu_1.slice",
        "kubelet/kubepods/podu-2",
    ];
    let machine = Machine::new(&pods, "/system");
    let listed = [listed("a", "u-1", None), listed("b", "u-2", None)];
    // Nothing outside the roots is seen, neither as a pod's nor as a stranger's.
    machine.make("memory", "kubepods/podstranger");
    let roots = ["/kubelet.slice", "/kubelet/kubepods", "/gone"];
    let bindings = machine.binder(&roots).tie(&listed).unwrap();
    assert_eq!(bound(&bindings), pods.map(Some));
    assert_eq!(bindings.unknown, []);
    assert_eq!(
        bound(&machine.binder(&[]).tie(&listed).unwrap()),
        [None, None]
    );
}

#[test]
fn a_manifest_may_name_a_cgroup_below_a_configured_root() {
    let machine = Machine::new(&["batch/web/c", "kubepods/podu-1"], "/system");
    let mounted = machine.top.path().join("cgroup/memory/batch/web");
    let root_as_mounted = machine.top.path().join("cgroup/pids/batch");
    let roots = ["batch", "/batch/", root_as_mounted.to_str().unwrap(), "/"];
    let named = [
        "batch/web",
        "/batch/web",
        "/batch/./x/../web",
        "batch//web/",
        mounted.to_str().unwrap(),
    ];
    machine.make("memory", "batch/x");
    machine.make("pids", "batch/x");
    for root in roots {
        for name in named {
            let pods = [listed("a", "u-1", Some(name))];
            let bindings = machine.binder(&[root]).tie(&pods).unwrap();
            assert_eq!(
                bound(&bindings),
                [Some("batch/web")],
                "{name:?} below {root:?}: {:?}",
                bindings.warnings
            );
            assert!(bindings.cgroups[0].as_ref().unwrap().by_annotation);
        }
    }
}

#[test]
fn an_annotation_counts_only_in_a_manifest() {
    let machine = Machine::new(&["batch/web", "kubepods/podu-1"], "/system");
    let mut pod = listed("a", "u-1", Some("/batch/web"));
    pod.manifest = None;
    let bindings = machine.binder(&["/batch", "kubepods"]).tie(&[pod]).unwrap();
    assert_eq!(bound(&bindings), [Some("kubepods/podu-1")]);
}

#[test]
fn every_refusal_has_its_reason() {
    let machine = Machine::new(
        &[
            "batch/web",
            "other/web",
            "batch/evictd/leaf",
            "kubepods/podu-9/c",
            "batches/web",
        ],
        "/batch/evictd/leaf",
    );
    let cgroup = machine.top.path().join("cgroup");
    fs::write(cgroup.join("memory/batch/file"), "").unwrap();
    symlink("../other", cgroup.join("memory/batch/sideways")).unwrap();
    symlink("/", cgroup.join("memory/batch/outside")).unwrap();
    symlink("web", cgroup.join("memory/batch/alias")).unwrap();
    symlink("../batch", cgroup.join("pids/batch/alias")).unwrap();
    fs::create_dir_all(cgroup.join("pids/batch/deep/web")).unwrap();
    symlink("deep", cgroup.join("pids/batch/split")).unwrap();
    symlink(".", cgroup.join("memory/batch/split")).unwrap();
    let outside = |path: &str| Refusal::OutsideRoots(PathBuf::from(path));
    let table = [
        ("/", Refusal::Root),
        ("", Refusal::Root),
        ("/batch/..", Refusal::Root),
        ("/batch", outside("/batch")),
        ("/batch/.", outside("/batch")),
        ("/batch/web/..", outside("/batch")),
        ("/batches/web", outside("/batches/web")),
        ("/other/web", outside("/other/web")),
        ("/batch/../other/web", outside("/other/web")),
        ("/batch/sideways/web", outside("/other/web")),
        ("/kubepods/podu-9", outside("/kubepods/podu-9")),
        ("/batch/missing", Refusal::Missing),
        ("/batch/file", Refusal::Missing),
        ("/batch/split/web", Refusal::Ambiguous),
        ("/batch/evictd", Refusal::Own),
        ("/batch/evictd/leaf", Refusal::Own),
    ];
    for (named, refusal) in table {
        let pods = [listed("a", "u-1", Some(named))];
        let bindings = machine.binder(&["/batch"]).tie(&pods).unwrap();
        assert_eq!(bound(&bindings), [None], "{named}");
        assert_eq!(refusals(&bindings), [("default/a", &refusal)], "{named}");
    }
    for escape in ["/../../..", "/batch/../../../..", "/batch/outside/etc"] {
        let pods = [listed("a", "u-1", Some(escape))];
        let bindings = machine.binder(&["/batch", "/"]).tie(&pods).unwrap();
        assert!(
            matches!(refusals(&bindings)[..], [(_, Refusal::OutsideRoots(_))]),
            "{escape}"
        );
    }
    // Without a configured root no manifest may name anything.
    let pods = [listed("a", "u-1", Some("/batch/web"))];
    let bindings = machine.binder(&[]).tie(&pods).unwrap();
    assert_eq!(refusals(&bindings), [("default/a", &outside("/batch/web"))]);
}

#[test]
fn evictds_own_pod_is_not_touched_and_not_warned_of() {
    let machine = Machine::new(&["kubepods/podu-1/leaf"], "/kubepods/podu-1/leaf");
    let binder = machine.binder(&["kubepods"]);
    let bindings = binder.tie(&[listed("evictd", "u-1", None)]).unwrap();
    assert_eq!(bound(&bindings), [None]);
    assert_eq!(refusals(&bindings), []);
    // Nor before it is listed.
    assert_eq!(binder.tie(&[]).unwrap().unknown, []);
}

#[test]
fn a_cgroup_that_two_pods_claim_belongs_to_neither() {
    let machine = Machine::new(
        &[
            "r/a/b/c",
            "r/a-1",
            "r/d",
            "kubepods/podu-8",
            "kubepods/podstranger/c",
            "kubepods/podu-7",
        ],
        "/system",
    );
    let claims = |table: &[(&str, &str, Option<&str>)]| {
        let pods: Vec<_> = table
            .iter()
            .map(|(name, uid, path)| listed(name, uid, *path))
            .collect();
        let bindings = machine.binder(&["/r", "/kubepods"]).tie(&pods).unwrap();
        let bound = bound(&bindings)
            .into_iter()
            .map(|path| path.map(str::to_owned))
            .collect::<Vec<_>>();
        let rivals = refusals(&bindings)
            .into_iter()
            .map(|(pod, refusal)| match refusal {
                Refusal::ClaimedBy { pod: rival, .. } => format!("{pod} {rival}"),
                other => panic!("{other}"),
            });
        (bound, rivals.collect::<Vec<_>>())
    };
    let some = |path: &str| Some(path.to_owned());

    // The same one, and a third that only looks alike.
    let (bound, rivals) = claims(&[
        ("x", "1", Some("/r/a")),
        ("y", "2", Some("/r/a/")),
        ("z", "3", Some("/r/a-1")),
    ]);
    assert_eq!(bound, [None, None, some("r/a-1")]);
    assert_eq!(rivals, ["default/x default/y", "default/y default/x"]);

    // One inside another, at any depth.
    let (bound, rivals) = claims(&[
        ("x", "1", Some("/r/a/b/c")),
        ("y", "2", Some("/r/a")),
        ("z", "3", Some("/r/a/b")),
        ("w", "4", Some("/r/d")),
    ]);
    assert_eq!(bound, [None, None, None, some("r/d")]);
    assert_eq!(rivals.len(), 3);

    // What the kubelet made stays its pod's, listed or not.
    let (bound, rivals) = claims(&[
        ("x", "u-8", None),
        ("y", "2", Some("/kubepods/podu-8")),
        ("z", "3", Some("/kubepods/podstranger/c")),
        ("w", "u-7", Some("/kubepods/podu-7")),
    ]);
    assert_eq!(
        bound,
        [some("kubepods/podu-8"), None, None, some("kubepods/podu-7")]
    );
    assert_eq!(rivals, ["default/z stranger", "default/y default/x"]);

    // Two manifests with one UID.
    let (bound, rivals) = claims(&[("x", "u-8", None), ("y", "u-8", None)]);
    assert_eq!(bound, [None, None]);
    assert_eq!(rivals.len(), 2);
}

#[test]
fn a_cgroup_that_cannot_be_looked_at_stays_its_pods() {
    let machine = Machine::new(&["batch/web", "kubepods/podu-2"], "/system");
    let memory = machine.top.path().join("cgroup/memory");
    let pods = [
        listed("a", "u-1", Some("/batch/alias")),
        listed("b", "u-2", None),
    ];
    let alias = memory.join("batch/alias");
    symlink("web", &alias).unwrap();
    let binder = machine.binder(&["/batch", "/kubepods"]);
    let before = binder.tie(&pods).unwrap();
    let expected = [Some("batch/web"), Some("kubepods/podu-2")];
    assert_eq!(bound(&before), expected);
    let held = before
        .cgroups
        .iter()
        .zip(["u-1", "u-2"])
        .map(|(cgroup, uid)| {
            let held = LastBinding {
                cgroup: cgroup.clone(),
                cgroup_check: CgroupCheck::default(),
            };
            (uid.to_owned(), held)
        });
    let last: LastBindings = held.collect();
    // It leads round in a circle, which is an error that stays.
    fs::remove_file(&alias).unwrap();
    symlink("alias", &alias).unwrap();
    let look = || binder.bind(&pods, &DeletedPods::new(), &last).unwrap();
    let after = look();
    assert_eq!(bound(&after), expected);
    let said = after.warnings[0].to_string();
    assert!(said.ends_with("it stays tied to /batch/web"), "{said}");
    // What is gone is gone, and what was never known stays so.
    fs::remove_dir(memory.join("batch/web")).unwrap();
    fs::remove_dir(memory.join("kubepods/podu-2")).unwrap();
    assert_eq!(bound(&look()), [None, None]);
    assert_eq!(bound(&binder.tie(&pods).unwrap()), [None, None]);
}
