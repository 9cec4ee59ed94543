//! Reads documents and collections as text.

use crate::answer::text;
use crate::{Actions, ApiError, Peer, Right};
use kube::{
    api::ListParams,
    core::{Request, Status},
};
use serde::{Deserialize, de::DeserializeOwned};
use std::time::Duration;

/// Objects per page; kubectl uses the same number.
const PAGE: u32 = 500;
/// Larger answers are refused. 500 objects of the size limit of etcd (1.5 MB) would be 750 MB, but real ones are far smaller.
const LONGEST_ANSWER: usize = 512 << 20;

/// Reads from the API server. It changes nothing and does not retry.
#[derive(Clone)]
pub struct Reader {
    actions: Actions,
    /// The time limit of each request.
    within: Duration,
}

impl Reader {
    pub(crate) fn new(actions: Actions, within: Duration) -> Self {
        Self { actions, within }
    }

    /// The text at this path, with its query.
    ///
    /// # Errors
    /// [`ApiError::Forbidden`] names the right that is missing.
    pub async fn get(&self, path: &str) -> Result<String, ApiError> {
        let request = hyper::Request::get(path).body(Vec::new());
        self.ask(path, request.map_err(kube::Error::HttpError))
            .await
    }

    /// Parses the JSON that was read at a path.
    ///
    /// # Errors
    /// If it is no such JSON.
    pub fn parsed<T: DeserializeOwned>(&self, path: &str, text: &str) -> Result<T, ApiError> {
        serde_json::from_str(text).map_err(|error| ApiError::Call {
            what: format!("GET {path}"),
            cause: Box::new(kube::Error::SerdeError(error)),
            peer: Peer::ApiServer,
        })
    }

    /// The collection at this path; one page is in memory at a time.
    pub fn pages(&self, path: impl Into<String>) -> Pages {
        Pages {
            reader: self.clone(),
            path: path.into(),
            token: None,
            ended: false,
        }
    }

    async fn ask(
        &self,
        path: &str,
        request: kube::Result<hyper::Request<Vec<u8>>>,
    ) -> Result<String, ApiError> {
        let client = self.actions.client();
        let asked = async { text(client, request?, LONGEST_ANSWER).await };
        let what = format!("GET {path}");
        let answer = self.actions.call(&what, self.within, asked).await;
        answer.map_err(|error| match error.status().map(is_api_rejection) {
            Some(true) => ApiError::Forbidden {
                what,
                right: Right::to_read(path),
            },
            _ => error,
        })
    }
}

/// Whether the API server itself refused for lack of a right. A kubelet behind it or a proxy before it answers differently,
/// and there no role of the cluster helps.
fn is_api_rejection(status: &Status) -> bool {
    status.code == 403 && status.status.is_some()
}

/// The pages of a collection, one after the other.
pub struct Pages {
    reader: Reader,
    path: String,
    /// The token of the next page; `None` for the first page.
    token: Option<String>,
    /// Whether the last page was read, or a page failed.
    ended: bool,
}

/// The part of a page that says how to get the next one.
#[derive(Deserialize)]
struct PageHead {
    #[serde(default)]
    metadata: Option<ListMetadata>,
}

#[derive(Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct Names {
    items: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

impl Pages {
    /// The next page, a v1 List of up to 500 objects; `None` after the last. If reading takes too long, the server no
    /// longer has the state of the first page and continues with the present one. Then an object may be missing or
    /// occur twice.
    ///
    /// # Errors
    /// The errors of [`Reader::get`]; after one there are no further pages.
    pub async fn next(&mut self) -> Result<Option<String>, ApiError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(None);
        }
        let mut token = self.token.take();
        let page = loop {
            match self.page(token.as_deref()).await {
                // The token has expired. The refusal contains a new one, for the present state.
                Err(error) if token.is_some() => match continue_token(&error) {
                    Some(fresh) if token.as_deref() != Some(fresh) => {
                        token = Some(fresh.to_owned());
                    }
                    _ => return Err(error),
                },
                page => break page?,
            }
        };
        let outline: PageHead = self.reader.parsed(&self.path, &page)?;
        let next = outline.metadata.and_then(|metadata| metadata.token);
        self.token = next.filter(|token| !token.is_empty());
        self.ended = self.token.is_none();
        Ok(Some(page))
    }

    /// The names of all objects on the remaining pages.
    ///
    /// # Errors
    /// The errors of [`Self::next`].
    pub async fn names(mut self) -> Result<Vec<String>, ApiError> {
        let mut names = Vec::new();
        while let Some(page) = self.next().await? {
            let page: Names = self.reader.parsed(&self.path, &page)?;
            names.extend(page.items.into_iter().map(|object| object.metadata.name));
        }
        Ok(names)
    }

    async fn page(&self, token: Option<&str>) -> Result<String, ApiError> {
        let parameters = ListParams {
            limit: Some(PAGE),
            continue_token: token.map(str::to_owned),
            ..ListParams::default()
        };
        let request = Request::new(&self.path)
            .list(&parameters)
            .map_err(kube::Error::BuildRequest);
        self.reader.ask(&self.path, request).await
    }
}

fn continue_token(error: &ApiError) -> Option<&str> {
    let status = error.status().filter(|status| status.code == 410)?;
    status.metadata.as_ref()?.continue_.as_deref()
}

#[cfg(test)]
mod tests;
