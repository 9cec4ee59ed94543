//! The kinds of a server.

use crate::{Actions, ApiError, CALL_TIMEOUT};
use hyper::Request;
use serde_json::Value;

/// Whether the server has the kind at this path, as `/apis/GROUP/VERSION/KIND`. Every client may ask that. A request
/// for the kind itself may be answered with 403 although the kind does not exist.
pub async fn serves(actions: &Actions, path: &str) -> Result<bool, ApiError> {
    let Some((version, kind)) = path.rsplit_once('/') else {
        return Ok(false);
    };
    Ok(kinds(actions, version)
        .await?
        .iter()
        .any(|known| known == kind))
}

/// The kinds at this path, as `/apis/GROUP/VERSION`, in their plural; none if the server has no such version.
pub async fn kinds(actions: &Actions, version: &str) -> Result<Vec<String>, ApiError> {
    let found = read(actions, version).await?;
    Ok(names(&found["resources"], "name"))
}

/// The versions of a group that the server has, at `/apis/GROUP`.
pub async fn versions(actions: &Actions, group: &str) -> Result<Vec<String>, ApiError> {
    let found = read(actions, group).await?;
    Ok(names(&found["versions"], "version"))
}

fn names(of: &Value, field: &str) -> Vec<String> {
    let all = of.as_array().into_iter().flatten();
    let all = all.filter_map(|one| one[field].as_str());
    all.map(ToOwned::to_owned).collect()
}

/// `null` if the path does not exist.
async fn read(actions: &Actions, path: &str) -> Result<Value, ApiError> {
    let request = Request::get(path).body(Vec::new());
    let what = format!("reading {path}");
    let answer = actions.request(&what, CALL_TIMEOUT, request).await;
    answer.or_else(|error| match error.status() {
        Some(status) if status.code == 404 => Ok(Value::Null),
        _ => Err(error),
    })
}
