//! Keys of the records of evictions.

use crate::{
    key::{Effect::Reload, Field, Key, Kubelet::Same, key, one, schema_of},
    value::Value,
};

pub(super) const COMMAND_LINES: Key = key(
    "record.commandLines",
    "false",
    Same,
    Reload,
    one!(record.command_lines),
    "Whether the record of an eviction has the command lines of the pod's largest processes: at most 256 bytes of each, escaped. Arguments may be secrets, and whoever may read the history sees them.",
);
