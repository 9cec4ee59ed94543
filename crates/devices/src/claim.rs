//! Claims and classes with compiled selectors.

use crate::selectors::{Selector, Selectors};
use evictd_pod::{Quantity, wire};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The maximum total length of a claim's selectors, because compiling takes time. The API server allows up to 1024
/// selectors of 10 KiB each.
const MOST_TEXT: usize = 64 * 1024;

/// A `DeviceClass`.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) selectors: Vec<OwnSelector>,
    pub(crate) config: Vec<serde_json::Map<String, serde_json::Value>>,
    /// The extended resource that it serves; may be empty.
    pub(crate) resource: String,
    pub(crate) created: Option<wire::Time>,
}

impl Class {
    pub(crate) fn new(wire: wire::DeviceClass, known: &mut Selectors) -> Self {
        Self {
            selectors: selectors_of(&wire.spec.selectors, known),
            resource: wire.spec.extended_resource_name,
            created: wire.metadata.creation_timestamp,
            name: wire.metadata.name,
            config: wire.spec.config,
        }
    }
}

/// A selector of a class or request; `None` for an unsupported kind.
type OwnSelector = Option<Arc<Selector>>;

fn selectors_of(selectors: &[wire::DeviceSelector], known: &mut Selectors) -> Vec<OwnSelector> {
    let cel = selectors.iter().map(|selector| selector.cel.as_ref());
    cel.map(|selector| selector.map(|cel| known.get(&cel.expression)))
        .collect()
}

/// A `ResourceClaim`.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) wire: wire::ResourceClaim,
    pub(crate) requests: Vec<Request>,
    kind: OnceLock<Arc<str>>,
}

/// One request of a claim: exactly one subrequest, or a list of alternatives.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) name: String,
    /// Whether it lists alternatives, even a single one.
    pub(crate) has_alternatives: bool,
    pub(crate) subrequests: Vec<Subrequest>,
}

/// A subrequest: devices of one class.
#[derive(Debug)]
pub(crate) struct Subrequest {
    /// The request's name; an alternative appends its own name after a slash.
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) count: Count,
    pub(crate) selectors: Vec<OwnSelector>,
    pub(crate) tolerations: Vec<wire::Toleration>,
    /// Admin access: devices in use count as available.
    pub(crate) is_admin: bool,
    /// The requested shares of capacities.
    pub(crate) capacity: BTreeMap<String, Quantity>,
}

/// A subrequest and its class.
#[derive(Clone, Copy)]
pub(crate) struct ResolvedSubrequest<'a> {
    pub(crate) subrequest: &'a Subrequest,
    pub(crate) class: &'a Class,
}

/// A subrequest by the indices of claim, request and alternative.
pub(crate) type At = (usize, usize, usize);

/// The number of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Count {
    Exactly(usize),
    All,
    /// An unknown allocation mode.
    Unknown(String),
}

impl Subrequest {
    fn new(name: String, wire: &wire::RequestedDevices, known: &mut Selectors) -> Self {
        Self {
            name,
            class: wire.device_class_name.clone(),
            count: match wire.allocation_mode.as_str() {
                "" | "ExactCount" => {
                    // A count that exceeds this machine's integers exceeds the claim limit, too.
                    Count::Exactly(usize::try_from(wire.count.unwrap_or(1)).unwrap_or(usize::MAX))
                }
                "All" => Count::All,
                other => Count::Unknown(other.to_owned()),
            },
            selectors: selectors_of(&wire.selectors, known),
            tolerations: wire.tolerations.iter().map(defaulted).collect(),
            is_admin: wire.admin_access == Some(true),
            capacity: wire
                .capacity
                .as_ref()
                .map(|capacity| capacity.requests.clone())
                .unwrap_or_default(),
        }
    }
}

impl Subrequest {
    /// Its name within its request, as errors have it.
    pub(crate) fn short_name(&self) -> &str {
        let alternative = self.name.split_once('/');
        alternative.map_or(&self.name, |(_, alternative)| alternative)
    }
}

/// With the operator that the API server fills in, because the allocation repeats the toleration.
fn defaulted(toleration: &wire::Toleration) -> wire::Toleration {
    let mut toleration = toleration.clone();
    if toleration.operator.is_empty() {
        "Equal".clone_into(&mut toleration.operator);
    }
    toleration
}

impl Claim {
    pub(crate) fn new(wire: wire::ResourceClaim, known: &mut Selectors) -> Self {
        let requests = wire.spec.devices.requests.iter().map(|request| {
            let name = &request.name;
            let subrequests = if let Some(exactly) = &request.exactly {
                vec![Subrequest::new(name.clone(), exactly, known)]
            } else {
                let choice = request.first_available.iter();
                choice
                    .map(|alternative| {
                        Subrequest::new(format!("{name}/{}", alternative.name), alternative, known)
                    })
                    .collect()
            };
            Request {
                name: name.clone(),
                has_alternatives: request.exactly.is_none(),
                subrequests,
            }
        });
        Self {
            requests: requests.collect(),
            kind: OnceLock::new(),
            wire,
        }
    }

    /// `namespace/name`.
    pub(crate) fn full_name(&self) -> String {
        self.wire.metadata.full_name()
    }

    /// A text that claims have in common which ask for the same.
    pub(crate) fn kind(&self) -> Arc<str> {
        let text = || format!("{:?}", self.wire.spec.devices).into();
        Arc::clone(self.kind.get_or_init(text))
    }

    fn subrequests(&self) -> impl Iterator<Item = &Subrequest> {
        let requests = self.requests.iter();
        requests.flat_map(|request| &request.subrequests)
    }

    /// Whether a subrequest has admin access.
    pub(crate) fn has_admin(&self) -> bool {
        self.subrequests().any(|subrequest| subrequest.is_admin)
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.subrequests()
            .flat_map(|subrequest| subrequest.selectors.iter().flatten())
            .map(|selector| &**selector)
    }

    /// The missing class of a request, in kube-scheduler's words.
    pub(crate) fn missing_class(&self, has_class: &dyn Fn(&str) -> bool) -> Option<String> {
        let mut missing = self.subrequests().filter_map(|subrequest| {
            let (request, class) = (&subrequest.name, &subrequest.class);
            if class.is_empty() {
                return Some(format!("request {request}: unsupported request type"));
            }
            (!has_class(class))
                .then(|| format!("request {request}: device class {class} does not exist"))
        });
        missing.next()
    }

    /// Why it is invalid, so that no node can serve it.
    pub(crate) fn mistake(&self) -> Option<String> {
        let name = self.full_name();
        let selectors = self.selectors().map(|selector| selector.text().len());
        if selectors.sum::<usize>() > MOST_TEXT {
            return Some(format!(
                "claim {name}: its selectors have more than {MOST_TEXT} bytes"
            ));
        }
        for request in &self.requests {
            if request.subrequests.is_empty() {
                let request = &request.name;
                return Some(format!(
                    "resource claim {name}, request {request}: unknown request type"
                ));
            }
            for subrequest in &request.subrequests {
                if let Count::Unknown(mode) = &subrequest.count {
                    let request = subrequest.short_name();
                    return Some(format!(
                        "claim {name}, request {request}: unsupported count mode {mode}"
                    ));
                }
            }
        }
        let mut constraints = self.wire.spec.devices.constraints.iter();
        let unknown = constraints.position(|constraint| {
            constraint.match_attribute.is_none() && constraint.distinct_attribute.is_none()
        });
        unknown.map(|index| {
            format!(
                "claim {name}, constraint #{index}: empty constraint (unsupported constraint type?)"
            )
        })
    }
}
