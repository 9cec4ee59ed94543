//! One request, taken apart.

use crate::resource::Resource;
use crate::status::Status;
use crate::store::Key;
use hyper::Method;
use std::collections::BTreeMap;

/// A request: the verb and the objects.
#[derive(Debug, Clone)]
pub struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// Of which kind.
    pub resource: &'static Resource,
    /// Empty for all, or where there is none.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// The path of a request to a proxy, for example `/stats/summary`; empty for any other request.
    pub below: String,
    /// The query, decoded.
    pub options: BTreeMap<String, String>,
    /// Who owns the fields that are written.
    pub manager: String,
    /// The content type of the body, which is the kind of a patch.
    pub content_type: String,
}

impl Call {
    /// From a request's line; `None` where no objects are served.
    pub(crate) fn parse(method: &Method, path: &str, query: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..]
                if !matches!(rest, [] | ["status" | "finalize"]) =>
            {
                (*namespace, rest)
            }
            _ => ("", rest),
        };
        let (plural, name, subresource, below) = match rest {
            [plural] => (*plural, "", "", String::new()),
            [plural, name] => (*plural, *name, "", String::new()),
            [plural, name, "proxy", below @ ..] => {
                (*plural, *name, "proxy", format!("/{}", below.join("/")))
            }
            [plural, name, subresource] => (*plural, *name, *subresource, String::new()),
            _ => return None,
        };
        let options: BTreeMap<String, String> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let watches = options
            .get("watch")
            .is_some_and(|watch| watch == "true" || watch == "1");
        Some(Self {
            verb: match (method.as_str(), name.is_empty()) {
                ("GET" | "HEAD", _) if watches => "watch",
                ("GET" | "HEAD", true) => "list",
                ("GET" | "HEAD", false) => "get",
                ("POST", _) => "create",
                ("PUT", false) => "update",
                ("PATCH", false) => "patch",
                ("DELETE", true) => "deletecollection",
                ("DELETE", false) => "delete",
                _ => return None,
            },
            resource: Resource::find(group, version, plural)?,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            below,
            manager: options.get("fieldManager").cloned().unwrap_or_default(),
            options,
            content_type: String::new(),
        })
    }

    /// A parameter of the query, or `""`.
    pub fn option(&self, name: &str) -> &str {
        self.options.get(name).map_or("", String::as_str)
    }

    /// Whether a parameter is set to true.
    pub fn asks(&self, name: &str) -> bool {
        matches!(self.option(name), "true" | "1" | "All")
    }

    /// A parameter that is a number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        let text = self.option(name);
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = |_| Status::bad_request(format!("{name}: invalid value {text:?}"));
        text.parse().map(Some).map_err(wrong)
    }

    /// As rules of access name it: `pods`, `pods/status`.
    pub fn what(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.plural.to_owned()
        } else {
            format!("{}/{}", self.resource.plural, self.subresource)
        }
    }

    pub(crate) fn key(&self) -> Key {
        Key {
            stored: self.resource.stored,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}
