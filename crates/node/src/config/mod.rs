//! The configuration: from a file of either kind to what takes effect, with every mistake and every setting's origin.

mod address;
mod effective;
mod keys;
mod mistake;
mod nearest;
mod node;
mod open;
mod read;
mod selector;
#[cfg(test)]
mod tests;
mod thresholds;
mod value;
mod word;
mod words;
mod write;

pub use address::{Address, NoSuchAddress};
pub use effective::{
    Conditions, Effective, Evict, Filesystems, Kind, Kubelet, Metrics, Origin, PodPreference, Pods,
    Probes, Roots, Usage,
};
pub use mistake::{Mistake, Refused};
pub use open::{DROP_INS, drop_ins, open};
pub use read::{Loaded, built_in, parse, parse_simulated};
pub use value::CgroupPath;
pub use words::{
    Admission, ConditionTypes, Enforcement, EvictMethod, MemoryAvailable, PodsSource,
    SoftTierFallback, Tell, UnknownPods, UsageSource,
};
pub use write::{Setting, commented_defaults};
