//! URLs, as in Kubernetes' CEL library.

use super::{Called, Entry, Invocation, entry};
use crate::cel::meter::Fault;
use crate::cel::url::Url;
use crate::cel::value::{Key, Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("url", Called::Alone, (1, 1), |call| {
        let text = call.text(0)?;
        call.meter.traverse(call.arg(0).size(), 1)?;
        call.meter.handle(text.len().saturating_mul(PASSES))?;
        let url = Url::read(&text).map(|url| Value::Url(Arc::new(url)));
        url.map_err(|why| {
            Fault::error(format!(
                "URL parse error during conversion from string: {why}"
            ))
        })
    }),
    entry("isURL", Called::Alone, (1, 1), |call| {
        call.plain()?;
        let text = call.text(0)?;
        call.meter.handle(text.len().saturating_mul(PASSES))?;
        Ok(Value::Bool(Url::request_uri(&text).is_ok()))
    }),
    entry("getScheme", Called::On, (1, 1), |call| {
        part(call, |url| &url.scheme)
    }),
    entry("getHost", Called::On, (1, 1), |call| {
        part(call, |url| &url.host)
    }),
    entry("getHostname", Called::On, (1, 1), |call| {
        part(call, |url| url.host_and_port().0)
    }),
    entry("getPort", Called::On, (1, 1), |call| {
        part(call, |url| url.host_and_port().1)
    }),
    entry("getEscapedPath", Called::On, (1, 1), |call| {
        part(call, |url| &url.path)
    }),
    entry("getQuery", Called::On, (1, 1), query),
];

/// How often a string is read or copied until it is a URL.
const PASSES: usize = 4;

fn target(call: &mut Invocation<'_, '_>) -> Result<Arc<Url>, Fault> {
    call.plain()?;
    match call.arg(0) {
        Value::Url(url) => Ok(Arc::clone(url)),
        _ => Err(Fault::no_overload()),
    }
}

fn part(call: &mut Invocation<'_, '_>, part: fn(&Url) -> &str) -> Outcome {
    let url = target(call)?;
    let part = part(&url);
    call.meter.handle(part.len())?;
    Ok(Value::text(part))
}

/// The values of each key.
fn query(call: &mut Invocation<'_, '_>) -> Outcome {
    let url = target(call)?;
    let mut values: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    for (key, value) in url.query() {
        call.meter.handle_values(2)?;
        call.meter.handle(key.len().saturating_add(value.len()))?;
        let of_key = values.entry(Key::Text(key.into())).or_default();
        of_key.push(Value::text(&value));
    }
    let entries = values.into_iter();
    let entries = entries.map(|(key, values)| (key, Value::List(values.into())));
    Ok(Value::Map(Arc::new(Map {
        entries: entries.collect(),
        missing: None,
    })))
}
