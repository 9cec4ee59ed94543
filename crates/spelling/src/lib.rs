//! The known name that was meant by a misspelt one. The readers of all configurations and objects propose it in the same way.
//!
//! ```
//! use evictd_spelling::{close, nearest};
//!
//! let known = ["memory.available", "nodefs.available"];
//! assert_eq!(nearest("memory.availble", known), Some("memory.available"));
//! assert_eq!(close("unrelated", known), None);
//! ```
#![forbid(unsafe_code)]

/// The known name that is nearest to the `written` one, ignoring case.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|name| distance(written, name))
}

/// Like [`nearest`], but only if at most a third of it differs, so that it was probably meant.
pub fn close<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest(written, known).filter(|name| distance(written, name) * 3 <= name.len().max(3))
}

/// Replaces serde's list of all known fields in a message about an unknown field by the nearest one. Other messages stay
/// as they are.
pub fn with_nearest_field(message: &str) -> String {
    let unknown = message.strip_prefix("unknown field `");
    let Some((field, known)) = unknown.and_then(|rest| rest.split_once("`, expected ")) else {
        return message.to_owned();
    };
    // The known fields are in backquotes, so every other part is one.
    match nearest(field, known.split('`').skip(1).step_by(2)) {
        Some(nearest) => format!("unknown field `{field}`; the nearest is `{nearest}`"),
        None => message.to_owned(),
    }
}

/// Two swapped letters count as one mistake.
fn distance(written: &str, name: &str) -> usize {
    strsim::osa_distance(&written.to_lowercase(), &name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_meant() {
        let known = ["memory.available", "nodefs.available", "pid.available"];
        for written in [
            "memory.availble",
            "MEMORY.AVAILABLE",
            "memory.avialable",
            "mmory.available",
        ] {
            assert_eq!(nearest(written, known), Some("memory.available"));
            assert_eq!(close(written, known), Some("memory.available"));
        }
        assert_eq!(close("unrelated", known), None);
        // A name of three letters may have no wrong one.
        assert_eq!(close("icr", ["cri"]), None);
        assert_eq!(close("rci", ["cri"]), Some("cri"));
        assert_eq!(nearest("cri", []), None);
    }

    #[test]
    fn serdes_list_of_fields_becomes_the_nearest_one() {
        let message = "unknown field `burts`, expected one of `qps`, `burst`";
        assert_eq!(
            with_nearest_field(message),
            "unknown field `burts`; the nearest is `burst`"
        );
        assert_eq!(with_nearest_field("missing field `a`"), "missing field `a`");
    }
}
