//! Who attaches a volume: its CSI driver, or the one that has taken over a kind of disk that Kubernetes once attached itself.
//! Nodes count such a disk among that driver's volumes.

use evictd_pod::wire::{NamedDisk, PersistentVolume};
use std::borrow::Cow;

const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";
const AZURE: &str = "disk.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";
const PORTWORX: &str = "pxd.portworx.com";

/// The driver that attaches the volumes of a class, by the class's provisioner.
pub(crate) fn by_provisioner(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/aws-ebs" => EBS,
        "kubernetes.io/gce-pd" => GCE,
        "kubernetes.io/azure-disk" => AZURE,
        "kubernetes.io/cinder" => CINDER,
        "kubernetes.io/portworx-volume" => PORTWORX,
        driver => driver,
    }
}

/// The driver that attaches a disk that a pod names itself.
pub(crate) fn of_disk(kind: &str) -> Option<&'static str> {
    match kind {
        "awsElasticBlockStore" => Some(EBS),
        "gcePersistentDisk" => Some(GCE),
        _ => None,
    }
}

/// The driver that attaches a volume, and its name for it; `None` if none does, or if it has no name.
pub(crate) fn of_volume(wire: &PersistentVolume) -> Option<(&str, Cow<'_, str>)> {
    let spec = &wire.spec;
    let (driver, handle) = if let Some(csi) = &spec.csi {
        (csi.driver.as_str(), Cow::from(csi.volume_handle.as_str()))
    } else if let Some(disk) = &spec.gce_persistent_disk {
        (GCE, with_zone(wire, disk))
    } else if let Some(disk) = &spec.aws_elastic_block_store {
        (EBS, Cow::from(without_zone(&disk.name)))
    } else {
        let others = [
            (AZURE, &spec.azure_disk),
            (CINDER, &spec.cinder),
            (PORTWORX, &spec.portworx_volume),
        ];
        let mut others = others.into_iter();
        let (driver, disk) = others.find_map(|(driver, disk)| Some((driver, disk.as_deref()?)))?;
        (driver, Cow::from(disk.name.as_str()))
    };
    (!driver.is_empty() && !handle.is_empty()).then_some((driver, handle))
}

/// Disks of different zones may have one name.
fn with_zone<'v>(wire: &PersistentVolume, disk: &'v NamedDisk) -> Cow<'v, str> {
    let labels = [
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ];
    let mut zones = labels
        .iter()
        .filter_map(|label| wire.metadata.labels.get(label));
    zones.find(|zone| !zone.is_empty()).map_or_else(
        || Cow::from(disk.name.as_str()),
        |zone| Cow::from(format!("{zone}/{}", disk.name)),
    )
}

/// `aws://zone/vol-1` is the same as `vol-1`.
fn without_zone(id: &str) -> &str {
    let path = id.strip_prefix("aws://");
    path.map_or(id, |path| path.rsplit('/').next().unwrap_or(path))
}
