//! The table of keys: name, default, reason, and how each is read and shown. The parser, the suggestions,
//! `config/evictd.yaml` and the listing of where each setting came from all follow from it.

use super::{
    effective::{Effective, Kind},
    mistake::Fault,
    node::Node,
    value::{Value, human_duration, whole_seconds},
};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// One setting.
pub(super) struct Key {
    /// With the keys above it, joined by points.
    pub(super) path: &'static str,
    /// Why it is there, in a line.
    pub(super) why: &'static str,
    /// What an `EvictionConfiguration` takes by default, in YAML; `None`: it has no such key.
    pub(super) default: Option<&'static str>,
    /// What it is under a `KubeletConfiguration`.
    pub(super) kubelet: Kubelet,
    pub(super) field: Field,
}

/// What a key is under a `KubeletConfiguration`.
pub(super) enum Kubelet {
    /// A key there too.
    Key {
        name: &'static str,
        default: &'static str,
    },
    /// No key; what the kubelet always does.
    Rule(&'static str),
    /// None of its business: ours, with our default.
    Same,
    /// Only the `config` of a simulation has it.
    Simulated,
}

/// How a key is read into the configuration and shown from it.
pub(super) enum Field {
    /// One value.
    One {
        read: fn(&mut Effective, &Node) -> Result<(), Vec<Fault>>,
        show: fn(&Effective) -> Json,
    },
    /// A map by signal, whose entries are merged.
    Signals {
        map: fn(&mut Effective) -> &mut BTreeMap<String, String>,
        get: fn(&Effective) -> &BTreeMap<String, String>,
        /// What `null` stands for, where an entry can be switched off.
        off: Option<&'static str>,
    },
}

impl Key {
    /// The name in a file of this kind; `None` where such files have no such key.
    pub(super) fn name(&self, kind: Kind, simulated: bool) -> Option<&'static str> {
        match (&self.kubelet, kind) {
            (Kubelet::Simulated, _) => simulated.then_some(self.path),
            (_, Kind::Evictd) => self.default.map(|_| self.path),
            (Kubelet::Key { name, .. }, Kind::Kubelet) => Some(name),
            (Kubelet::Rule(_) | Kubelet::Same, Kind::Kubelet) => None,
        }
    }

    /// The present value, as it would be written.
    pub(super) fn show(&self, effective: &Effective) -> Json {
        match self.field {
            Field::One { show, .. } => show(effective),
            Field::Signals { get, .. } => get(effective).show(),
        }
    }
}

macro_rules! one {
    ($($field:ident).+) => { one!($($field).+, Value) };
    ($($field:ident).+, $with:ident) => {
        Field::One {
            read: |effective, node| {
                effective.$($field).+ = $with::read(node)?;
                Ok(())
            },
            show: |effective| $with::show(&effective.$($field).+),
        }
    };
}

macro_rules! signals {
    ($map:ident, $off:expr) => {
        Field::Signals {
            map: |effective| &mut effective.maps.$map,
            get: |effective| &effective.maps.$map,
            off: $off,
        }
    };
}

const fn key(
    path: &'static str,
    default: &'static str,
    kubelet: Kubelet,
    field: Field,
    why: &'static str,
) -> Key {
    Key {
        path,
        why,
        default: Some(default),
        kubelet,
        field,
    }
}

/// A key that an `EvictionConfiguration` does not have.
const fn only(path: &'static str, kubelet: Kubelet, field: Field, why: &'static str) -> Key {
    Key {
        path,
        why,
        default: None,
        kubelet,
        field,
    }
}

/// The same key in a kubelet's file.
const fn too(name: &'static str, default: &'static str) -> Kubelet {
    Kubelet::Key { name, default }
}

use Kubelet::{Rule, Same, Simulated};

