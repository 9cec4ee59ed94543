//! The requests that count while a pod is being resized in place: those of the spec, or those that the node reports.

use super::{Amount, Counted, Sum, amount};
use crate::resources::{CPU, MEMORY, is_sidecar};
use crate::wire::{Condition, Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceList};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Whether a resource can be set for a pod as a whole (KEP-2837).
pub fn has_pod_level(resource: &str) -> bool {
    matches!(resource, CPU | MEMORY) || resource.starts_with("hugepages-")
}

/// A list of requests in a spec.
#[derive(Debug, Clone, Copy)]
enum Place {
    Container(usize),
    InitContainer(usize),
    Pod,
}

/// A list that is replaced because other amounts count than those of the spec.
pub(super) struct Change {
    place: Place,
    requests: ResourceList,
}

impl Change {
    pub(super) fn apply(self, spec: &mut PodSpec) {
        let place = match self.place {
            Place::Container(index) => spec
                .containers
                .get_mut(index)
                .map(|container| &mut container.resources),
            Place::InitContainer(index) => {
                let container = spec.init_containers.get_mut(index);
                container.map(|container| &mut container.resources)
            }
            Place::Pod => spec.resources.as_mut(),
        };
        if let Some(resources) = place {
            resources.requests = self.requests;
        }
    }
}

/// Replaces the requests in the spec by the amounts that count. A shared spec is copied only if something changes.
pub fn settle(pod: &mut Pod, counted: Counted) {
    for change in changes(pod, counted) {
        change.apply(&mut pod.spec);
    }
}

/// Whether the node reports amounts of its own, which may differ from the spec. Only then the forms of counting can differ.
pub fn may_be_resized(pod: &Pod) -> bool {
    let status = &*pod.status;
    let lists = [&status.container_statuses, &status.init_container_statuses];
    lists.iter().any(|list| !list.is_empty())
        || status.allocated_resources.is_some()
        || status.resources.is_some()
}

/// Whether other amounts count than those of the spec.
pub fn differs(pod: &Pod, counted: Counted) -> bool {
    !changes(pod, counted).is_empty()
}

pub(super) fn changes(pod: &Pod, counted: Counted) -> Vec<Change> {
    // A status without resources is that of an older kubelet or of a pod that has not started.
    if counted == Counted::Desired || !may_be_resized(pod) {
        return Vec::new();
    }
    let counting = Counting {
        counted,
        infeasible: is_infeasible(&pod.status),
    };
    let containers = if counted == Counted::ScheduledSums {
        counting.largest_sums(pod)
    } else {
        counting.of_containers(pod)
    };
    let pod_level = counting
        .of_pod(&pod.spec, &pod.status)
        .map(|requests| Change {
            place: Place::Pod,
            requests,
        });
    containers.into_iter().chain(pod_level).collect()
}

/// The containers, then the init containers.
fn places(pod: &Pod) -> impl Iterator<Item = (Place, &Container)> {
    let containers = pod.spec.containers.iter().enumerate();
    let containers = containers.map(|(index, container)| (Place::Container(index), container));
    let init = pod.spec.init_containers.iter().enumerate();
    let init = init.map(|(index, container)| (Place::InitContainer(index), container));
    containers.chain(init)
}

/// Statuses are matched by name, because their order is not that of the spec.
fn status_of<'p>(pod: &'p Pod, container: &Container) -> Option<&'p ContainerStatus> {
    let status = &*pod.status;
    let mut statuses = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses);
    statuses.find(|status| status.name == container.name)
}

/// How the amounts of one pod count.
struct Counting {
    counted: Counted,
    infeasible: bool,
}

impl Counting {
    /// The containers whose own amounts differ from the spec.
    fn of_containers(&self, pod: &Pod) -> Vec<Change> {
        let changes = places(pod).filter_map(|(place, container)| {
            // Of the init containers only sidecars can be resized.
            if matches!(place, Place::InitContainer(_))
                && self.counted != Counted::Allocated
                && !is_sidecar(container)
            {
                return None;
            }
            let specified = &container.resources.requests;
            let requests = self.of_container(specified, status_of(pod, container)?);
            (*requests != *specified).then(|| Change {
                place,
                requests: requests.into_owned(),
            })
        });
        changes.collect()
    }

