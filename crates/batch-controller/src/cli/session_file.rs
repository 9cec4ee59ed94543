//! The file of a session, as `simulate` and `why` read it.

use evictd_batch::session::Objects;
use evictd_command::Failure;
use evictd_document::Document;
use evictd_pod::wire::null_is_default;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The group of the API that `podGroups` are of.
const VOLCANO: &str = "scheduling.volcano.sh";

/// That of Kubernetes' own groups.
const UPSTREAM: &str = "scheduling.k8s.io";

/// The fields by which groups of several APIs differ.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    #[serde(default, deserialize_with = "null_is_default")]
    pod_groups: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    #[serde(default, deserialize_with = "null_is_default")]
    api_version: String,
}

impl Version {
    fn group(&self) -> &str {
        let group = self.api_version.split_once('/');
        group.map_or("", |(group, _)| group)
    }

    /// Whether it is one of Volcano's; objects in such files need no version.
    fn is_of_volcano(&self) -> bool {
        matches!(self.group(), "" | VOLCANO)
    }
}

/// The objects, and warnings about pod groups of other APIs, which are left out.
pub(super) fn read(document: &Document) -> Result<(Objects, Vec<String>), Failure> {
    let mut objects: Objects = document.parse().map_err(Failure::input)?;
    if !document.text().contains("apiVersion") {
        return Ok((objects, Vec::new()));
    }
    let Versions { pod_groups } = document.parse().map_err(Failure::input)?;
    // By version the first and how many.
    let mut others: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (index, version) in pod_groups.iter().enumerate() {
        if !version.is_of_volcano() {
            others.entry(&version.api_version).or_insert((index, 0)).1 += 1;
        }
    }
    let warnings = others.into_iter().map(|(version, (index, count))| {
        let way = if version.starts_with(UPSTREAM) {
            "list those in upstreamPodGroups".to_owned()
        } else {
            format!("sessions read PodGroups of {VOLCANO} and {UPSTREAM}")
        };
        let more = match count - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("podGroups[{index}]{more}: PodGroups of {version} are left out; {way}")
    });
    let warnings = warnings.collect();
    let mut versions = pod_groups.iter();
    objects
        .pod_groups
        .retain(|_| versions.next().is_none_or(Version::is_of_volcano));
    Ok((objects, warnings))
}
