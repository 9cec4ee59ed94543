//! A configuration as a text: every mistake with its place.

use super::{API_VERSION, Configuration, InvalidField, KubeSchedulerConfiguration, Point};
use super::{version_error, wire};
use evictd_configuration::{
    Content, Fault, InvalidConfiguration, Mistake, Node, Step, mismatch, read_typed,
};

/// A person reads no more mistakes than this.
pub(super) const ENOUGH: usize = 100;

impl Configuration {
    /// Reads the text of a file, YAML or JSON, and checks it. `custom` are the custom plugins with their extension points.
    ///
    /// # Errors
    /// Every mistake with its place in the file.
    pub fn parse(
        file: &str,
        text: &str,
        custom: &[(&str, &[Point])],
    ) -> Result<Self, InvalidConfiguration> {
        parse(file, text, custom).map(|(_, configuration)| configuration)
    }
}

impl KubeSchedulerConfiguration {
    /// The same in the wire format.
    ///
    /// # Errors
    /// Every mistake with its place in the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, InvalidConfiguration> {
        parse(file, text, &[]).map(|(wire, _)| wire)
    }
}

fn parse(
    file: &str,
    text: &str,
    custom: &[(&str, &[Point])],
) -> Result<(KubeSchedulerConfiguration, Configuration), InvalidConfiguration> {
    let whole = |fault: Fault| InvalidConfiguration::new(vec![fault.in_file(file, "")]);
    let tree = Node::parse(text).map_err(|error| whole(Fault::new(error.at, error.to_string())))?;
    if !matches!(tree.content, Content::Map(_)) {
        return Err(whole(mismatch(&tree, "a KubeSchedulerConfiguration")));
    }
    let placed = |InvalidField { field, message }: InvalidField| {
        let at = tree.place_of(&Step::path(&field));
        Fault::new(at, message).in_file(file, &field)
    };
    let version = match tree.get("apiVersion").map(|entry| &entry.value.content) {
        Some(Content::Text(version)) => version.as_str(),
        _ => "",
    };
    if version != API_VERSION {
        // The fields of another version would all be reported as unknown.
        let field = "apiVersion".to_owned();
        let message = version_error(version);
        return Err(InvalidConfiguration::new(vec![placed(InvalidField {
            field,
            message,
        })]));
    }
    let duplicates = tree.duplicate_keys();
    let duplicates = duplicates
        .into_iter()
        .map(|(path, fault)| fault.in_file(file, &path));
    let mut mistakes: Vec<Mistake> = duplicates.collect();
    let (wire, wrong) = read_typed::<wire::KubeSchedulerConfiguration>(tree.to_json(), ENOUGH);
    let is_removed = |field: &str| {
        let way = Step::path(field);
        wrong.iter().any(|wrong| way.starts_with(&wrong.way))
    };
    // A removed field must not be reported again as missing.
    let checked = wire.map(|wire| match Configuration::new(&wire, custom) {
        Ok(configuration) => Ok((wire, configuration)),
        Err(mut fields) => {
            fields.retain(|error| !is_removed(&error.field));
            Err(fields)
        }
    });
    let wrong = wrong.iter().map(|wrong| {
        let fault = Fault::new(tree.place_of(&wrong.way), wrong.message.clone());
        fault.in_file(file, &wrong.key)
    });
    mistakes.extend(wrong);
    match checked {
        Some(Ok((wire, mut configuration))) if mistakes.is_empty() => {
            for warning in &mut configuration.warnings {
                let at = tree.place_of(&Step::path(&warning.key));
                file.clone_into(&mut warning.file);
                warning.line = at.map(|at| at.line);
                warning.column = at.map(|at| at.column);
            }
            return Ok((wire, configuration));
        }
        Some(Err(fields)) => mistakes.extend(fields.into_iter().map(placed)),
        _ => {}
    }
    Err(InvalidConfiguration::new(mistakes))
}
