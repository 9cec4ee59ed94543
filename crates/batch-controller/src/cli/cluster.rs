//! The objects of a cluster as the command line asks for them, and its refusals as failures with an exit code.

use super::kind::Kind;
use anyhow::Context;
use evictd_cluster_client::{Actions, ApiError, Reader, Right};
use evictd_command::Failure;
use http::Request;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The timeout of a request. A webhook that judges an object has 10 s for it, and may be called twice.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
}

/// One cluster. Each request is sent once.
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

    /// One object.
    pub(super) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, Failure> {
        let path = kind.path_of(namespace, name)?;
        let got = self.runtime.block_on(self.reader.get(&path));
        let text = got.map_err(|error| refused(error, kind, "get", namespace))?;
        serde_json::from_str(&text)
            .with_context(|| format!("GET {path}"))
            .map_err(Failure::from)
    }

    /// Every object of a namespace, or of the cluster, if `namespace` is empty.
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
            let Some(page) = page.map_err(|error| refused(error, kind, "list", namespace))? else {
                return Ok(all);
            };
            let page: Page<T> =
                serde_json::from_str(&page).with_context(|| format!("GET {path}"))?;
            all.extend(page.items);
        }
    }

    /// The objects of a namespace that a field selector selects, a page of them at most.
    pub(super) fn select<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: &str,
        fields: &str,
    ) -> Result<Vec<T>, Failure> {
        let path = format!("{}?limit=500&fieldSelector={fields}", kind.path(namespace)?);
        let got = self.runtime.block_on(self.reader.get(&path));
        let page = got.map_err(|error| refused(error, kind, "list", namespace))?;
        let page: Page<T> = serde_json::from_str(&page).with_context(|| format!("GET {path}"))?;
        Ok(page.items)
    }

    /// Makes an object, and returns it as the server has it.
    pub(super) fn create(
        &self,
        kind: &Kind,
        namespace: &str,
        object: &Value,
    ) -> Result<Value, Failure> {
        let request = Request::post(kind.path(namespace)?);
        self.change(kind, "create", namespace, request, object)
    }

    /// Merges `patch` into an object.
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

    /// Deletes an object.
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
        let done = self.actions.request(&what, TIMEOUT, request);
        let done = self.runtime.block_on(done);
        done.map_err(|error| refused(error, kind, verb, namespace))
    }
}

/// A refusal with its exit code: a right that is missing, an object that is wrong, or work that failed.
fn refused(error: ApiError, kind: &Kind, verb: &'static str, namespace: &str) -> Failure {
    if matches!(error, ApiError::Forbidden { .. }) {
        return Failure::not_permitted(error);
    }
    let Some(status) = error.status() else {
        return error.into();
    };
    let about = status.details.as_ref();
    let is_about_an_object = about.is_some_and(|details| !details.name.is_empty());
    match status.code {
        // A quota or a policy answers 403 as well, and there no role helps.
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
        404 if !is_about_an_object && !status.message.contains("namespaces") => {
            let Kind { plural, group, .. } = kind;
            let why = format!(
                "the API server does not know {plural}.{group}: the custom resource definitions are not installed there"
            );
            anyhow::Error::new(error).context(why).into()
        }
        400 | 422 => Failure::input(error),
        _ => error.into(),
    }
}
