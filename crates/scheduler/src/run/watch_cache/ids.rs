//! UIDs, resource versions and phases in little memory.

use std::fmt::Write;
use std::num::NonZeroU64;
use std::sync::Arc;

/// A UID as 16 bytes, or as its text if it is no UUID.
#[derive(PartialEq, Eq)]
pub(super) enum Uid {
    Bytes([u8; 16]),
    Text(Box<str>),
}

impl Uid {
    pub(super) fn of(text: &str) -> Self {
        let parsed = Self::parsed(text);
        // Other texts of the same UUID, such as one in capitals, would be restored differently.
        let same = parsed.filter(|bytes| *Self::Bytes(*bytes).text() == *text);
        same.map_or_else(|| Self::Text(text.into()), Self::Bytes)
    }

    fn parsed(text: &str) -> Option<[u8; 16]> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        let digits: &[[u8; 2]] = digits.as_chunks().0;
        let mut bytes = [0; 16];
        if digits.len() != bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(bytes)
    }

    pub(super) fn text(&self) -> Arc<str> {
        let bytes = match self {
            Self::Text(text) => return text.as_ref().into(),
            Self::Bytes(bytes) => bytes,
        };
        let mut text = String::with_capacity(36);
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text.into()
    }
}

/// The number that has exactly this text.
pub(super) fn number(text: &str) -> Option<NonZeroU64> {
    let number = text.parse::<NonZeroU64>().ok();
    number.filter(|number| number.to_string() == text)
}

/// A pod's phase that the API defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Pending, Self::Running, Self::Succeeded, Self::Failed];

    pub(super) fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == text)
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_values_have_exactly_one_text() {
        for text in [
            "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
            "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0",
            "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
            "+f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
            "u-1",
            "",
        ] {
            assert_eq!(*Uid::of(text).text(), *text);
        }
        let usual = Uid::of("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
        assert!(matches!(usual, Uid::Bytes(_)));
        for text in ["0", "007", "+7", "18446744073709551616", "v7", ""] {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!(number("17").map(NonZeroU64::get), Some(17));
        for phase in Phase::ALL {
            assert_eq!(Phase::of(phase.as_str()), Some(phase));
        }
        assert_eq!((Phase::of(""), Phase::of("running")), (None, None));
    }
}
