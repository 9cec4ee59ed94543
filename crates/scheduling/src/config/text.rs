//! Names of labels and resources.

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