    /// Of each resource the amounts of one list count in all containers: those of the list with the largest sum (S7-225).
    fn largest_sums(&self, pod: &Pod) -> Vec<Change> {
        let containers: Vec<_> = places(pod)
            .map(|(place, container)| (place, container, self.lists(pod, container)))
            .collect();
        let differs = |(_, container, lists): &(Place, &Container, [Option<&ResourceList>; 3])| {
            let specified = &container.resources.requests;
            lists.iter().any(|list| *list != Some(specified))
        };
        if !containers.iter().any(differs) {
            return Vec::new();
        }
        let all = containers.iter().flat_map(|(_, _, lists)| lists);
        let names: BTreeSet<&str> = all.flatten().flat_map(|list| list.keys()).collect();
        let sum = |name: &str, list: usize| {
            let mut sum = Sum::default();
            for (place, container, lists) in &containers {
                let amount = lists[list].map(|list| amount(list, name));
                let amount = amount.unwrap_or_default();
                sum.add(match place {
                    Place::InitContainer(_) if is_sidecar(container) => Amount::Sidecar(amount),
                    Place::InitContainer(_) => Amount::Starting(amount),
                    _ => Amount::Running(amount),
                });
            }
            sum.of_containers()
        };
        let largest = |name: &str| {
            // The spec wins a tie, so that nothing changes then.
            let sums = [0, 1, 2].map(|list| sum(name, list));
            (1..3).fold(
                0,
                |best, list| if sums[list] > sums[best] { list } else { best },
            )
        };
        let chosen: Vec<(&str, usize)> = names.iter().map(|name| (*name, largest(name))).collect();
        let changes = containers.iter().filter_map(|(place, container, lists)| {
            let amounts = chosen.iter().filter_map(|(name, list)| {
                let amount = lists[*list]?.get(name)?;
                Some((*name, *amount))
            });
            let requests: ResourceList = amounts.collect();
            (requests != container.resources.requests).then_some(Change {
                place: *place,
                requests,
            })
        });
        changes.collect()
    }

