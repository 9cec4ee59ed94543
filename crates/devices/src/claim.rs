//! Claims and classes with compiled selectors.

use crate::MOST_DEVICES;
use crate::selectors::{Selector, Selectors};
use evictd_pod::wire;
use std::sync::Arc;

/// The maximum total length of a claim's selectors, because compiling takes time. The API server allows up to 1024
/// selectors of 10 KiB each.
const MOST_TEXT: usize = 64 * 1024;

/// A `DeviceClass`.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) selectors: Vec<OwnSelector>,
    pub(crate) config: Vec<serde_json::Map<String, serde_json::Value>>,
}

impl Class {
    pub(crate) fn new(wire: wire::DeviceClass, known: &mut Selectors) -> Self {
        Self {
            selectors: selectors_of(&wire.spec.selectors, known),
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
    /// It requests a share of a device's capacity, which is not supported.
    wants_share: bool,
}

/// A subrequest and its class.
#[derive(Clone, Copy)]
pub(crate) struct ResolvedSubrequest<'a> {
    pub(crate) subrequest: &'a Subrequest,
    pub(crate) class: &'a Class,
}

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
            tolerations: wire.tolerations.clone(),
            is_admin: wire.admin_access == Some(true),
            wants_share: wire.capacity.is_some(),
        }
    }
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
            wire,
        }
    }

    /// `namespace/name`.
    pub(crate) fn full_name(&self) -> String {
        self.wire.metadata.full_name()
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        let subrequests = self
            .requests
            .iter()
            .flat_map(|request| &request.subrequests);
        subrequests
            .flat_map(|subrequest| subrequest.selectors.iter().flatten())
            .map(|selector| &**selector)
    }

    /// Why no node can serve it, with kube-scheduler's message if there is one. `class` finds a class by name.
    pub(crate) fn mistake<'c>(&self, class: &dyn Fn(&str) -> Option<&'c Class>) -> Option<String> {
        let name = self.full_name();
        if self
            .selectors()
            .map(|selector| selector.text().len())
            .sum::<usize>()
            > MOST_TEXT
        {
            return Some(format!(
                "claim {name}: its selectors have more than {MOST_TEXT} bytes"
            ));
        }
        let mut least = 0usize;
        for request in &self.requests {
            if request.subrequests.is_empty() {
                let request = &request.name;
                return Some(format!(
                    "resource claim {name}, request {request}: unknown request type"
                ));
            }
            for subrequest in &request.subrequests {
                if let Some(mistake) = self.mistake_of(subrequest, class) {
                    return Some(mistake);
                }
            }
            let counts = request
                .subrequests
                .iter()
                .map(|subrequest| match subrequest.count {
                    Count::Exactly(count) => count,
                    Count::All | Count::Unknown(_) => 1,
                });
            least = least.saturating_add(counts.min().unwrap_or(0));
        }
        if least > MOST_DEVICES {
            return Some(format!(
                "claim {name}: number of requested devices {least} exceeds the claim limit of {MOST_DEVICES}"
            ));
        }
        let constraints = &self.wire.spec.devices.constraints;
        let unknown = constraints
            .iter()
            .position(|constraint| constraint.match_attribute.is_none());
        unknown.map(|index| {
            format!(
                "claim {name}, constraint #{index}: empty constraint (unsupported constraint type?)"
            )
        })
    }

    fn mistake_of<'c>(
        &self,
        subrequest: &Subrequest,
        class: &dyn Fn(&str) -> Option<&'c Class>,
    ) -> Option<String> {
        let (claim, request) = (self.full_name(), &subrequest.name);
        if subrequest.class.is_empty() {
            return Some(format!("request {request}: unsupported request type"));
        }
        let Some(class) = class(&subrequest.class) else {
            let class = &subrequest.class;
            return Some(format!(
                "request {request}: device class {class} does not exist"
            ));
        };
        if let Count::Unknown(mode) = &subrequest.count {
            return Some(format!(
                "claim {claim}, request {request}: unsupported count mode {mode}"
            ));
        }
        if subrequest.wants_share {
            return Some(format!(
                "claim {claim}, request {request}: asks for a share of a device's capacity, which this scheduler does not give"
            ));
        }
        let wrong = |selectors: &[OwnSelector]| {
            let mut selectors = selectors.iter().enumerate();
            selectors.find_map(|(index, selector)| {
                let unknown = "CEL expression empty (unsupported selector type?)";
                let error = selector.as_ref().map_or_else(
                    || Some(unknown.to_owned()),
                    |selector| Some(format!("CEL compile error: {}", selector.error()?)),
                )?;
                Some(format!("selector #{index}: {error}"))
            })
        };
        if let Some(wrong) = wrong(&class.selectors) {
            return Some(format!("class {}: {wrong}", class.name));
        }
        wrong(&subrequest.selectors)
            .map(|wrong| format!("claim {claim}, request {request}: {wrong}"))
    }
}
