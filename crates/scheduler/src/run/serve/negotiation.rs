//! The form of `/statusz` and `/flagz` that a client accepts, by the rules of Kubernetes 1.36.

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text for people.
    Text,
    /// An object of `config.k8s.io` in this version.
    Json(&'static str),
    /// The same in YAML.
    Yaml(&'static str),
}

/// The versions of the objects. The first one is deprecated.
const VERSIONS: [&str; 2] = [DEPRECATED, "v1beta1"];
pub(crate) const DEPRECATED: &str = "v1alpha1";
const GROUP: &str = "config.k8s.io";

/// A part of an `Accept` header.
struct Clause<'a> {
    media_type: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn of(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|part| part.split_once('='));
        let parameters: Vec<_> = parameters
            .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
            .collect();
        let quality = parameters.iter().find(|(name, _)| *name == "q");
        Self {
            media_type,
            quality: quality.map_or(1.0, |(_, quality)| quality.parse().unwrap_or(1.0)),
            parameters,
        }
    }

    fn parameter(&self, wanted: &str) -> Option<&'a str> {
        let mut all = self.parameters.iter();
        all.find(|(name, _)| *name == wanted)
            .map(|(_, value)| *value)
    }

    /// The version of the object, if the clause asks for one of this kind.
    fn version(&self, kind: &str) -> Option<&'static str> {
        let asks = self.parameter("as") == Some(kind) && self.parameter("g") == Some(GROUP);
        let version = self.parameter("v").filter(|_| asks)?;
        VERSIONS.into_iter().find(|known| *known == version)
    }

    /// Whether it asks for some object.
    fn converts(&self) -> bool {
        ["as", "g", "v"]
            .iter()
            .any(|name| self.parameter(name).is_some())
    }

    fn matches(&self, media_type: &str) -> bool {
        let (kind, subtype) = self.media_type.split_once('/').unwrap_or_default();
        let (offered, offered_subtype) = media_type.split_once('/').unwrap_or_default();
        (kind == "*" && subtype == "*")
            || (kind == offered && (subtype == "*" || subtype == offered_subtype))
    }

    fn form(&self, kind: &str) -> Option<Form> {
        let version = self.version(kind);
        if let Some(version) = version.filter(|_| self.matches("application/json")) {
            return Some(Form::Json(version));
        }
        if let Some(version) = version.filter(|_| self.matches("application/yaml")) {
            return Some(Form::Yaml(version));
        }
        (self.matches("text/plain") && !self.converts()).then_some(Form::Text)
    }
}

/// The form of a page that shows an object of this kind. `None` if the client accepts no form that there is. An object is only
/// for a client that names its kind, group and version.
pub(crate) fn negotiate(accept: &str, kind: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').map(Clause::of).collect();
    // The order of equal qualities stays, but a wildcard is the last choice.
    clauses.sort_by(|one, other| {
        let wildcards = one
            .media_type
            .contains('*')
            .cmp(&other.media_type.contains('*'));
        other.quality.total_cmp(&one.quality).then(wildcards)
    });
    clauses.iter().find_map(|clause| clause.form(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_only_for_a_client_that_names_its_kind_group_and_version() {
        let as_object = |media_type: &str, version: &str| {
            format!("{media_type};v={version};g=config.k8s.io;as=Statusz")
        };
        let json = as_object("application/json", "v1beta1");
        let table = [
            (String::new(), Some(Form::Text)),
            ("*/*".to_owned(), Some(Form::Text)),
            ("text/*".to_owned(), Some(Form::Text)),
            ("application/json".to_owned(), None),
            (json.clone(), Some(Form::Json("v1beta1"))),
            (format!("{json};q=0.2, text/plain"), Some(Form::Text)),
            (
                format!("{json};q=0.9, text/plain;q=0.5"),
                Some(Form::Json("v1beta1")),
            ),
            (
                as_object("application/json", "v1alpha1"),
                Some(Form::Json(DEPRECATED)),
            ),
            (
                as_object("application/yaml", "v1beta1"),
                Some(Form::Yaml("v1beta1")),
            ),
            (as_object("*/*", "v1beta1"), Some(Form::Json("v1beta1"))),
            (as_object("application/json", "v1"), None),
            (as_object("text/plain", "v1beta1"), None),
            (json.replace("Statusz", "Flagz"), None),
            (json.replace("config.k8s.io", "apps"), None),
            (
                "text/html,application/xml;q=0.9,*/*;q=0.8".to_owned(),
                Some(Form::Text),
            ),
        ];
        for (accept, form) in table {
            assert_eq!(negotiate(&accept, "Statusz"), form, "{accept:?}");
        }
    }
}
