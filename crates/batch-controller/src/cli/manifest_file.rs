//! A file with one object that a command creates.

use super::kind::Kind;
use anyhow::anyhow;
use evictd_command::Failure;
use evictd_document::{Document, DocumentError, SMALL};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

/// Reads the namespace and the object of a file. Unknown fields are kept.
pub(super) fn read<T: DeserializeOwned>(
    kind: &Kind,
    file: &Path,
    option: Option<String>,
) -> Result<(String, Value), Failure> {
    let name = file.to_string_lossy();
    // vcctl's check, with its message.
    if !name.contains(".yaml") && !name.contains(".yml") && name != "-" {
        return Err(Failure::Input(anyhow!("only support yaml file")));
    }
    let document = Document::read(file, SMALL).map_err(Failure::input)?;
    let object = object_of::<T>(kind, &document).map_err(Failure::input)?;
    let namespace = object["metadata"]["namespace"].as_str();
    match (namespace.filter(|name| !name.is_empty()), option) {
        (Some(in_file), Some(option)) if in_file != option => Err(Failure::Input(anyhow!(
            "{name}: the {} is in the namespace {in_file}, and -n says {option}",
            kind.word
        ))),
        (in_file, option) => {
            let namespace = option.or_else(|| in_file.map(str::to_owned));
            Ok((namespace.unwrap_or_else(|| "default".to_owned()), object))
        }
    }
}

fn object_of<T: DeserializeOwned>(
    kind: &Kind,
    document: &Document,
) -> Result<Value, DocumentError> {
    let mut values = document.values()?;
    let (Some(mut object), true) = (values.pop(), values.is_empty()) else {
        let message = format!("has several documents; one {} is needed", kind.word);
        return Err(document.wrong(message));
    };
    // Parsed for the places of mistakes only. The API server checks fields that are unknown here.
    document.parse::<T>()?;
    for (field, expected) in [
        ("apiVersion", kind.api_version()),
        ("kind", kind.name.to_owned()),
    ] {
        match &object[field] {
            Value::Null => object[field] = expected.into(),
            value if *value == expected => {}
            value => {
                let message = format!("{value} is not {expected}");
                return Err(document.wrong_fields([(field.to_owned(), message)]));
            }
        }
    }
    Ok(object)
}
