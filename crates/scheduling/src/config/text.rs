//! Durations, names and messages.

use jiff::SignedDuration;

/// A duration in the format of Go. Unlike Go it prints 0.5s instead of 500ms, which Go reads as the same.
pub(crate) fn print_duration(duration: SignedDuration) -> String {
    let (seconds, part) = (duration.as_secs(), duration.subsec_nanos());
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let part = if part == 0 {
        String::new()
    } else {
        format!(".{part:09}").trim_end_matches('0').to_owned()
    };
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{part}s"),
        (0, _) => format!("{minutes}m{seconds}{part}s"),
        _ => format!("{hours}h{minutes}m{seconds}{part}s"),
    }
}

/// Whether the text can be a label key or a resource name: `name` or `example.com/name`.
pub(super) fn is_label_name(text: &str) -> bool {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    let edges = |text: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        edge(text.chars().next()) && edge(text.chars().next_back())
    };
    let name_fits = name.len() <= 63
        && edges(name)
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let label = |label: &str| {
        let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        edges(label) && label.chars().all(lower)
    };
    let domain_fits = |domain: &str| domain.len() <= 253 && domain.split('.').all(label);
    name_fits && domain.is_none_or(domain_fits)
}

/// Whether a resource is an extended resource, which Kubernetes does not define itself.
pub(super) fn is_extended_resource(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    !native && !name.starts_with("requests.") && is_label_name(&format!("requests.{name}"))
}

/// Replaces the list of all known fields in serde's message about an unknown field by the nearest one.
pub(super) fn with_nearest(message: &str) -> String {
    let unknown = message.strip_prefix("unknown field `");
    let Some((field, known)) = unknown.and_then(|rest| rest.split_once("`, expected ")) else {
        return message.to_owned();
    };
    // The known fields are in backquotes, so every other part is one.
    let known = known.split('`').skip(1).step_by(2);
    let nearest = known.min_by_key(|known| strsim::levenshtein(known, field));
    match nearest {
        Some(nearest) => format!("unknown field `{field}`; the nearest is `{nearest}`"),
        None => message.to_owned(),
    }
}
