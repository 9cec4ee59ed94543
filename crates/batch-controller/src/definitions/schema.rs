//! From Rust types to the structural schemas that an API server accepts.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of a whole object of this type.
pub(super) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        // An API server accepts no references.
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    make_structural(&mut schema);
    if let Some(properties) = schema["properties"].as_object_mut() {
        for (name, schema) in [
            ("apiVersion", json!({"type": "string"})),
            ("kind", json!({"type": "string"})),
            ("metadata", json!({"type": "object"})),
        ] {
            properties.insert(name.to_owned(), schema);
        }
    }
    schema
}

/// Removes keywords that an API server refuses or that would permit `null`.
fn make_structural(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(make_structural),
        Value::Object(fields) => {
            for keyword in ["nullable", "title", "$schema"] {
                // A property can have the name of a keyword. Its schema is an object.
                if fields.get(keyword).is_some_and(|value| !value.is_object()) {
                    fields.remove(keyword);
                }
            }
            set_default(fields);
            if let Some(Value::Array(values)) = fields.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            one_line(fields);
            fields.values_mut().for_each(make_structural);
        }
        _ => {}
    }
}

/// `default` is how this program reads an absent field. The API server fills in `x-default`.
fn set_default(fields: &mut Map<String, Value>) {
    let is_schema = fields.get("type").is_none_or(Value::is_string);
    if is_schema {
        fields.remove("default");
        if let Some(default) = fields.remove("x-default") {
            fields.insert("default".to_owned(), default);
        }
    }
}

/// A description is one paragraph.
fn one_line(fields: &mut Map<String, Value>) {
    if let Some(Value::String(description)) = fields.get_mut("description") {
        *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}
