//! How `imageGC` is read, and the rules between its values.

use super::{effective::Kind, reader::Reader};
use evictd_configuration::{Content, Fault, Node, mismatch};

/// A whole number from 0 to 100.
pub(super) mod percent {
    use super::{Content, Fault, Node, mismatch};
    use serde_json::{Value as Json, json};

    pub(in super::super) fn read(node: &Node) -> Result<u32, Vec<Fault>> {
        let number = match &node.content {
            Content::Number(digits) => digits.parse().ok(),
            _ => None,
        };
        number.filter(|number| *number <= 100).ok_or_else(|| {
            let fault = mismatch(node, "a percentage from 0 to 100");
            vec![fault.advise("write it without %, such as 85")]
        })
    }

    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "the table of keys passes references"
    )]
    pub(in super::super) fn show(percent: &u32) -> Json {
        json!(percent)
    }

    pub(in super::super) fn schema() -> Json {
        json!({ "type": "integer", "minimum": 0, "maximum": 100 })
    }
}

/// Checks the values against each other, as the kubelet does.
pub(super) fn check(reader: &mut Reader<'_>) {
    let gc = reader.effective.image_gc;
    let kubelet = reader.effective.kind == Kind::Kubelet;
    let name = |ours: &'static str, kubelets: &'static str| if kubelet { kubelets } else { ours };
    let high = name(
        "imageGC.highThresholdPercent",
        "imageGCHighThresholdPercent",
    );
    let low = name("imageGC.lowThresholdPercent", "imageGCLowThresholdPercent");
    let minimum = name("imageGC.minimumAge", "imageMinimumGCAge");
    let maximum = name("imageGC.maximumAge", "imageMaximumGCAge");
    if gc.low_threshold_percent >= gc.high_threshold_percent {
        let (is, than) = (gc.low_threshold_percent, gc.high_threshold_percent);
        let message = format!("{is} is not below {high}, {than}");
        // One of the two may be a default, which has no place.
        let at = reader.value_place(low).or(reader.value_place(high));
        let fault =
            Fault::new(at, message).advise("images are removed from the high to the low one");
        reader.mistake(low, fault);
    }
    if gc.maximum_age.is_positive() && gc.maximum_age <= gc.minimum_age {
        let message = format!("it is not longer than {minimum}");
        let at = reader.value_place(maximum).or(reader.value_place(minimum));
        let fault = Fault::new(at, message).advise("0s keeps images however long they are unused");
        reader.mistake(maximum, fault);
    }
}
