//! The capability, deserved and guaranteed amounts of a queue: each alone, and beside its parent's and children's
//! (S6-084).

use super::amounts::{Amounts, shown};
use crate::Known;
use crate::field::Mistakes;
use crate::template::resources::check_quantity;
use evictd_batch_objects::{Queue, QueueSpec};
use evictd_pod::wire::ResourceList;

/// Amounts are right, and guarantee ≤ deserved ≤ capability.
pub(super) fn check_own(spec: &QueueSpec, mistakes: &mut Mistakes) {
    let path = "requestBody.spec";
    let (deserved, capability) = (&spec.deserved, &spec.capability);
    for (field, list) in [("capability", capability), ("deserved", deserved)] {
        for (name, amount) in list.iter() {
            check_quantity(name, *amount, &format!("{path}.{field}.{name}"), mistakes);
        }
    }
    check_device_classes(spec, mistakes);
    for (name, guaranteed) in spec.guarantee.resource.iter() {
        let of_guarantee = format!("{path}.guarantee.resource.{name}");
        check_quantity(name, *guaranteed, &of_guarantee, mistakes);
        let of_deserved = format!("{path}.deserved.{name}");
        match deserved.get(name) {
            None => {
                let why = format!("deserved[{name}] must be >= guarantee[{name}]={guaranteed}");
                mistakes.invalid(&of_deserved, "<nil>", &why);
            }
            Some(deserved) if deserved < guaranteed => {
                let why = format!(
                    "deserved[{name}]={deserved} must be >= guarantee[{name}]={guaranteed}"
                );
                mistakes.invalid(&of_deserved, &deserved.to_string(), &why);
            }
            Some(_) => {}
        }
    }
    for (name, amount) in deserved.iter() {
        if let Some(most) = capability.get(name).filter(|most| amount > *most) {
            let why = format!("deserved[{name}]={amount} must be <= capability[{name}]={most}");
            mistakes.invalid(
                &format!("{path}.deserved.{name}"),
                &amount.to_string(),
                &why,
            );
        }
    }
}

/// Volcano's quotas of device classes (S6-170) are refused, because sessions would not keep them.
fn check_device_classes(spec: &QueueSpec, mistakes: &mut Mistakes) {
    let lists = [
        ("capability", &spec.capability),
        ("deserved", &spec.deserved),
        ("guarantee.resource", &spec.guarantee.resource),
    ];
    for (field, list) in lists {
        for (name, amount) in list.iter() {
            if name.starts_with(DEVICE_CLASS) || name.contains(".deviceclass/") {
                let why = "quotas of device classes are not supported: limit the claims of the queue's namespaces by a ResourceQuota (CLASS.deviceclass.resource.k8s.io/devices)";
                let path = format!("requestBody.spec.{field}.{name}");
                mistakes.invalid(&path, &amount.to_string(), why);
            }
        }
    }
}

/// How the names of such quotas begin; the name of a dimension and a dot may come before.
const DEVICE_CLASS: &str = "deviceclass/";

/// Checks the capability against the ancestors, and the descendants against it.
pub(super) fn check_around(queue: &Queue, known: &Known) -> Result<(), String> {
    let parent = &queue.spec.parent;
    if !parent.is_empty() && parent != "root" {
        let found = known.queue(parent);
        let found = found.map_err(|error| format!("parent queue {parent} not found: {error}"))?;
        below_ancestors(queue, known)?;
        let name = &queue.metadata.name;
        let siblings = known.children(parent).into_iter();
        // The queue counts as it will be, not as it is.
        let siblings = siblings.filter(|sibling| sibling.metadata.name != *name);
        let said = format!("parent queue {parent}");
        sums(&said, found, siblings.chain([queue]))?;
    }
    let children = known.children(&queue.metadata.name);
    if children.is_empty() {
        return Ok(());
    }
    above_descendants(queue, &children, known)?;
    let said = format!("queue {}", queue.metadata.name);
    sums(&said, queue, children.into_iter())
}

fn below_ancestors(queue: &Queue, known: &Known) -> Result<(), String> {
    let capability = Amounts::of(&queue.spec.capability);
    for name in capability.names() {
        let most = ancestor_capability(queue, name, known);
        let amount = capability.get(name);
        if let Some(most) = most.filter(|most| amount > *most) {
            let (amount, most) = (shown(name, amount), shown(name, most));
            let queue = &queue.metadata.name;
            return Err(format!(
                "queue {queue} capability[{name}]={amount} exceeds its ancestor's capability={most}"
            ));
        }
    }
    Ok(())
}

/// The limit of the nearest ancestor that limits the resource.
fn ancestor_capability(queue: &Queue, resource: &str, known: &Known) -> Option<f64> {
    let mut seen = vec![queue.metadata.name.as_str()];
    let mut parent = queue.spec.parent.as_str();
    // Two queues can be each other's parents.
    while !matches!(parent, "" | "root") && !seen.contains(&parent) {
        seen.push(parent);
        let above = known.queue(parent).ok()?;
        let most = Amounts::of(&above.spec.capability).get(resource);
        if most > 0.0 {
            return Some(most);
        }
        parent = &above.spec.parent;
    }
    None
}

fn above_descendants(queue: &Queue, children: &[&Queue], known: &Known) -> Result<(), String> {
    let capability = Amounts::of(&queue.spec.capability);
    for name in capability.names() {
        let mut seen = vec![queue.metadata.name.as_str()];
        let below = most_below(children, name, known, &mut seen);
        let amount = capability.get(name);
        if amount < below {
            let (amount, below) = (shown(name, amount), shown(name, below));
            let queue = &queue.metadata.name;
            return Err(format!(
                "queue {queue} capability[{name}]={amount} is smaller than its descendants' max capability={below}"
            ));
        }
    }
    Ok(())
}

/// The highest limit of a resource among these queues, or among those below them where they have none.
fn most_below<'k>(
    queues: &[&'k Queue],
    resource: &str,
    known: &'k Known,
    seen: &mut Vec<&'k str>,
) -> f64 {
    let mut most = 0.0_f64;
    for queue in queues {
        // Two queues can be each other's parents; one that was seen is not looked at again.
        if seen.contains(&queue.metadata.name.as_str()) {
            continue;
        }
        seen.push(&queue.metadata.name);
        let capability = Amounts::of(&queue.spec.capability).get(resource);
        most = most.max(if capability > 0.0 {
            capability
        } else {
            most_below(&known.children(&queue.metadata.name), resource, known, seen)
        });
    }
    most
}

/// The guarantees and the deserved amounts of the children must each fit into the parent's.
fn sums<'q>(
    said: &str,
    parent: &Queue,
    children: impl Iterator<Item = &'q Queue>,
) -> Result<(), String> {
    type Part = fn(&QueueSpec) -> &ResourceList;
    let parts: [(&str, Part); 2] = [
        ("guarantee", |spec| &spec.guarantee.resource),
        ("deserved", |spec| &spec.deserved),
    ];
    let mut totals = [Amounts::default(), Amounts::default()];
    for child in children {
        for ((kind, part), total) in parts.iter().zip(&mut totals) {
            total.add(&Amounts::of(part(&child.spec)));
            let limit = Amounts::of(part(&parent.spec));
            if limit.is_exceeded_by(total) {
                return Err(format!(
                    "{said} validation failed: sum of children's {kind} ({total}) exceeds parent's {kind} limit ({limit})"
                ));
            }
        }
    }
    Ok(())
}
