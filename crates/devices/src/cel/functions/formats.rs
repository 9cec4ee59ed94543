//! Named formats, as in Kubernetes' CEL library.

use super::{Called, Entry, Invocation, entry};
use crate::cel::meter::Fault;
use crate::cel::time;
use crate::cel::url::Url;
use crate::cel::value::{Format, Value};
use evictd_pod::names;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

macro_rules! constant {
    ($name:literal, $format:ident) => {
        entry($name, Called::Alone, (0, 0), |call| {
            call.plain()?;
            Ok(Value::Format(Format::$format))
        })
    };
}

pub(super) const TABLE: &[Entry] = &[
    entry("format.named", Called::Alone, (1, 1), named),
    entry("validate", Called::On, (2, 2), validate),
    constant!("format.dns1123Label", Dns1123Label),
    constant!("format.dns1123Subdomain", Dns1123Subdomain),
    constant!("format.dns1035Label", Dns1035Label),
    constant!("format.qualifiedName", QualifiedName),
    constant!("format.dns1123LabelPrefix", Dns1123LabelPrefix),
    constant!("format.dns1123SubdomainPrefix", Dns1123SubdomainPrefix),
    constant!("format.dns1035LabelPrefix", Dns1035LabelPrefix),
    constant!("format.labelValue", LabelValue),
    constant!("format.uri", Uri),
    constant!("format.uuid", Uuid),
    constant!("format.byte", Byte),
    constant!("format.date", Date),
    constant!("format.datetime", Datetime),
];

fn named(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    let name = call.text(0)?;
    call.meter.read(&name)?;
    let format = Format::ALL
        .into_iter()
        .find(|format| format.name() == &*name);
    let format = format.map(|format| Arc::new(Value::Format(format)));
    Ok(Value::Optional(format))
}

/// The mistakes of the string; none if it has the format.
fn validate(call: &mut Invocation<'_, '_>) -> Outcome {
    let Value::Format(format) = *call.arg(0) else {
        return Err(Fault::no_overload());
    };
    let text = call.text(1)?;
    let of_text = call.arg(1).size().saturating_add(1).div_ceil(10);
    let of_pattern = pattern_length(format).div_ceil(4);
    call.meter.charge(of_text.saturating_mul(of_pattern))?;
    call.meter.handle(text.len().saturating_mul(4))?;
    let wrong = wrong(format, &text);
    if wrong.is_empty() {
        return Ok(Value::Optional(None));
    }
    let bytes = wrong.iter().map(String::len).sum();
    call.meter.handle(bytes)?;
    let wrong: Vec<Value> = wrong.iter().map(|message| Value::text(message)).collect();
    Ok(Value::Optional(Some(Arc::new(Value::List(wrong.into())))))
}

/// The length of the regular expression that Kubernetes charges for.
const fn pattern_length(format: Format) -> u64 {
    match format {
        Format::Dns1123Label
        | Format::Dns1035Label
        | Format::Dns1123LabelPrefix
        | Format::Dns1035LabelPrefix => 30,
        Format::LabelValue => 40,
        Format::Dns1123Subdomain | Format::Dns1123SubdomainPrefix | Format::QualifiedName => 60,
        Format::Uuid => 70,
        Format::Date | Format::Datetime => 71,
        Format::Byte => 84,
        Format::Uri => 1103,
    }
}

fn wrong(format: Format, text: &str) -> Vec<String> {
    let unless = |is_valid: bool, message: &str| {
        let message = (!is_valid).then(|| message.to_owned());
        message.into_iter().collect()
    };
    match format {
        Format::Dns1123Label => names::dns_label(text),
        Format::Dns1123Subdomain => names::dns_subdomain(text),
        Format::Dns1035Label => names::dns_1035_label(text),
        Format::QualifiedName => names::qualified(text),
        Format::Dns1123LabelPrefix => names::dns_label(&without_dash(text)),
        Format::Dns1123SubdomainPrefix => names::dns_subdomain(&without_dash(text)),
        Format::Dns1035LabelPrefix => names::dns_1035_label(&without_dash(text)),
        Format::LabelValue => names::label_value(text),
        Format::Uri => Url::request_uri(text).err().into_iter().collect(),
        Format::Uuid => unless(is_uuid(text), "does not match the UUID format"),
        Format::Byte => unless(is_base64(text), "invalid base64"),
        Format::Date => unless(time::days_of(text).is_some(), "invalid date"),
        Format::Datetime => unless(is_date_and_time(text), "invalid datetime"),
    }
}

/// A prefix may end with a dash, because a name follows. Kubernetes then looks at one letter in the place of its last
/// two characters.
fn without_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let end = rest.floor_char_boundary(rest.len() - 1);
            format!("{}a", &rest[..end])
        }
        _ => text.to_owned(),
    }
}

/// Digits in groups of 8, 4, 4, 4 and 12, between which dashes may stand.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    [8, 4, 4, 4, 12]
        .into_iter()
        .enumerate()
        .all(|(at, length)| {
            if at > 0 {
                rest = rest.strip_prefix('-').unwrap_or(rest);
            }
            let Some((group, after)) = rest.split_at_checked(length) else {
                return false;
            };
            rest = after;
            group.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
        && rest.is_empty()
}

/// With padding, and not empty.
fn is_base64(text: &str) -> bool {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('='));
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    !text.is_empty() && text.len().is_multiple_of(4) && digits.unwrap_or(text).bytes().all(digit)
}

/// A date, and a time with a zone or an offset. Letters may be small, and the hours of offsets are not looked at.
fn is_date_and_time(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some((clock, rest)) = time.split_at_checked(8) else {
        return false;
    };
    let is_clock = has_form(clock, "00:00:00")
        && &clock[..2] <= "23"
        && &clock[3..5] <= "59"
        && &clock[6..] <= "59";
    let zone = rest.strip_suffix('z').or_else(|| {
        let at = rest.len().checked_sub(6)?;
        let (rest, offset) = rest.split_at_checked(at)?;
        let digits = offset.strip_prefix(['+', '-'])?;
        has_form(digits, "00:00").then_some(rest)
    });
    // Any character may stand before the fraction.
    let is_fraction = |fraction: &str| {
        let mut digits = fraction.chars();
        fraction.is_empty()
            || digits.next().is_some_and(|first| first != '\n')
                && !digits.as_str().is_empty()
                && digits.all(|digit| digit.is_ascii_digit())
    };
    time::days_of(date).is_some() && is_clock && zone.is_some_and(is_fraction)
}

/// Whether the text has digits where the form has zeros, and otherwise its characters.
fn has_form(text: &str, form: &str) -> bool {
    let mut pairs = text.bytes().zip(form.bytes());
    text.len() == form.len()
        && pairs.all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}
