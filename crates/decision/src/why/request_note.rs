//! Words for a request that is not the one in the pod's spec.

use crate::RequestNote;
use evictd_signals::human_bytes;

impl std::fmt::Display for RequestNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Resize { state, desired } => {
                let (desired, state) = (human_bytes(desired.value()), state.as_str());
                write!(f, "a resize to {desired} is {state}")
            }
            Self::Uncounted(reserved) => {
                let reserved = human_bytes(reserved.value());
                write!(
                    f,
                    "the kubelet counts nothing of the {reserved} that it requested"
                )
            }
        }
    }
}
