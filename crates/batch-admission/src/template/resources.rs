//! Requests and limits of a container, and names of resources.

use crate::field::Mistakes;
use crate::read::{amounts, list, text};
use evictd_pod::Quantity;
use evictd_pod::names;
use serde_json::Value;
use std::collections::BTreeSet;

const HUGE_PAGES: &str = "hugepages-";
/// Where Kubernetes counts whole things.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Beside those of containers and those that are counted.
const OTHER_STANDARD: [&str; 8] = [
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "storage",
    "requests.storage",
];

/// Checks `resources` of a container at this path; `claims` are the names of the pod's claims.
pub(super) fn check(
    resources: &Value,
    path: &str,
    claims: &BTreeSet<&str>,
    mistakes: &mut Mistakes,
) {
    let (limits, requests) = (amounts(resources, "limits"), amounts(resources, "requests"));
    for (name, limit) in limits.iter() {
        check_amount(name, *limit, &format!("{path}.limits[{name}]"), mistakes);
    }
    let of_requests = format!("{path}.requests");
    for (name, request) in requests.iter() {
        check_amount(name, *request, &format!("{of_requests}[{name}]"), mistakes);
        let shown = request.to_string();
        let exact = !may_overcommit(name);
        match limits.get(name) {
            Some(limit) if exact && limit != request => {
                let why = format!("must be equal to {name} limit of {limit}");
                mistakes.invalid(&of_requests, &shown, &why);
            }
            Some(limit) if request > limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                mistakes.invalid(&of_requests, &shown, &why);
            }
            // A missing request is set to the limit, but a missing limit to nothing.
            None if exact => mistakes.required(
                &format!("{path}.limits"),
                "Limit must be set for non overcommitable resources",
            ),
            _ => {}
        }
    }
    // A process on huge pages needs ordinary memory or a CPU, too.
    let any = |wanted: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(wanted);
    if any(|name| name.starts_with(HUGE_PAGES)) && !any(|name| matches!(name, "cpu" | "memory")) {
        mistakes.forbidden(path, "HugePages require cpu or memory");
    }
    check_claims(resources, path, claims, mistakes);
}

/// An amount that is not negative, and whole where whole things are counted.
pub(crate) fn check_quantity(name: &str, amount: Quantity, path: &str, mistakes: &mut Mistakes) {
    if amount.is_negative() {
        let why = "must be greater than or equal to 0";
        mistakes.invalid(path, &amount.to_string(), why);
    }
    let whole = COUNTED.contains(&name) || is_extended(name);
    if whole && amount.milli_value() % 1000 != 0 {
        mistakes.invalid(path, &amount.to_string(), "must be an integer");
    }
}

fn check_amount(name: &str, amount: Quantity, path: &str, mistakes: &mut Mistakes) {
    check_name(name, path, mistakes);
    check_quantity(name, amount, path, mistakes);
    let page = name.strip_prefix(HUGE_PAGES).map(str::parse::<Quantity>);
    let page = page.and_then(Result::ok).filter(Quantity::is_positive);
    if page.is_some_and(|page| amount.nano_value() % page.nano_value() != 0) {
        let why = format!("{amount} is not positive integer multiple of {name}");
        mistakes.invalid(path, &amount.to_string(), &why);
    }
}

fn check_name(name: &str, path: &str, mistakes: &mut Mistakes) {
    let wrong = names::qualified(name);
    if !wrong.is_empty() {
        mistakes.each_invalid(path, name, wrong);
    } else if !name.contains('/') && !is_standard(name) {
        let why = "must be a standard resource type or fully qualified";
        mistakes.invalid(path, name, why);
    }
    let slashes = name.matches('/').count();
    if slashes == 0 {
        if !OF_CONTAINERS.contains(&name) && !name.starts_with(HUGE_PAGES) {
            mistakes.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        mistakes.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

fn check_claims(resources: &Value, path: &str, claims: &BTreeSet<&str>, mistakes: &mut Mistakes) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in list(resources, "claims").iter().enumerate() {
        let (path, name) = (format!("{path}.claims[{index}]"), text(claim, "name"));
        if name.is_empty() {
            mistakes.required(&path, "");
            continue;
        }
        let key = match text(claim, "request") {
            "" => name.to_owned(),
            request => format!("{name}/{request}"),
        };
        if seen.contains(&key) || seen.contains(name) {
            mistakes.duplicate(&path, &key);
        }
        seen.insert(key);
        if !claims.contains(name) {
            mistakes.not_found(&path, name);
        }
    }
}

/// Whether more may be requested than there is.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

fn is_standard(name: &str) -> bool {
    OF_CONTAINERS.contains(&name)
        || COUNTED.contains(&name)
        || OTHER_STANDARD.contains(&name)
        || name.starts_with(HUGE_PAGES)
        || name.starts_with("requests.hugepages-")
}

/// One of Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// One of a device.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified(&format!("requests.{name}")).is_empty()
}

/// Whether a queue counts it beside cpu and memory.
pub(crate) fn is_scalar(name: &str) -> bool {
    let prefixed_native = name.contains('/') && name.contains("kubernetes.io/");
    is_extended(name)
        || prefixed_native
        || name.starts_with(HUGE_PAGES)
        || name.starts_with("attachable-volumes-")
}
