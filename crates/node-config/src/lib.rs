//! The configuration of the agent: a file of evictd's own kind or a kubelet's `KubeletConfiguration`.
//!
//! | for | look at |
//! |---|---|
//! | a configuration that is in force, with all defaults | [`Effective`], [`built_in`] |
//! | reading a file with its drop-ins, or a text | [`open`], [`drop_ins`], [`parse`] |
//! | every mistake with its place, its key and advice | [`Mistake`], [`Refused`] |
//! | where the value of a setting comes from | [`Origin`] |
//! | all settings with their texts, for the manual, the shipped file and editors | [`documented`], [`commented_defaults`], [`json_schema`] |
//!
//! Nothing here applies a setting; the agent of `evictd-node` does. A file is refused as a whole, with all of its mistakes:
//!
//! ```
//! use evictd_node_config::{Kind, parse};
//!
//! let head = "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\n";
//! let text = format!("{head}evictionHard:\n  memory.available: 200Mi\n");
//! let loaded = parse("evictd.yaml", &text).expect("a good file");
//! assert_eq!(loaded.effective.kind, Kind::Evictd);
//!
//! let refused = parse("evictd.yaml", &format!("{head}evictionHrad: {{}}\n")).expect_err("a misspelt key");
//! assert!(refused.to_string().contains("evictionHrad"));
//! assert_eq!(refused.mistakes.len(), 1);
//! ```

mod address;
mod effective;
mod flags;
mod image_gc;
mod key;
mod keys;
mod open;
mod pattern;
mod read;
mod reader;
mod refused;
mod restart;
mod schema;
mod selector;
mod simulated;
#[cfg(test)]
mod tests;
mod thresholds;
mod value;
mod values;
mod words;
mod write;

pub use address::{Address, NoSuchAddress};
pub use effective::{
    Conditions, Effective, Evict, Filesystems, ImageGc, Kind, Kubelet, Metrics, Origin,
    PodPreference, Pods, PreKillHook, Probes, RecordSettings, Roots, Usage,
};
pub use evictd_configuration::Mistake;
pub use open::{DROP_INS, drop_ins, open};
pub use read::{Loaded, built_in, parse};
pub use refused::Refused;
pub use schema::json_schema;
pub use simulated::{Simulated, parse_simulated};
pub use values::CgroupPath;
pub use words::{
    Admission, ConditionTypes, Enforcement, EvictMethod, ImageGcMode, MemoryAvailable,
    MemoryReclaim, PodsSource, PriorityUnknown, SoftTierFallback, Tell, UnknownPods, UsageSource,
};
pub use write::{Documented, Setting, commented_defaults, documented};
