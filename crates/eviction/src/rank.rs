//! The order in which pods are evicted, for each starved resource (S1-060 to S1-068).

use crate::rules::{Figures, FilesystemLayout, PidRank, Rules, UnknownStats};
use evictd_decision::{Excess, RankedPod, RequestNote, Spared, Unreachable};
use evictd_departures::{Departure, Departures, Stage};
use evictd_pod::{
    Pod, Quantity,
    pod::Volume,
    resources::{EPHEMERAL_STORAGE, MEMORY},
};
use evictd_signals::{Signal, StarvedResource};
use evictd_usage::{
    Extent, FsUsage, PodUsage, Usage,
    figure::{Amount, Bytes, Figure, Source, Unit, kubelet, sum},
};
use jiff::Timestamp;
use std::borrow::Borrow;
use std::{cmp::Reverse, collections::BTreeSet};

/// Which parts of a pod's disk usage count for a signal (S1-064 to S1-066). Images have no usage figure of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskParts {
    /// Whether the containers' writable layers count.
    pub rootfs: bool,
    /// Whether the containers' logs count.
    pub logs: bool,
    /// Whether the volumes that live and end with the pod count.
    pub volumes: bool,
}

impl DiskParts {
    /// The parts that count for this signal with this filesystem layout.
    pub const fn of(signal: Signal, layout: FilesystemLayout) -> Self {
        use Signal::{
            ContainerfsAvailable, ContainerfsInodesFree, ImagefsAvailable, ImagefsInodesFree,
        };
        let image = matches!(signal, ImagefsAvailable | ImagefsInodesFree);
        let container = matches!(signal, ContainerfsAvailable | ContainerfsInodesFree);
        let (rootfs, rest) = match (layout.dedicated_image_fs, layout.split_container_fs) {
            (true, true) => (!image, !image),
            (true, false) => (image || container, !(image || container)),
            (false, _) => (true, true),
        };
        Self {
            rootfs,
            logs: rest,
            volumes: rest,
        }
    }

    const fn nothing(self) -> bool {
        !(self.rootfs || self.logs || self.volumes)
    }

    /// The part of a pod's files that counts, `None` if it is entirely unknown; and whether a part is unknown yet.
    fn sum<U: Copy>(
        self,
        pod: &Pod,
        usage: &PodUsage,
        (rules, figure): (Figures, impl Fn(&FsUsage) -> Option<Figure<U>>),
    ) -> (Option<Figure<U>>, bool) {
        let mut sum = self.nothing().then_some(Figure::new(0));
        let mut unknown = false;
        let mut add = |part: &FsUsage| {
            unknown |= part.extent == Extent::Unknown;
            // The kubelet counts a volume wherever it lies.
            let elsewhere = part.extent == Extent::Elsewhere && rules == Figures::Evictd;
            if let Some(figure) = figure(part).filter(|_| !elsewhere) {
                sum = Some(sum.map_or(figure, |sum| sum + figure));
            }
        };
        for container in &usage.containers {
            if self.rootfs {
                add(&container.rootfs);
            }
            if self.logs {
                add(&container.logs);
            }
        }
        if self.rootfs {
            add(&usage.deleted.in_layers);
        }
        if self.volumes {
            add(&usage.deleted.on_disk);
            let ours = rules == Figures::Evictd;
            if ours {
                add(&usage.kubelet_files);
            }
            let counts = |volume: &&Volume| volume.local && (volume.host_path.is_none() || !ours);
            for volume in pod.volumes.iter().filter(counts) {
                let found = usage.volumes.iter().find(|used| used.name == volume.name);
                if let Some(used) = found {
                    add(&used.usage);
                }
            }
        }
        (sum, unknown)
    }
}

/// The inputs of a ranking, apart from the pods.
#[derive(Debug, Clone, Copy)]
pub struct Ranking<'a> {
    /// The signal that is to be relieved.
    pub signal: Signal,
    /// Its capacity, from which the even share of process ids is computed.
    pub capacity: i64,
    /// The rules of the kubelet, or those of evictd.
    pub rules: &'a Rules,
    /// The time of the ranking.
    pub now: Timestamp,
    /// Pods that were chosen before and have not left, or could not be terminated.
    pub departures: &'a Departures,
    /// UIDs of pods that cannot be terminated because no cgroup of theirs is known.
    pub without_cgroup: &'a BTreeSet<String>,
}

/// Sorting key: excess, preference, priority, returning and terminating as one number; then overage in two parts.
/// It is small because most of the time is spent comparing and moving keys. Equal pods keep their order in the
/// list.
type Key = (i64, Reverse<(i64, u64)>);

