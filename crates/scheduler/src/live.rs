//! A live cluster as a dump: its lists, read page by page.

use crate::emulation::of_server;
use evictd_cluster_client::{Access, ApiError, Credentials, Pages, Reader};
use evictd_command::Failure;
use evictd_manifests::Kind;
use evictd_pod::compatibility::Release;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Without these there is no answer. Every other list may be missing for lack of rights, which is said.
const NEEDED: [Kind; 5] = [
    Kind::Node,
    Kind::Namespace,
    Kind::Pod,
    Kind::PriorityClass,
    Kind::PodDisruptionBudget,
];

/// Only scores need these.
const FOR_SCORES: [Kind; 4] = [
    Kind::Service,
    Kind::ReplicationController,
    Kind::ReplicaSet,
    Kind::StatefulSet,
];

/// The API server's timeout for a page.
const PAGE_TIMEOUT: Duration = Duration::from_mins(1);

/// The kinds that could not be listed, in sentences. Complete after the last page.
pub(crate) type Omissions = Rc<RefCell<Vec<String>>>;

/// The lists of a cluster, one after the other.
pub(crate) struct Lists {
    runtime: Runtime,
    reader: Reader,
    /// The remaining kinds in reverse order.
    left: Vec<Kind>,
    list: Option<List>,
    /// The kinds of each version of a group, asked for when the first kind of the group is listed.
    groups: BTreeMap<&'static str, Vec<Version>>,
    /// The kinds that the server does not have.
    absent: Vec<String>,
    omissions: Omissions,
}

/// The list that is being read.
struct List {
    kind: Kind,
    /// `v1`, `policy/v1`
    version: String,
    pages: Pages,
}

/// A page of a list.
pub(crate) struct Page {
    pub(crate) kind: Kind,
    pub(crate) api_version: String,
    pub(crate) text: String,
}

struct Version {
    /// `policy/v1`
    name: String,
    resources: Vec<String>,
}

#[derive(Deserialize)]
struct GroupVersions {
    #[serde(default)]
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
}

impl Lists {
    /// Finds the API server. Nothing is sent yet. `scores`: whether nodes will be scored.
    pub(crate) fn new(
        credentials: &Credentials,
        server: Option<hyper::Uri>,
        scores: bool,
    ) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let reader = runtime.block_on(async {
            let access = Access::find(credentials).await?;
            let access = server.map_or(access.clone(), |server| access.at(server));
            access.reader(PAGE_TIMEOUT)
        });
        let reader = reader.map_err(|error| {
            let error = anyhow::Error::new(error);
            Failure::Input(error.context(format!("--context {}", credentials.context)))
        })?;
        let kinds = Kind::in_order_of_use().filter(|kind| scores || !FOR_SCORES.contains(kind));
        let mut left: Vec<Kind> = kinds.collect();
        left.reverse();
        Ok(Self {
            runtime,
            reader,
            left,
            list: None,
            groups: BTreeMap::new(),
            absent: Vec::new(),
            omissions: Omissions::default(),
        })
    }

    /// The release of the API server; `None` if its answer names none.
    pub(crate) fn release(&self) -> Result<Option<Release>, ApiError> {
        const PATH: &str = "/version";
        let text = self.runtime.block_on(self.reader.get(PATH))?;
        Ok(of_server(&self.reader.parsed(PATH, &text)?))
    }

    /// The kinds that could not be listed. Complete after the last page.
    pub(crate) fn omissions(&self) -> Omissions {
        Rc::clone(&self.omissions)
    }

    /// Gets the next page; `None` after the last one.
    pub(crate) fn next_page(&mut self) -> Result<Option<Page>, ApiError> {
        loop {
            let Some(list) = &mut self.list else {
                let Some(kind) = self.left.pop() else {
                    self.end();
                    return Ok(None);
                };
                self.begin(kind)?;
                continue;
            };
            let kind = list.kind;
            match self.runtime.block_on(list.pages.next()) {
                Ok(Some(text)) => {
                    let api_version = list.version.clone();
                    return Ok(Some(Page {
                        kind,
                        api_version,
                        text,
                    }));
                }
                Ok(None) => self.list = None,
                Err(ApiError::Forbidden { .. }) if !NEEDED.contains(&kind) => {
                    self.list = None;
                    let resource = kind.resource();
                    self.omissions.borrow_mut().push(format!(
                        "{resource} may not be listed (the RBAC verb list on {resource} is needed), and count as if there were none"
                    ));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Begins a list, if the server has the kind.
    fn begin(&mut self, kind: Kind) -> Result<(), ApiError> {
        let version = match kind.group() {
            "" => Some("v1".to_owned()),
            group => {
                if !self.groups.contains_key(group) {
                    let versions = self.runtime.block_on(versions(&self.reader, group))?;
                    self.groups.insert(group, versions);
                }
                let versions = self.groups.get(group).into_iter().flatten();
                let mut serving = versions.filter(|version| {
                    let mut resources = version.resources.iter();
                    resources.any(|resource| resource == kind.resource())
                });
                serving.next().map(|version| version.name.clone())
            }
        };
        let Some(version) = version else {
            self.absent.push(kind.full_resource());
            return Ok(());
        };
        let root = if kind.group().is_empty() {
            "/api"
        } else {
            "/apis"
        };
        let path = format!("{root}/{version}/{}", kind.resource());
        self.list = Some(List {
            kind,
            version,
            pages: self.reader.pages(path),
        });
        Ok(())
    }

    fn end(&mut self) {
        let absent = std::mem::take(&mut self.absent);
        if !absent.is_empty() {
            let absent = absent.join(", ");
            let omission = format!("the API server has no {absent}");
            self.omissions.borrow_mut().push(omission);
        }
    }
}

/// The versions of a group with their kinds, the preferred one first. Every client may ask that.
async fn versions(reader: &Reader, group: &str) -> Result<Vec<Version>, ApiError> {
    let found: Option<GroupVersions> = get(reader, &format!("/apis/{group}")).await?;
    let mut versions = Vec::new();
    for version in found.into_iter().flat_map(|found| found.versions) {
        let name = version.group_version;
        let resources: Option<Resources> = get(reader, &format!("/apis/{name}")).await?;
        let resources = resources.into_iter().flat_map(|found| found.resources);
        versions.push(Version {
            name,
            resources: resources.map(|resource| resource.name).collect(),
        });
    }
    Ok(versions)
}

/// `None` if the path does not exist.
async fn get<T: DeserializeOwned>(reader: &Reader, path: &str) -> Result<Option<T>, ApiError> {
    match reader.get(path).await {
        Ok(text) => reader.parsed(path, &text).map(Some),
        Err(error) if error.status().is_some_and(|status| status.code == 404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The lists as one text.
pub(crate) struct Live {
    lists: Lists,
    page: Cursor<String>,
}

impl Live {
    pub(crate) fn new(lists: Lists) -> Self {
        Self {
            lists,
            page: Cursor::default(),
        }
    }
}

impl Read for Live {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.page.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(page) = self.lists.next_page().map_err(io::Error::other)? else {
                return Ok(0);
            };
            self.page = Cursor::new(page.text);
        }
    }
}
