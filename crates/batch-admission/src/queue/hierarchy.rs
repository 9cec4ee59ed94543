//! The hierarchy that annotations of queues describe (S6-084).

use crate::Known;
use crate::bounds::MOST_PARTS;
use crate::field::{Mistakes, quoted};
use evictd_batch_objects::Queue;

/// The path of a queue from the root on: `root/sci/dev`.
pub(crate) const HIERARCHY: &str = "volcano.sh/hierarchy";
/// The weight of each part of the path: `1/2/8`.
pub(crate) const WEIGHTS: &str = "volcano.sh/hierarchy-weights";

/// The first error in the annotations.
pub(super) fn check(queue: &Queue, known: &Known, mistakes: &mut Mistakes) {
    let annotations = &queue.metadata.annotations;
    let annotation = |key: &str| annotations.get(key).unwrap_or_default();
    let (path, weights) = (annotation(HIERARCHY), annotation(WEIGHTS));
    if path.is_empty() && weights.is_empty() {
        return;
    }
    let field = "requestBody.metadata.annotations";
    if path.split('/').count() != weights.split('/').count() {
        let why = format!("{HIERARCHY} must have the same length with {WEIGHTS}");
        return mistakes.invalid(field, path, &why);
    }
    if path.split('/').count() > MOST_PARTS {
        let why = format!("{HIERARCHY} must have at most {MOST_PARTS} parts");
        return mistakes.invalid(field, path, &why);
    }
    for weight in weights.split('/') {
        let why = match parse(weight) {
            Err(error) => format!("{weight} in the {weights} is invalid number: {error}"),
            Ok(number) if number <= 0.0 => {
                format!("{weight} in the {weights} must be larger than 0")
            }
            Ok(_) => continue,
        };
        return mistakes.invalid(field, weights, &why);
    }
    // Jobs are in leaves only, so that no queue may be above another one.
    let below = format!("{path}/");
    for other in known.queues() {
        let of_other = other.metadata.annotations.get(HIERARCHY);
        let of_other = of_other.filter(|of_other| of_other.starts_with(&below));
        let name = &other.metadata.name;
        if let Some(of_other) = of_other.filter(|_| *name != queue.metadata.name) {
            let why = format!(
                "{path} is not allowed to be in the sub path of {of_other} of queue {name}"
            );
            return mistakes.invalid(field, path, &why);
        }
    }
}

/// A number, or Go's parse error.
fn parse(text: &str) -> Result<f64, String> {
    let wrong = |why: &str| format!("strconv.ParseFloat: parsing {}: {why}", quoted(text));
    let number: f64 = text.parse().map_err(|_| wrong("invalid syntax"))?;
    // Both parsers read `inf`, but Go refuses digits that are out of range.
    let too_large = number.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit());
    if too_large {
        return Err(wrong("value out of range"));
    }
    Ok(number)
}
