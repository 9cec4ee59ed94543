//! Amounts as people read them.

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
