//! The configuration: reads either kind of file, reports every mistake, and records the origin of every setting.

mod address;
mod effective;
mod flags;
mod image_gc;
mod key;
mod keys;
mod mistake;
mod node;
mod open;
mod pattern;
mod read;
mod reader;
mod restart;
mod schema;
mod selector;
mod simulated;
#[cfg(test)]
mod tests;
mod thresholds;
mod value;
mod values;
mod word;
mod words;
mod write;

pub use address::{Address, NoSuchAddress};
pub use effective::{
    Conditions, Effective, Evict, Filesystems, ImageGc, Kind, Kubelet, Metrics, Origin,
    PodPreference, Pods, Probes, Roots, Usage,
};
pub use mistake::{Mistake, Refused};
pub use open::{DROP_INS, drop_ins, open};
pub use read::{Loaded, built_in, parse};
pub use schema::json_schema;
pub use simulated::{Simulated, parse_simulated};
pub use values::CgroupPath;
pub use words::{
    Admission, ConditionTypes, Enforcement, EvictMethod, ImageGcMode, MemoryAvailable,
    MemoryReclaim, PodsSource, PriorityUnknown, SoftTierFallback, Tell, UnknownPods, UsageSource,
};
pub use write::{Documented, Setting, commented_defaults, documented};
