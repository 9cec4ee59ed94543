//! The JSON Schema of a configuration, generated from the table of keys, so that an editor can complete and check a
//! file. It accepts everything that the reader accepts. Some mistakes (a soft threshold without its grace period, a
//! path that does not exist) are reported only by `evictd check-config`.

use super::{
    effective::Kind,
    key::{Effect, Field, Key, Kubelet},
    keys::KEYS,
};
use evictd_configuration::Node;
use evictd_signals::Signal;
use serde_json::{Map, Value as Json, json};

/// The draft that editors understand.
const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// The schema of a configuration of either kind, which its `kind` chooses. Of a kubelet's many keys it has those that
/// matter to evictions, and takes the others as they are.
pub fn json_schema() -> Json {
    let kubelet = Kind::Kubelet.as_str();
    let of = |kind: Kind| json!({ "$ref": format!("#/definitions/{}", kind.as_str()) });
    json!({
        "$schema": DRAFT,
        "title": "Configuration of evictd",
        "if": { "required": ["kind"], "properties": { "kind": { "const": kubelet } } },
        "then": of(Kind::Kubelet),
        "else": of(Kind::Evictd),
        "definitions": {
            Kind::Evictd.as_str(): definition(Kind::Evictd),
            kubelet: definition(Kind::Kubelet),
        },
    })
}

fn definition(kind: Kind) -> Json {
    // A kubelet's file has hundreds of keys that evictd does not know.
    let others = kind == Kind::Kubelet;
    let mut properties = Map::new();
    properties.insert(
        "apiVersion".to_owned(),
        json!({ "const": kind.api_version() }),
    );
    properties.insert("kind".to_owned(), json!({ "const": kind.as_str() }));
    for key in KEYS {
        let Some(name) = key.name(kind) else {
            continue;
        };
        match name.split_once('.') {
            None => drop(properties.insert(name.to_owned(), property(key, kind))),
            Some((above, name)) => {
                let group = properties.entry(above).or_insert_with(|| {
                    json!({ "type": ["object", "null"], "additionalProperties": others, "properties": {} })
                });
                group["properties"][name] = property(key, kind);
            }
        }
    }
    json!({ "type": "object", "additionalProperties": others, "properties": properties })
}

fn property(key: &Key, kind: Kind) -> Json {
    let mut schema = match key.field {
        Field::One { schema, .. } => or_null(schema()),
        Field::Signals { schema, .. } => by_signal(kind, schema),
    };
    let mut description = key.why.to_owned();
    if key.effect == Effect::Restart {
        description += " A change takes effect at the next start.";
    }
    schema["description"] = json!(description);
    let default = match (&key.kubelet, kind) {
        (Kubelet::Key { default, .. }, Kind::Kubelet) => Some(*default),
        _ => key.default,
    };
    if let Some(Ok(default)) = default.map(Node::parse) {
        schema["default"] = default.to_json();
    }
    schema
}

/// A map with an entry for each signal of this kind.
fn by_signal(kind: Kind, schema: fn(Signal) -> Json) -> Json {
    let known = Signal::ALL
        .into_iter()
        .filter(|signal| kind == Kind::Evictd || !signal.is_ours());
    let properties: Map<String, Json> = known
        .map(|signal| (signal.as_str().to_owned(), or_null(schema(signal))))
        .collect();
    json!({ "type": ["object", "null"], "additionalProperties": false, "properties": properties })
}

/// Also accepts null, which always means the default.
fn or_null(mut schema: Json) -> Json {
    match &mut schema {
        Json::Object(fields) => {
            if let Some(kinds) = fields.get_mut("type") {
                let mut all = kinds
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![kinds.clone()]);
                all.push(json!("null"));
                *kinds = Json::Array(all);
            } else if let Some(Json::Array(words)) = fields.get_mut("enum") {
                words.push(Json::Null);
            } else if let Some(Json::Array(kinds)) = fields.get_mut("anyOf") {
                kinds.push(json!({ "type": "null" }));
            }
            schema
        }
        _ => schema,
    }
}
