//! The CSI driver that attaches a volume. In-tree disks have migrated to CSI drivers, and nodes count such a disk among
//! that driver's volumes.

use evictd_pod::wire::{NamedDisk, PersistentVolume};
use std::borrow::Cow;

const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";
const AZURE: &str = "disk.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";
const PORTWORX: &str = "pxd.portworx.com";

/// The driver that attaches the volumes of a provisioner's class.
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

/// The driver that attaches a disk which a pod names directly.
pub(crate) fn of_disk(kind: &str) -> Option<&'static str> {
    match kind {
        "awsElasticBlockStore" => Some(EBS),
        "gcePersistentDisk" => Some(GCE),
        _ => None,
    }
}

/// The driver that attaches a volume, and the driver's name for it. `None` without a driver or a name.
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

/// Prefixes the zone, because disks of different zones may share a name.
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

/// `aws://zone/vol-1` and `vol-1` name the same volume.
fn without_zone(id: &str) -> &str {
    let path = id.strip_prefix("aws://");
    path.map_or(id, |path| path.rsplit('/').next().unwrap_or(path))
}
