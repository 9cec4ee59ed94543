//! Claims and classes, with their selectors compiled.

use crate::MOST_DEVICES;
use crate::selectors::{Selector, Selectors};
use evictd_pod::wire;
use std::sync::Arc;

/// The selectors of a claim may have so many bytes in all, because it takes time to read them. The API server allows each of up to 1024
/// of them 10 KiB.
const MOST_TEXT: usize = 64 * 1024;

/// A class of devices.
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

/// A selector of a class or a request; `None` for one of an unknown kind.
type OwnSelector = Option<Arc<Selector>>;

fn selectors_of(selectors: &[wire::DeviceSelector], known: &mut Selectors) -> Vec<OwnSelector> {
    let cel = selectors.iter().map(|own| own.cel.as_ref());
    cel.map(|own| own.map(|cel| known.get(&cel.expression)))
        .collect()
}

/// A claim.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) wire: wire::ResourceClaim,
    pub(crate) requests: Vec<Request>,
}

/// One request of a claim: one thing that is asked for, or the first of several that can be had.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) name: String,
    /// Whether there is a choice, even of one.
    pub(crate) has_choice: bool,
    pub(crate) asks: Vec<Ask>,
}

/// Some devices of one class.
#[derive(Debug)]
pub(crate) struct Ask {
    /// The request's name, and for one of several alternatives its own after a slash.
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) count: Count,
    pub(crate) selectors: Vec<OwnSelector>,
    pub(crate) tolerations: Vec<wire::Toleration>,
    /// For monitoring: also devices that others have.
    pub(crate) is_admin: bool,
    /// It asks for a share of a device, which nobody gets here.
    takes_share: bool,
}

/// An ask with its class.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) class: &'a Class,
}

/// How many devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Count {
    Exactly(usize),
    All,
    /// In this mode, which is not known.
    Unknown(String),
}

impl Ask {
    fn new(name: String, wire: &wire::RequestedDevices, known: &mut Selectors) -> Self {
        Self {
            name,
            class: wire.device_class_name.clone(),
            count: match wire.allocation_mode.as_str() {
                "" | "ExactCount" => {
                    // Too many for this machine are too many for a claim.
                    Count::Exactly(usize::try_from(wire.count.unwrap_or(1)).unwrap_or(usize::MAX))
                }
                "All" => Count::All,
                other => Count::Unknown(other.to_owned()),
            },
            selectors: selectors_of(&wire.selectors, known),
            tolerations: wire.tolerations.clone(),
            is_admin: wire.admin_access == Some(true),
            takes_share: wire.capacity.is_some(),
        }
    }
}

impl Claim {
    pub(crate) fn new(wire: wire::ResourceClaim, known: &mut Selectors) -> Self {
        let requests = wire.spec.devices.requests.iter().map(|request| {
            let name = &request.name;
            let asks = if let Some(exactly) = &request.exactly {
                vec![Ask::new(name.clone(), exactly, known)]
            } else {
                let choice = request.first_available.iter();
                choice
                    .map(|own| Ask::new(format!("{name}/{}", own.name), own, known))
                    .collect()
            };
            Request {
                name: name.clone(),
                has_choice: request.exactly.is_none(),
                asks,
            }
        });
        Self {
            requests: requests.collect(),
            wire,
        }
    }

    /// `namespace/name`
    pub(crate) fn full_name(&self) -> String {
        let metadata = &self.wire.metadata;
        format!("{}/{}", metadata.namespace_or_default(), metadata.name)
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        let asks = self.requests.iter().flat_map(|request| &request.asks);
        asks.flat_map(|ask| ask.selectors.iter().flatten())
            .map(|own| &**own)
    }

    /// What keeps it from being allocated on any node, in kube-scheduler's words where it has some. `class` finds a class.
    pub(crate) fn mistake<'c>(&self, class: &dyn Fn(&str) -> Option<&'c Class>) -> Option<String> {
        let name = self.full_name();
        if self.selectors().map(|own| own.text().len()).sum::<usize>() > MOST_TEXT {
            return Some(format!(
                "claim {name}: its selectors have more than {MOST_TEXT} bytes"
            ));
        }
        let mut least = 0usize;
        for request in &self.requests {
            if request.asks.is_empty() {
                let request = &request.name;
                return Some(format!(
                    "resource claim {name}, request {request}: unknown request type"
                ));
            }
            for ask in &request.asks {
                if let Some(mistake) = self.mistake_of(ask, class) {
                    return Some(mistake);
                }
            }
            let counts = request.asks.iter().map(|ask| match ask.count {
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
            .position(|own| own.match_attribute.is_none());
        unknown.map(|index| {
            format!(
                "claim {name}, constraint #{index}: empty constraint (unsupported constraint type?)"
            )
        })
    }

    fn mistake_of<'c>(
        &self,
        ask: &Ask,
        class: &dyn Fn(&str) -> Option<&'c Class>,
    ) -> Option<String> {
        let (claim, request) = (self.full_name(), &ask.name);
        if ask.class.is_empty() {
            return Some(format!("request {request}: unsupported request type"));
        }
        let Some(class) = class(&ask.class) else {
            let class = &ask.class;
            return Some(format!(
                "request {request}: device class {class} does not exist"
            ));
        };
        if let Count::Unknown(mode) = &ask.count {
            return Some(format!(
                "claim {claim}, request {request}: unsupported count mode {mode}"
            ));
        }
        if ask.takes_share {
            return Some(format!(
                "claim {claim}, request {request}: asks for a share of a device's capacity, which this scheduler does not give"
            ));
        }
        let wrong = |selectors: &[OwnSelector]| {
            let mut selectors = selectors.iter().enumerate();
            selectors.find_map(|(index, own)| {
                let unknown = "CEL expression empty (unsupported selector type?)";
                let error = own.as_ref().map_or_else(
                    || Some(unknown.to_owned()),
                    |own| Some(format!("CEL compile error: {}", own.error()?)),
                )?;
                Some(format!("selector #{index}: {error}"))
            })
        };
        if let Some(wrong) = wrong(&class.selectors) {
            return Some(format!("class {}: {wrong}", class.name));
        }
        wrong(&ask.selectors).map(|wrong| format!("claim {claim}, request {request}: {wrong}"))
    }
}
