//! PodGroups of plain pods (S6-059 to S6-062): pods for Volcano's scheduler that no controller has put into a group get
//! one of their own, which the pods of one owner share.

mod plain;

pub use plain::{Call, Plain, Scaled, group_name, is_plain, plain_pod, scaled};
