//! Amounts as people read them.

use crate::StarvedResource;
use evictd_pod::Quantity;

/// Bytes for people: `0`, `512Ki`, `1.2Gi`. Rounded, so never use it in messages whose text is promised.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn human_bytes(bytes: i64) -> String {
    const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value.abs() >= 99.95 || (value - value.round()).abs() < 0.05 {
        format!("{value:.0}{}", UNITS[unit])
    } else {
        format!("{value:.1}{}", UNITS[unit])
    }
}

impl StarvedResource {
    /// An amount of it for people: `80Mi`, `1124 inodes`, `12 process ids`.
    pub fn amount(self, quantity: Quantity) -> String {
        let value = quantity.value();
        let counted = |one: &str| {
            let plural = if value == 1 { "" } else { "s" };
            format!("{value} {one}{plural}")
        };
        match self {
            Self::Memory | Self::EphemeralStorage | Self::Io => human_bytes(value),
            Self::Inodes => counted("inode"),
            Self::Pids => counted("process id"),
        }
    }
}
