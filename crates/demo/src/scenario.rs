//! The scenarios of the demo: a small node, pods with manifests, and the pod that should be evicted.

use super::worker::Role;
use evictd_document::Document;
use evictd_pod::{Pod, wire};
use evictd_signals::Signal;

/// Name of the namespace all pods of the demo are in.
pub(crate) const NAMESPACE: &str = "demo";

/// Name of the volume of each pod.
pub(crate) const VOLUME: &str = "data";

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Scenario {
    /// A pod allocates memory at 1 GiB a second
    Memory,
    /// A pod starts threads
    Pids,
    /// A pod fills a small filesystem
    Disk,
    /// A pod leaks memory slowly, crosses a soft threshold, and gets SIGTERM first
    Soft,
    /// The pod that takes memory is critical; another pod above its request is evicted
    Critical,
}

/// A pod of the scenario.
#[derive(Debug, Clone)]
pub struct Player {
    /// Its name.
    pub name: &'static str,
    /// Requests, as `memory: 64Mi`; empty for none.
    pub requests: &'static str,
    /// Whether its limits equal its requests.
    pub guaranteed: bool,
    /// Its priority class, if any.
    pub priority_class: Option<&'static str>,
    /// The role of its process.
    pub role: Role,
}

/// Everything about a scenario.
#[derive(Debug, Clone)]
pub struct Play {
    /// The pods; the last one is the hog.
    pub players: Vec<Player>,
    /// Hard thresholds, signal and value; all others are off.
    pub hard: &'static [(&'static str, &'static str)],
    /// Further lines of the configuration.
    pub settings: &'static str,
    /// The pod that should be evicted.
    pub expected: &'static str,
    /// The limit of process ids.
    pub most_pids: Option<u32>,
    /// Size of the small filesystem in bytes.
    pub disk_bytes: Option<u64>,
}

/// Memory of the node.
pub(crate) const NODE_BYTES: i64 = 512 << 20;

impl Scenario {
    /// The name on the command line and in the result.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Disk => "disk",
            Self::Soft => "soft",
            Self::Critical => "critical",
        }
    }

    /// One sentence for the picture.
    pub fn story(self) -> &'static str {
        match self {
            Self::Memory => {
                "hog takes 1 GiB/s of a 512 MiB node: it must be evicted before the OOM killer acts"
            }
            Self::Pids => {
                "hog starts thread after thread: it must be evicted while process ids are left"
            }
            Self::Disk => "hog fills the disk: it must be evicted while others can still write",
            Self::Soft => {
                "hog leaks slowly past a soft threshold: after the grace period it gets SIGTERM"
            }
            Self::Critical => {
                "hog is critical and never evicted: another pod above its request must be"
            }
        }
    }

    /// The pods and limits of this scenario.
    pub fn play(self) -> Play {
        let hog = |role: Role| Player {
            name: "hog",
            requests: "{cpu: 100m, memory: 32Mi}",
            guaranteed: false,
            priority_class: None,
            role,
        };
        let mut play = Play {
            players: neighbours(),
            hard: &[("memory.available", "160Mi")],
            settings: "",
            expected: "demo/hog",
            most_pids: None,
            disk_bytes: None,
        };
        match self {
            Self::Memory => play.players.push(hog(Role::grow("600Mi", "1Gi"))),
            Self::Pids => {
                play.hard = &[("pid.available", "100")];
                play.most_pids = Some(400);
                play.players.push(hog(Role::start_threads(1000, "500")));
            }
            Self::Disk => {
                play.hard = &[("nodefs.available", "16Mi")];
                play.disk_bytes = Some(64 << 20);
                play.players.push(hog(Role::fill("64Mi", "32Mi")));
            }
            Self::Soft => {
                play.hard = &[("memory.available", "48Mi")];
                play.settings = "evictionSoft: {memory.available: 160Mi}
evictionSoftGracePeriod: {memory.available: 2s}
evictionMaxPodGracePeriod: 3";
                play.players.push(hog(Role::grow("340Mi", "160Mi")));
            }
            Self::Critical => play.make_hog_critical(hog(Role::grow("260Mi", "256Mi"))),
        }
        play
    }
}

impl Play {
    /// Makes the hog critical. The other pod is large enough that its eviction suffices, and the hog stops 32 MiB
    /// below the limit.
    fn make_hog_critical(&mut self, mut hog: Player) {
        for player in &mut self.players {
            if player.name == "burstable" {
                player.role = Role::hold("160Mi");
            }
        }
        hog.priority_class = Some("system-node-critical");
        self.expected = "demo/burstable";
        self.players.push(hog);
    }
}

impl Play {
    /// `namespace/name` of all pods that should survive.
    pub fn others(&self) -> Vec<String> {
        let names = self.players.iter().map(Player::full_name);
        names.filter(|name| name != self.expected).collect()
    }

    /// All hard thresholds: those of the scenario, and all defaults switched off.
    pub fn eviction_hard(&self) -> String {
        let defaults = Signal::ALL.into_iter().map(Signal::as_str);
        let off = defaults.filter(|signal| self.hard.iter().all(|(of_play, _)| of_play != signal));
        let entries = self
            .hard
            .iter()
            .map(|(signal, value)| format!("{signal}: '{value}'"));
        let all: Vec<String> = entries
            .chain(off.map(|signal| format!("{signal}: null")))
            .collect();
        format!("{{{}}}", all.join(", "))
    }
}

/// Three small pods, one of each QoS class.
fn neighbours() -> Vec<Player> {
    let player = |name, requests, guaranteed, hold| Player {
        name,
        requests,
        guaranteed,
        priority_class: None,
        role: Role::hold(hold),
    };
    vec![
        player("guaranteed", "{cpu: 100m, memory: 64Mi}", true, "24Mi"),
        player("burstable", "{cpu: 100m, memory: 32Mi}", false, "16Mi"),
        player("besteffort", "", false, "8Mi"),
    ]
}

impl Player {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{NAMESPACE}/{}", self.name)
    }

    /// The pod as its manifest has it.
    pub fn pod(&self, cgroup: &str, has_volume: bool) -> Pod {
        let read = Document::new("the demo", self.manifest(cgroup, has_volume))
            .and_then(|document| document.pod());
        // A wrong manifest becomes an empty pod, which the tests detect.
        let mut pod = read.unwrap_or_else(|_| Pod::from_wire(wire::Pod::default()));
        self.name.clone_into(&mut pod.uid);
        pod
    }

    /// The manifest, with the pod's cgroup, and with a volume that ends with the pod if it needs one.
    pub fn manifest(&self, cgroup: &str, has_volume: bool) -> String {
        let requests = match self.requests {
            "" => String::new(),
            requests => format!("    resources:\n      requests: {requests}\n"),
        };
        let limits = if self.guaranteed {
            format!("      limits: {}\n", self.requests)
        } else {
            String::new()
        };
        let class = self.priority_class.map_or(String::new(), |class| {
            format!("  priorityClassName: {class}\n")
        });
        let volumes = if has_volume {
            format!("  volumes:\n  - name: {VOLUME}\n    emptyDir: {{}}\n")
        } else {
            String::new()
        };
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  uid: {name}\n  namespace: {NAMESPACE}\n  annotations: {{evictd.dev/cgroup: {cgroup}}}\nspec:\n{class}{volumes}  containers:\n  - name: main\n    image: demo\n{requests}{limits}",
            name = self.name,
        )
    }
}
