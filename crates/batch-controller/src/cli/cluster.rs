//! Requests of the command line to the API server. Each error has its exit code.

use super::kind::Kind;
use anyhow::Context;
use evictd_cluster_client::{Actions, ApiError, Reader, Right};
use evictd_command::Failure;
use http::Request;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The timeout of a request. The API server gives a webhook 10 s, and may call it twice.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
}

/// A cluster. Each request is sent once: a person can repeat the command.
pub(super) struct Cluster {
    runtime: Runtime,
    actions: Actions,
    reader: Reader,
}

impl Cluster {
    pub(super) fn new(runtime: Runtime, actions: Actions, reader: Reader) -> Self {
        Self {
            runtime,
            actions,
            reader,
        }
    }

    pub(super) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, Failure> {
        let path = kind.path_of(namespace, name)?;
        let text = self
            .runtime
            .block_on(self.reader.get(&path))
            .map_err(|error| failure(error, kind, "get", namespace))?;
        serde_json::from_str(&text)
            .with_context(|| format!("GET {path}"))
            .map_err(Failure::from)
    }

    /// Lists a namespace, or the whole cluster if `namespace` is empty.
    pub(super) fn list<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: &str,
    ) -> Result<Vec<T>, Failure> {
        let path = kind.path(namespace)?;
        let mut pages = self.reader.pages(&path);
        let mut all = Vec::new();
        loop {
            let page = self.runtime.block_on(pages.next());
            let Some(page) = page.map_err(|error| failure(error, kind, "list", namespace))? else {
                return Ok(all);
            };
            let page: Page<T> =
                serde_json::from_str(&page).with_context(|| format!("GET {path}"))?;
            all.extend(page.items);
        }
    }

    /// The objects that a field selector matches, at most one page.
    pub(super) fn select<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: &str,
        fields: &str,
    ) -> Result<Vec<T>, Failure> {
        let path = format!("{}?limit=500&fieldSelector={fields}", kind.path(namespace)?);
        let page = self
            .runtime
            .block_on(self.reader.get(&path))
            .map_err(|error| failure(error, kind, "list", namespace))?;
        let page: Page<T> = serde_json::from_str(&page).with_context(|| format!("GET {path}"))?;
        Ok(page.items)
    }

    /// Creates an object. Returns it as it is stored.
    pub(super) fn create(
        &self,
        kind: &Kind,
        namespace: &str,
        object: &Value,
    ) -> Result<Value, Failure> {
        let request = Request::post(kind.path(namespace)?);
        self.change(kind, "create", namespace, request, object)
    }

    /// Applies a merge patch.
    pub(super) fn merge(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, Failure> {
        let request = Request::patch(kind.path_of(namespace, name)?);
        self.change(kind, "patch", namespace, request, patch)
    }

    pub(super) fn delete(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Failure> {
        let request = Request::delete(kind.path_of(namespace, name)?);
        let options = Value::Object(serde_json::Map::new());
        self.change(kind, "delete", namespace, request, &options)?;
        Ok(())
    }

    fn change(
        &self,
        kind: &Kind,
        verb: &'static str,
        namespace: &str,
        request: http::request::Builder,
        body: &Value,
    ) -> Result<Value, Failure> {
        let media_type = match verb {
            "patch" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = request
            .header(http::header::CONTENT_TYPE, media_type)
            .body(body.to_string().into_bytes());
        let what = format!("{verb} {}", kind.word);
        self.runtime
            .block_on(self.actions.request(&what, TIMEOUT, request))
            .map_err(|error| failure(error, kind, verb, namespace))
    }
}

/// The exit code of an error: a missing right, an invalid object, or a failed request.
fn failure(error: ApiError, kind: &Kind, verb: &'static str, namespace: &str) -> Failure {
    if matches!(error, ApiError::Forbidden { .. }) {
        return Failure::not_permitted(error);
    }
    let Some(status) = error.status() else {
        return error.into();
    };
    let details = status.details.as_ref();
    let names_an_object = details.is_some_and(|details| !details.name.is_empty());
    match status.code {
        // Quotas and policies also answer 403. A role would not help there.
        403 if status.message.contains(&format!("cannot {verb} resource")) => {
            let namespace = Some(namespace.to_owned()).filter(|name| !name.is_empty());
            Failure::not_permitted(ApiError::Forbidden {
                what: format!("{verb} {}", kind.word),
                right: Right {
                    verb,
                    resource: kind.plural.to_owned(),
                    group: kind.group.to_owned(),
                    namespace,
                },
            })
        }
        404 if !names_an_object && !status.message.contains("namespaces") => {
            let Kind { plural, group, .. } = kind;
            let context = format!(
                "the API server does not know {plural}.{group}: the custom resource definitions are not installed"
            );
            anyhow::Error::new(error).context(context).into()
        }
        400 | 422 => Failure::input(error),
        _ => error.into(),
    }
}
