//! The claims of a pod, and `PreFilter` of `VolumeBinding`, which rejects a pod before any node is filtered.

use super::{Code, Filter, Here, Reason, Rejection};
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::storage::{ClaimState, PersistentClaim, PersistentVolume};
use crate::symbol::Symbol;
use crate::template::{Claim, Template, Volume};

/// The claims of a template's pods, with `None` for claims that the input does not hold.
pub(super) fn of<'c>(
    cluster: &'c Cluster,
    template: &'c Template,
) -> impl Iterator<Item = (Claim, Option<&'c PersistentClaim>)> {
    let claims = template.volumes.iter().filter_map(|volume| match volume {
        Volume::Claim(claim) => Some(*claim),
        Volume::Disk { .. } => None,
    });
    let known = &cluster.storage().claims;
    claims.map(move |claim| (claim, known.get(&(template.namespace, claim.name))))
}

/// The claims of a template's pods that the input holds.
pub(super) fn known<'c>(
    cluster: &'c Cluster,
    template: &'c Template,
) -> impl Iterator<Item = (Claim, &'c PersistentClaim)> {
    of(cluster, template).filter_map(|(claim, known)| Some((claim, known?)))
}

/// The volume of a bound or prebound claim.
pub(super) fn volume<'c>(
    cluster: &'c Cluster,
    claim: &PersistentClaim,
) -> Option<&'c PersistentVolume> {
    cluster.storage().volumes.get(&claim.volume?)
}

/// `namespace/name` of a claim.
pub(super) fn full_name(cluster: &Cluster, claim: &PersistentClaim) -> String {
    let text = |symbol| cluster.symbols().text(symbol);
    format!("{}/{}", text(claim.namespace), text(claim.name))
}

/// A volume for the attach limit. An existing volume counts by its handle, a volume still to be provisioned by its
/// claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Attachment {
    Handle(Symbol),
    Claim(Symbol, Symbol),
}

/// The driver that attaches a claim's volume; `None` if no driver does or it is unknown.
pub(super) fn attachment(
    cluster: &Cluster,
    claim: &PersistentClaim,
) -> Option<(Symbol, Attachment)> {
    if let Some(volume) = volume(cluster, claim) {
        let (driver, handle) = volume.attached?;
        return Some((driver, Attachment::Handle(handle)));
    }
    // A claim without an existing volume counts by its class, like a volume still to be provisioned.
    let class = cluster.storage().classes.get(&claim.class?)?;
    let attachment = Attachment::Claim(claim.namespace, claim.name);
    Some((class.attacher?, attachment))
}

/// The message about the first claim that does not exist (S5-093). A claim made for the pod may still be created.
pub(crate) fn missing(cluster: &Cluster, pod: &Pod) -> Option<String> {
    let mut claims = of(cluster, cluster.template(pod));
    let (claim, _) = claims.find(|(claim, known)| known.is_none() && !claim.ephemeral)?;
    let name = cluster.symbols().text(claim.name);
    Some(format!("persistentvolumeclaim {name:?} not found"))
}

/// The message about the first claim that no node can serve (S5-093).
pub(crate) fn unusable(cluster: &Cluster, pod: &Pod) -> Option<String> {
    let template = cluster.template(pod);
    for (claim, known) in of(cluster, template) {
        let Some(known) = known else {
            let name = cluster.symbols().text(claim.name);
            return Some(if claim.ephemeral {
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
                )
            } else {
                format!("persistentvolumeclaim {name:?} not found")
            });
        };
        if known.state == ClaimState::Lost || known.is_terminating {
            return Some(broken(cluster, known));
        }
    }
    let immediate = |claim: &PersistentClaim| {
        let class = claim
            .class
            .and_then(|class| cluster.storage().classes.get(&class));
        let is_delayed = class.is_some_and(|class| class.is_delayed);
        claim.state != ClaimState::Bound && (claim.volume.is_some() || !is_delayed)
    };
    let mut known = known(cluster, template);
    let any = known.any(|(_, claim)| immediate(claim));
    any.then(|| UNBOUND.to_owned())
}

/// The message about the first claim whose volume's reachability is unknown (S5-093).
pub(crate) fn unreachable(cluster: &Cluster, pod: &Pod) -> Option<String> {
    let text = |symbol| cluster.symbols().text(symbol);
    let mut claims = of(cluster, cluster.template(pod)).filter(|(claim, _)| !claim.ephemeral);
    claims.find_map(|(claim, known)| {
        let Some(known) = known else {
            let name = text(claim.name);
            return Some(format!("persistentvolumeclaim {name:?} not found"));
        };
        if let Some(volume) = known.volume {
            let missing = !cluster.storage().volumes.contains_key(&volume);
            return missing.then(|| format!("persistentvolume {:?} not found", text(volume)));
        }
        let Some(class) = known.class else {
            return Some("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
        };
        let Some(settings) = cluster.storage().classes.get(&class) else {
            let class = text(class);
            return Some(format!("storageclass.storage.k8s.io {class:?} not found"));
        };
        (!settings.is_delayed).then(|| "PersistentVolume had no name".to_owned())
    })
}

const UNBOUND: &str = "pod has unbound immediate PersistentVolumeClaims";

struct Claims(Rejection);

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let template = cluster.template(pod);
    let broken = known(cluster, template)
        .position(|(_, claim)| claim.state == ClaimState::Lost || claim.is_terminating)
        .map(|index| Rejection {
            code: Code::UnschedulableAndUnresolvable,
            // A pod has fewer than 2^32 volumes, so the fallback is never used.
            reason: Reason::Claim(u32::try_from(index).unwrap_or(u32::MAX)),
        });
    let unbound = || {
        known(cluster, template)
            .any(|(_, claim)| is_overdue(cluster, claim))
            .then(|| Rejection::unresolvable(UNBOUND))
    };
    let rejection = broken.or_else(unbound)?;
    Some(Box::new(Claims(rejection)))
}

/// Whether a claim must be bound before its pod is scheduled.
fn is_overdue(cluster: &Cluster, claim: &PersistentClaim) -> bool {
    let class = claim
        .class
        .map(|class| cluster.storage().classes.get(&class));
    let is_delayed = match class {
        None => false,
        // A class that the input does not hold has an unknown binding mode.
        Some(class) => class.is_none_or(|class| class.is_delayed),
    };
    claim.state != ClaimState::Bound && (claim.volume.is_some() || !is_delayed)
}

/// The message about the claim with this index.
pub(super) fn messages(cluster: &Cluster, pod: &Pod, index: u32) -> String {
    let claim = known(cluster, cluster.template(pod)).nth(index as usize);
    let Some((_, claim)) = claim else {
        return String::new();
    };
    broken(cluster, claim)
}

/// The message about a claim that is lost or being deleted.
fn broken(cluster: &Cluster, claim: &PersistentClaim) -> String {
    let text = |symbol| cluster.symbols().text(symbol);
    let name = text(claim.name);
    if claim.state == ClaimState::Lost {
        let volume = claim.volume.map_or("", text);
        return format!(
            "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
        );
    }
    format!("persistentvolumeclaim {name:?} is being deleted")
}

impl Filter for Claims {
    fn check(&self, _here: Here<'_>) -> Result<(), Rejection> {
        Err(self.0)
    }
}