    /// The desired, the reserved and the running amounts of a container. A node that has not reported one of them counts with
    /// the one before it.
    fn lists<'p>(&self, pod: &'p Pod, container: &'p Container) -> [Option<&'p ResourceList>; 3] {
        let specified = Some(&container.resources.requests);
        let status = status_of(pod, container);
        let allocated = status.and_then(|status| status.allocated_resources.as_ref());
        let running = status.and_then(|status| status.resources.as_ref());
        let running = running
            .map(|running| &running.requests)
            .filter(|requests| !requests.is_empty());
        if allocated.is_none() && running.is_none() {
            return [specified; 3];
        }
        // A resize that will never happen must not keep other pods off the node.
        let desired = specified.filter(|_| !self.infeasible);
        let allocated = allocated.or(desired);
        [desired, allocated, running.or(allocated)]
    }

    /// The requests of a container. The scheduler waits for the amounts that it runs with before it counts any other.
    fn of_container<'l>(
        &self,
        specified: &'l ResourceList,
        status: &'l ContainerStatus,
    ) -> Cow<'l, ResourceList> {
        let allocated = status.allocated_resources.as_ref();
        let actual = status.resources.as_ref().map(|running| &running.requests);
        match self.counted {
            Counted::Desired | Counted::ScheduledSums => Cow::Borrowed(specified),
            Counted::Allocated => reserved(specified, allocated),
            Counted::InUse => match reserved(specified, allocated) {
                Cow::Borrowed(reserved) => largest(Some(reserved), [actual, None]),
                Cow::Owned(reserved) => {
                    let most = largest(Some(&reserved), [actual, None]);
                    Cow::Owned(most.into_owned())
                }
            },
            Counted::Scheduled if actual.is_none() => Cow::Borrowed(specified),
            Counted::Scheduled => {
                // A resize that will never happen must not keep other pods off the node.
                let desired = (!self.infeasible).then_some(specified);
                largest(desired, [actual, allocated])
            }
        }
    }

    /// The pod-level requests, if they differ from the spec. The reported amounts of the whole pod include the
    /// overhead.
    fn of_pod(&self, spec: &PodSpec, status: &PodStatus) -> Option<ResourceList> {
        let specified = &spec.resources.as_ref()?.requests;
        // Without a request at pod level the reported sums are those of the containers, which count already.
        if !specified.keys().any(has_pod_level) {
            return None;
        }
        let reported = |list: &ResourceList| -> ResourceList {
            let amounts = list.iter().filter(|(name, _)| has_pod_level(name));
            let amounts = amounts.map(|(name, all)| (name, *all - amount(&spec.overhead, name)));
            amounts.filter(|(_, left)| !left.is_negative()).collect()
        };
        let allocated = status.allocated_resources.as_deref().map(reported);
        let running = status.resources.as_ref();
        let actual = running.map(|running| reported(&running.requests));
        if allocated.is_none() && actual.is_none() {
            return None;
        }
        // The node reports sums over the containers where the spec sets nothing at pod level.
        let of_pod = allocated.as_ref().map(|allocated| -> ResourceList {
            let set = allocated
                .iter()
                .filter(|(name, _)| specified.contains_key(name));
            set.map(|(name, amount)| (name, *amount)).collect()
        });
        let base = reserved(specified, of_pod.as_ref());
        let requests = match self.counted {
            Counted::Desired => Cow::Borrowed(specified),
            Counted::Allocated => Cow::Borrowed(&*base),
            Counted::InUse => largest(Some(&base), [actual.as_ref(), allocated.as_ref()]),
            Counted::Scheduled | Counted::ScheduledSums => {
                let desired = (!self.infeasible).then_some(specified);
                largest(desired, [actual.as_ref(), allocated.as_ref()])
            }
        };
        (*requests != *specified).then(|| requests.into_owned())
    }
}

/// The amounts that the node has reserved. Only cpu and memory can be resized, so the others are those of the spec where the
/// node leaves them out.
fn reserved<'l>(
    specified: &'l ResourceList,
    allocated: Option<&'l ResourceList>,
) -> Cow<'l, ResourceList> {
    let Some(allocated) = allocated else {
        return Cow::Borrowed(specified);
    };
    // Only CPU and memory can be resized, so what the allocation leaves out of the rest is as specified.
    let fixed = |name: &str| !matches!(name, CPU | MEMORY) && !allocated.contains_key(name);
    if !specified.keys().any(fixed) {
        return Cow::Borrowed(allocated);
    }
    let mut all = allocated.clone();
    for (name, amount) in specified.iter().filter(|(name, _)| fixed(name)) {
        all.insert(name, *amount);
    }
    Cow::Owned(all)
}

/// For each resource the largest amount of all lists.
fn largest<'l>(
    base: Option<&'l ResourceList>,
    others: [Option<&'l ResourceList>; 2],
) -> Cow<'l, ResourceList> {
    let exceeds = |list: &ResourceList| {
        list.iter().any(|(name, amount)| {
            let known = base.and_then(|base| base.get(name));
            known.is_none_or(|known| amount > known)
        })
    };
    // Most pods were never resized, so that their list need not be copied.
    if let Some(base) = base
        && !others.iter().flatten().any(|list| exceeds(list))
    {
        return Cow::Borrowed(base);
    }
    let mut most = base.cloned().unwrap_or_default();
    for (name, amount) in others.into_iter().flatten().flat_map(ResourceList::iter) {
        if most.get(name).is_none_or(|known| amount > known) {
            most.insert(name, *amount);
        }
    }
    Cow::Owned(most)
}

pub(super) fn pending(status: &PodStatus) -> Option<&Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.kind == "PodResizePending")
}

fn is_infeasible(status: &PodStatus) -> bool {
    pending(status).is_some_and(|condition| condition.reason == "Infeasible")
}