/// Every key, in the order in which it is shown.
pub(super) const KEYS: &[Key] = &[
    key(
        "nodeName",
        r#""""#,
        Same,
        one!(node_name),
        "This node's name; empty: the environment's NODE_NAME, else the host name.",
    ),
    key(
        "dryRun",
        "false",
        Same,
        one!(dry_run),
        "Decide and tell, but end nothing.",
    ),
    key(
        "housekeepingInterval",
        "1s",
        Rule("10s"),
        one!(housekeeping_interval, human_duration),
        "The longest sleep between two looks; it shortens by itself as a signal nears its threshold.",
    ),
    key(
        "memoryAvailable",
        "memAvailable",
        Rule("workingSet"),
        one!(memory_available),
        "memAvailable: the kernel's own estimate; workingSet: the kubelet's figure, which counts active page cache as used.",
    ),
    key(
        "nodeCgroup",
        r#""""#,
        Same,
        one!(node_cgroup),
        "A cgroup below the root whose limit and usage act as the node's; empty: the machine itself.",
    ),
    key(
        "evictionHard",
        "{memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, imagefs.available: 15%, imagefs.inodesFree: 5%, pid.available: 10%}",
        too(
            "evictionHard",
            "{memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, imagefs.available: 15%, imagefs.inodesFree: 5%}",
        ),
        signals!(hard, Some("0%")),
        "AdmissionAction at once below these (memory.psi and io.psi: above, as in 'full avg10 > 20% for 5s'); yours are merged over the defaults, and 0% or null turns one signal off.",
    ),
    key(
        "evictionSoft",
        "{}",
        too("evictionSoft", "{}"),
        signals!(soft, Some("0%")),
        "AdmissionAction below these once the grace period is over; above the hard ones, so that pods can end in good order.",
    ),
    key(
        "evictionSoftGracePeriod",
        "{}",
        too("evictionSoftGracePeriod", "{}"),
        signals!(soft_grace_period, None),
        "How long each soft threshold must have been crossed without a break; every soft one needs its own.",
    ),
    key(
        "evictionMinimumReclaim",
        "{}",
        too("evictionMinimumReclaim", "{}"),
        signals!(minimum_reclaim, None),
        "Once acting, go on until this much more than the threshold is available, so that the next crossing is not at once.",
    ),
    key(
        "evictionMaxPodGracePeriod",
        "null",
        too("evictionMaxPodGracePeriod", "0"),
        one!(max_pod_grace_period),
        "The most seconds a pod gets to end under a soft threshold; null or negative: as many as it asks for itself; 0: none.",
    ),
    key(
        "evictionHardGracePeriod",
        "0s",
        Rule("1s"),
        one!(hard_grace_period, whole_seconds),
        "What a pod gets to end under a hard threshold: nothing, since the kernel's OOM killer would not wait either.",
    ),
    key(
        "evictionPressureTransitionPeriod",
        "5m0s",
        too("evictionPressureTransitionPeriod", "5m0s"),
        one!(pressure_transition_period),
        "How long a node condition outlives its cause, so that it does not flap.",
    ),
    key(
        "enforceNodeAllocatable",
        "[pods]",
        too("enforceNodeAllocatable", "[pods]"),
        one!(enforce_node_allocatable),
        "With pods in it, the hard memory threshold also holds for the pods' own cgroup (allocatableMemory.available).",
    ),
    only(
        "mergeDefaultEvictionSettings",
        too("mergeDefaultEvictionSettings", "false"),
        one!(merge_default_eviction_settings),
        "Whether missing hard thresholds are filled in with the defaults.",
    ),
    only(
        "kernelMemcgNotification",
        too("kernelMemcgNotification", "false"),
        one!(kernel_memcg_notification),
        "Whether cgroup v1 tells of a crossed memory threshold at once; v2 knows no such thing.",
    ),
    key(
        "localStorageCapacityIsolation",
        "true",
        too("localStorageCapacityIsolation", "true"),
        one!(local_storage_capacity_isolation),
        "Enforce emptyDir size limits and ephemeral-storage limits.",
    ),
    only(
        "dedicatedImageFs",
        Simulated,
        one!(layout.dedicated_image_fs),
        "Images are on another filesystem than the kubelet's root directory.",
    ),
    only(
        "splitContainerFs",
        Simulated,
        one!(layout.split_container_fs),
        "Writable layers are on another filesystem than the images.",
    ),
    key(
        "pods.source",
        "auto",
        Same,
        one!(pods.source),
        "Where the pods come from: auto takes the richest source that answers at start; kubernetes: the API server; kubelet: its /pods; manifests; later cri.",
    ),
    key(
        "pods.manifests",
        "/etc/evictd/manifests",
        Same,
        one!(pods.manifests),
        "The directory of v1 Pod manifests of pods.source manifests.",
    ),
    key(
        "pods.staticPodPath",
        "/etc/kubernetes/manifests",
        too("staticPodPath", r#""""#),
        one!(pods.static_pod_path),
        "The kubelet's own manifests: static pods, which are never chosen; empty: none.",
    ),
    key(
        "kubernetes.kubeconfig",
        r#""""#,
        Same,
        one!(kubernetes.kubeconfig),
        "How to reach the API server; empty: this pod's service account, else $KUBECONFIG, else ~/.kube/config.",
    ),
    key(
        "kubernetes.context",
        r#""""#,
        Same,
        one!(kubernetes.context),
        "The context of that kubeconfig; empty: its current one.",
    ),
    key(
        "kubelet.url",
        r#""""#,
        Same,
        one!(kubelet.access.url),
        "Where this node's kubelet is asked for its pods (pods.source kubelet) and its thresholds; empty: port 10250 of the environment's NODE_IP, else of 127.0.0.1.",
    ),
    key(
        "kubelet.tokenFile",
        r#""""#,
        Same,
        one!(kubelet.access.token_file),
        "A file with the bearer token to ask it with; empty: this pod's service account, if it is one.",
    ),
    key(
        "kubelet.clientCertificate",
        r#""""#,
        Same,
        one!(kubelet.access.client_certificate),
        "A certificate in PEM to ask it with instead.",
    ),
    key(
        "kubelet.clientKey",
        r#""""#,
        Same,
        one!(kubelet.access.client_key),
        "The key of that certificate.",
    ),
    key(
        "kubelet.certificateAuthority",
        r#""""#,
        Same,
        one!(kubelet.access.certificate_authority),
        "Who vouches for the kubelet's certificate, in PEM; empty: what it signed for itself, else the cluster's authority.",
    ),
    key(
        "kubelet.insecure",
        "false",
        Same,
        one!(kubelet.access.insecure),
        "Trust whoever answers there: it gets the token, too.",
    ),
    key(
        "kubelet.rootDir",
        "/var/lib/kubelet",
        Same,
        one!(kubelet.root_dir),
        "The kubelet's --root-dir: what pods hold on disk is looked for in its pods directory, and what is not there is unknown.",
    ),
    key(
        "usage.source",
        "auto",
        Same,
        one!(usage.source),
        "Where each pod's usage comes from: auto, cgroup, summary (the kubelet's /stats/summary, up to 16 s old; cgroups while it does not answer); later cri.",
    ),
    key(
        "evict.method",
        "auto",
        Same,
        one!(evict.method),
        "How a pod is made to leave: auto, cgroup (its status says so, its processes are ended); delete: its object, too; eviction: under a soft threshold as its budget allows; later cri.",
    ),
    key(
        "evict.tell",
        "together",
        Same,
        one!(evict.tell),
        "When the API server is told of a hard eviction: together: the Node's taint, the pod's status and the kill are begun at once, and the kill waits for no answer; first: the kill waits for the answer, 50 ms at most. A pod that has a grace is told first in any case.",
    ),
    key(
        "admission",
        "report",
        Same,
        one!(admission),
        "What is done about a new pod that this node should not take while it is under pressure: off; report; reject: its status says Evicted and what runs of it is ended. Where pods come from manifests reject keeps out what does not fit, too, and ends others for a critical pod.",
    ),
    key(
        "conditions.types",
        "own",
        Same,
        one!(conditions.types),
        "own: our conditions beside the kubelet's; standard: its names, for a node whose kubelet does not evict.",
    ),
    key(
        "softTierFallback",
        "wait",
        Same,
        one!(soft_tier_fallback),
        "Where the polite way of a soft eviction is refused: wait until it is let or a hard threshold is crossed; evict: end the pod here.",
    ),
    key(
        "evictedPods.ttl",
        "null",
        Rule("null"),
        one!(evicted_pods.ttl),
        "How long pods that evictd evicted stay in the API, but for those of Jobs; null: for good.",
    ),
    key(
        "evictedPods.keepPerOwner",
        "null",
        Rule("null"),
        one!(evicted_pods.keep_per_owner),
        "How many of them one owner keeps on this node, the newest, but for a Job; null: all.",
    ),
    key(
        "cgroupRoots",
        "[kubepods, kubepods.slice]",
        Same,
        one!(cgroup_roots),
        "Cgroups that pods live in; nothing outside them is watched, counted or touched.",
    ),
    key(
        "priorityClasses",
        "{}",
        Same,
        one!(priority_classes),
        "Priorities by class name, for manifests with a priorityClassName and no priority.",
    ),
    key(
        "protect.namespaces",
        "[]",
        Rule("[]"),
        one!(protect.namespaces),
        "Pods in these namespaces are never chosen.",
    ),
    key(
        "protect.selectors",
        "[]",
        Rule("[]"),
        one!(protect.selectors),
        "Pods that match one of these label selectors are never chosen.",
    ),
    key(
        "futileEvictions",
        "3",
        Rule("0"),
        one!(futile_evictions),
        "After this many evictions in a row that did not help the pod goes that alone holds what is missing, and a pressure ends nobody more for a while; 0: never.",
    ),
    key(
        "evictWithoutRelief",
        "false",
        Rule("true"),
        one!(evict_without_relief),
        "Whether pods go though all that may go together cannot lift the signal to its threshold.",
    ),
    key(
        "unknownPods",
        "spare",
        Same,
        one!(unknown_pods),
        "Pods that have a cgroup here and that nobody lists: spare; rank: by usage, after those known to exceed their requests; static pods never.",
    ),
    key(
        "returningOwnerBackOff",
        "1h0m0s",
        Rule("0s"),
        one!(returning_owner_back_off),
        "The longest that a condition is held where pods of one owner come back and are evicted again: twice the transition period, doubled each time; 0s: never.",
    ),
    key(
        "unknownStats",
        "last",
        Rule("first"),
        one!(unknown_stats),
        "Where a pod without figures ranks: last, since nobody knows that it would help; first, as the kubelet.",
    ),
    key(
        "pidRank",
        "fairShare",
        Rule("kubelet"),
        one!(pid_rank),
        "Under PID pressure: fairShare takes pods above an even share of the ids first; kubelet goes by priority alone.",
    ),
    key(
        "memoryAndSwap",
        "either",
        Rule("either"),
        one!(memory_and_swap),
        "either: thresholds on memory and on swap.available each act alone; both: only while both are crossed, and memory alone where there is no swap.",
    ),
    key(
        "returningPodsLast",
        "true",
        Rule("false"),
        one!(returning_pods_last),
        "A pod that would come straight back here (DaemonSet) goes after its equals.",
    ),
    key(
        "podPreference.namespaces",
        "[]",
        Rule("[]"),
        one!(pod_preference.namespaces),
        "Namespaces whose pods may ask for a place by the annotation evictd.dev/eviction: prefer, avoid or never.",
    ),
    key(
        "metrics.address",
        r#""127.0.0.1:20261""#,
        Same,
        one!(metrics.address),
        "Where /metrics, /livez and /readyz are served; empty: nowhere. $(POD_IP):20261 takes the host from the environment.",
    ),
    key(
        "probes.address",
        r#""""#,
        Same,
        one!(probes.address),
        "Where /livez and /readyz are served besides, to probes that no other client can keep waiting; empty: nowhere.",
    ),
    key(
        "socket",
        "/run/evictd/evictd.sock",
        Same,
        one!(socket),
        "The Unix socket that status, rank, top and history ask.",
    ),
    key(
        "stateDirectory",
        "/var/lib/evictd",
        Same,
        one!(state_directory),
        "Where the history of decisions is kept.",
    ),
    key(
        "runtimeDirectory",
        "/run/evictd",
        Same,
        one!(runtime_directory),
        "Where a restart finds the pods last known, a pause, and decisions that no disk has yet; should be in memory (tmpfs).",
    ),
    key(
        "roots.proc",
        "/proc",
        Same,
        one!(roots.proc),
        "Where procfs is mounted; in a container, the host's.",
    ),
    key(
        "roots.cgroup",
        "/sys/fs/cgroup",
        Same,
        one!(roots.cgroup),
        "Where the cgroup hierarchies are mounted; in a container, the host's.",
    ),
    key(
        "filesystems.nodefs",
        r#""""#,
        Same,
        one!(filesystems.nodefs),
        "A path on the filesystem of the kubelet's root directory; empty: found by itself.",
    ),
    key(
        "filesystems.imagefs",
        r#""""#,
        Same,
        one!(filesystems.imagefs),
        "A path on the filesystem with the images; empty: found by itself.",
    ),
    key(
        "filesystems.containerfs",
        r#""""#,
        Same,
        one!(filesystems.containerfs),
        "A path on the filesystem with the containers' writable layers; empty: found by itself.",
    ),
];

/// Words that this version can already act on, where the others come later.
pub(super) const BUILT: [(&str, &[&str]); 3] = [
    (
        "pods.source",
        &["auto", "kubernetes", "kubelet", "manifests"],
    ),
    ("usage.source", &["auto", "cgroup", "summary"]),
    ("evict.method", &["auto", "cgroup", "delete", "eviction"]),
];