/// One pod's figures for the starved resource.
struct Figured {
    excess: Excess,
    usage: Option<Quantity>,
    gain: Option<Quantity>,
    swap: Quantity,
    request: Quantity,
    overage: Option<Quantity>,
    at_least: bool,
    partly_unknown: bool,
}

/// A pod's usage of the starved resource, in its unit.
struct Used<U> {
    figure: Figure<U>,
    /// The part of memory that is in swap, in addition to the figure.
    swap: i64,
    /// The amount of the signal that the pod's end frees; `None` where that cannot be predicted.
    gain: Option<i64>,
}

impl<U> Used<U> {
    /// All of it comes back when the pod ends.
    const fn gained(figure: Figure<U>) -> Self {
        let gain = Some(figure.value);
        Self {
            figure,
            swap: 0,
            gain,
        }
    }
}

impl Ranking<'_> {
    /// All pods, the first victim first. Pods that are never chosen are ranked too, and marked (S1-045).
    pub fn of(&self, pods: &[impl Borrow<Pod>], usage: &Usage) -> Vec<RankedPod> {
        self.in_order(self.rows(pods, usage, (None, |_: &Pod| true)).collect())
    }

    /// The same once the wait for figures is over. Pods with an unknown part are taken to hold `lost`, the loss of the
    /// filesystem meanwhile.
    pub(crate) fn of_losing(
        &self,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
        lost: i64,
    ) -> Vec<RankedPod> {
        // Which of them has taken what is lost is not known, so each gets an equal share.
        let unknown = self.rows(pods, usage, (None, |_: &Pod| true));
        let unknown = unknown.filter(|row| row.partly_unknown).count().max(1);
        let each = lost / i64::try_from(unknown).unwrap_or(i64::MAX);
        self.in_order(
            self.rows(pods, usage, (Some(each), |_: &Pod| true))
                .collect(),
        )
    }

    /// Whether a pod could go first if more of it were known.
    pub(crate) fn is_open(&self, ranked: &[RankedPod]) -> bool {
        let mut may_go = ranked.iter().filter(|row| row.spared.is_none());
        let Some(first) = may_go.next() else {
            return false;
        };
        let first = self.key(first);
        may_go.filter(|row| row.partly_unknown).any(|row| {
            // The most that the unknown part could be: if even that does not make it the first, waiting is in vain.
            let most = RankedPod {
                excess: Excess::Exceeds,
                overage: Some(Quantity::bytes(i64::MAX)),
                ..row.clone()
            };
            self.key(&most) < first
        })
    }

    fn in_order(&self, mut rows: Vec<RankedPod>) -> Vec<RankedPod> {
        if self.growth_counts() {
            rows.sort_by_cached_key(|row| (self.key(row), Reverse(row.growth)));
        } else {
            rows.sort_by_cached_key(|row| self.key(row));
        }
        rows
    }

    /// The pods that were chosen before and have not left, in any order.
    pub(crate) fn of_terminating(
        &self,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Vec<RankedPod> {
        let is_dying = |pod: &Pod| self.departures.is_terminating(&pod.uid);
        self.rows(pods, usage, (None, is_dying)).collect()
    }

    fn rows(
        &self,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
        (lost, wanted): (Option<i64>, impl Fn(&Pod) -> bool),
    ) -> impl Iterator<Item = RankedPod> {
        let share = self.share(usage);
        pods.iter()
            .map(Borrow::borrow)
            .enumerate()
            .filter(move |(_, pod)| wanted(pod))
            .map(move |(index, pod)| {
                let figures = self.figures(pod, usage.of(index), (share, lost));
                let growth = usage.of(index).and_then(|usage| usage.disk_growth);
                let growth = growth.filter(|_| self.growth_counts());
                RankedPod {
                    growth,
                    ..self.row(index, pod, &figures)
                }
            })
    }

    fn row(&self, index: usize, pod: &Pod, figures: &Figured) -> RankedPod {
        RankedPod {
            index,
            pod: pod.shared_name(),
            overdue: self.departures.is_overdue(&pod.uid, self.now),
            excess: figures.excess,
            preference: self.rules.preference(pod).unwrap_or_default(),
            returns: self.rules.returning_pods_last && pod.returns_to_this_node(),
            priority: pod.priority(),
            terminating: self.rules.terminating_pods_first && pod.deletion_timestamp.is_some(),
            overage: figures.overage,
            growth: None,
            at_least: figures.at_least,
            partly_unknown: figures.partly_unknown,
            usage: figures.usage,
            gain: figures.gain,
            swap: figures.swap,
            request: figures.request,
            request_note: self.request_note(pod, figures.request),
            spared: self.spared(pod),
            qos: pod.qos,
        }
    }

    /// Why `request` is not the request in the pod's spec.
    fn request_note(&self, pod: &Pod, request: Quantity) -> Option<Box<RequestNote>> {
        let resource = match self.signal.resource() {
            StarvedResource::Memory => MEMORY,
            StarvedResource::EphemeralStorage => EPHEMERAL_STORAGE,
            _ => return None,
        };
        let reserved = pod.reserved(resource);
        let note = if request.is_zero() && reserved.is_positive() {
            RequestNote::Uncounted(reserved)
        } else {
            let (state, desired) = pod.pending_resize(resource)?;
            RequestNote::Resize { state, desired }
        };
        Some(Box::new(note))
    }

    fn key(&self, row: &RankedPod) -> Key {
        // One number for class, preference and priority, so that a sort compares once. A priority takes 34 bits.
        let mut class = i64::from(!row.overdue) * 5 + self.class(row.excess) as i64;
        class = class * 3 + row.preference as i64;
        // Returning pods count below priority: a tenant cannot raise a priority past the admission checks, but can
        // claim an owner in the pod's own manifest.
        let among_equals = i64::from(row.returns) * 2 + i64::from(!row.terminating);
        let within_class = i64::from(row.priority) * 4 + among_equals;
        (
            (class << 35) + within_class,
            Reverse(self.weight(row.overage)),
        )
    }

    /// The kubelet compares process counts without the excess key (S1-061), so pods of unknown usage are placed by
    /// the last key.
    fn class(&self, excess: Excess) -> Excess {
        if self.kubelet_pids() {
            Excess::Exceeds
        } else {
            excess
        }
    }

    fn growth_counts(&self) -> bool {
        let is_disk = self.signal.resource() == StarvedResource::EphemeralStorage;
        is_disk && self.rules.fastest_writer_first
    }

    fn kubelet_pids(&self) -> bool {
        self.signal.resource() == StarvedResource::Pids && self.rules.pid_rank == PidRank::Kubelet
    }

    fn weight(&self, overage: Option<Quantity>) -> (i64, u64) {
        let Some(overage) = overage else {
            return match self.rules.unknown_stats {
                UnknownStats::First => (i64::MAX, u64::MAX),
                UnknownStats::Last => (i64::MIN, 0),
            };
        };
        overage.nano_halves()
    }

    /// The even share of the node's process ids, or of all the bytes that pods read and wrote; zero under the
    /// kubelet's rules.
    fn share(&self, usage: &Usage) -> Quantity {
        if self.signal == Signal::IoPsi {
            let all = usage
                .pods
                .iter()
                .flatten()
                .filter_map(|usage| Some(usage.io?.value));
            let (count, sum) = all.fold((0_i64, 0_i64), |(count, sum), io| {
                (count + 1, sum.saturating_add(io))
            });
            // The mean of those that are known: a pod above it reads more than its even share.
            return Quantity::bytes(sum / count.max(1));
        }
        if self.signal.resource() != StarvedResource::Pids || self.kubelet_pids() {
            return Quantity::ZERO;
        }
        let counted = usage
            .pods
            .iter()
            .flatten()
            .filter(|usage| usage.processes.is_some());
        let pods = i64::try_from(counted.count().max(1)).unwrap_or(i64::MAX);
        Quantity::count(self.capacity / pods)
    }

    fn figures(
        &self,
        pod: &Pod,
        usage: Option<&PodUsage>,
        (share, lost): (Quantity, Option<i64>),
    ) -> Figured {
        let less = |request| move |used: Amount<Bytes>| used - request;
        match self.signal.resource() {
            StarvedResource::Memory => {
                let request = Amount::requested(self.rules.request(pod, MEMORY));
                self.compare(
                    usage.and_then(|usage| self.memory(usage)),
                    request,
                    less(request),
                )
            }
            StarvedResource::EphemeralStorage => {
                let request = Amount::requested(self.rules.request(pod, EPHEMERAL_STORAGE));
                let files = |usage| self.files((pod, usage), lost, |used| used.bytes);
                let (used, partly_unknown) = usage.map_or((None, false), files);
                Figured {
                    partly_unknown,
                    ..self.compare(used, request, less(request))
                }
            }
            StarvedResource::Inodes => {
                let files = |usage| self.files((pod, usage), lost, |used| used.inodes);
                let (used, partly_unknown) = usage.map_or((None, false), files);
                let bytes = Amount::requested(self.rules.request(pod, EPHEMERAL_STORAGE));
                let above = |used| match self.rules.figures {
                    Figures::Kubelet => kubelet::inodes_less_bytes(used, bytes),
                    Figures::Evictd => used,
                };
                Figured {
                    partly_unknown,
                    ..self.compare(used, Amount::ZERO, above)
                }
            }
            StarvedResource::Pids => {
                let used = self.known(usage.map(|usage| usage.processes));
                let share = Amount::whole(share.value());
                self.compare(used.map(Used::gained), share, |used| used - share)
            }
            StarvedResource::Io => {
                let used = usage.and_then(|usage| usage.io).map(|figure| Used {
                    figure,
                    swap: 0,
                    gain: None,
                });
                let share = Amount::requested(share);
                self.compare(used, share, less(share))
            }
        }
    }

    /// The keys of a pod with this usage. `above` is the part that counts in the last key.
    fn compare<U: Unit>(
        &self,
        used: Option<Used<U>>,
        request: Amount<U>,
        above: impl FnOnce(Amount<U>) -> Amount<U>,
    ) -> Figured {
        let Some(known) = used else {
            return Figured {
                excess: match self.rules.unknown_stats {
                    UnknownStats::First => Excess::UnknownFirst,
                    UnknownStats::Last => Excess::UnknownLast,
                },
                usage: None,
                gain: None,
                swap: Quantity::ZERO,
                request: request.quantity(),
                overage: None,
                at_least: false,
                partly_unknown: false,
            };
        };
        let swap = Amount::whole(known.swap);
        let used = Amount::from(known.figure) + swap;
        Figured {
            excess: if known.gain == Some(0) && self.rules.figures == Figures::Evictd {
                Excess::NoGain
            } else if used.exceeds(&request) {
                Excess::Exceeds
            } else {
                Excess::Within
            },
            usage: Some(used.quantity()),
            gain: known.gain.map(U::quantity),
            swap: swap.quantity(),
            request: request.quantity(),
            overage: Some(above(used).quantity()),
            at_least: !known.figure.complete,
            partly_unknown: false,
        }
    }

    /// A figure as the rules count it; the outer `None` is a pod without statistics.
    #[allow(
        clippy::option_option,
        reason = "a missing figure and a pod without statistics count differently"
    )]
    fn known<U>(&self, figure: Option<Option<Figure<U>>>) -> Option<Figure<U>> {
        match self.rules.figures {
            Figures::Kubelet => figure.map(kubelet::or_zero),
            Figures::Evictd => figure.flatten(),
        }
    }

    fn memory(&self, usage: &PodUsage) -> Option<Used<Bytes>> {
        let figure = self.known(Some(usage.working_set))?;
        let counted = usage.swap.filter(|_| self.rules.swap_counts);
        let swap = counted.map_or(0, |swap| swap.value);
        let gain = match self.signal {
            // Less waiting is no amount of memory.
            Signal::MemoryPsi => None,
            Signal::SwapAvailable => usage.swap.map(|swap| swap.value),
            _ => Some(figure.value),
        };
        Some(Used { figure, swap, gain })
    }

    /// The part of a pod's files that counts, and whether a part is unknown yet; such a part is taken to hold `lost`.
    fn files<U: Copy>(
        &self,
        (pod, usage): (&Pod, &PodUsage),
        lost: Option<i64>,
        figure: impl Fn(&FsUsage) -> Option<Figure<U>>,
    ) -> (Option<Used<U>>, bool) {
        let parts = DiskParts::of(self.signal, self.rules.layout);
        let (known, unknown) = parts.sum(pod, usage, (self.rules.figures, figure));
        let unknown = unknown && self.rules.figures == Figures::Evictd;
        let lost = lost.filter(|_| unknown).map(|lost| {
            let lost = Figure::new(lost).measured(Source::Loss, Some(self.now));
            lost.at_least(true)
        });
        let all = sum([known, lost].into_iter());
        (self.known(Some(all)).map(Used::gained), unknown)
    }

    /// Why this pod is passed over, if it is.
    pub(crate) fn spared(&self, pod: &Pod) -> Option<Spared> {
        let fate = self.departures.get(&pod.uid).map(Departure::stage);
        let is_overdue = || self.departures.is_overdue(&pod.uid, self.now);
        let unreachable = |why| Some(Spared::Unreachable(why));
        // Protection comes before the state of a departure, which may pass.
        self.rules.spares(pod).or_else(|| match fate {
            Some(Stage::Terminating { .. }) if !is_overdue() => Some(Spared::Dying),
            _ if self.without_cgroup.contains(&pod.uid) => unreachable(Unreachable::NoCgroup),
            Some(Stage::Failed { .. }) => unreachable(Unreachable::Failed),
            Some(Stage::Blocked { .. }) => unreachable(Unreachable::Budget),
            _ => None,
        })
    }
}
