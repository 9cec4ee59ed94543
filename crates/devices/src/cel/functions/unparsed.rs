//! Why a text is no IP address or CIDR, in the words of Kubernetes' library.

use crate::cel::quote::quoted;

/// A reason, and the rest of the text at the mistake, if it is named.
type Reason<'t> = (&'static str, &'t str);

/// The error of an invalid address.
pub(super) fn address(text: &str) -> String {
    let (why, rest) = reason(text);
    let text = quoted(text);
    if rest.is_empty() {
        return format!("ParseAddr({text}): {why}");
    }
    let rest = quoted(rest);
    format!("ParseAddr({text}): {why} (at {rest})")
}

/// The error of an invalid CIDR, with this reason.
pub(super) fn network(text: &str, why: &str) -> String {
    let told = "network address parse error during conversion from string";
    let text = quoted(text);
    format!("{told}: {told}: netip.ParsePrefix({text}): {why}")
}

fn reason(text: &str) -> Reason<'_> {
    let mut marks = text.chars().filter(|mark| ['.', ':', '%'].contains(mark));
    match marks.next() {
        Some('.') => of_four(text).unwrap_or(("unable to parse IP", "")),
        Some(':') => of_six(text).unwrap_or(("unable to parse IP", "")),
        Some(_) => ("missing IPv6 address", ""),
        None => ("unable to parse IP", ""),
    }
}

/// The reason for an invalid IPv4 address.
fn of_four(text: &str) -> Option<Reason<'_>> {
    let (mut number, mut digits, mut dots) = (0, 0, 0);
    for (at, character) in text.char_indices() {
        let rest = text.get(at..).unwrap_or_default();
        if let Some(digit) = character.to_digit(10) {
            if digits == 1 && number == 0 {
                return Some(("IPv4 field has octet with leading zero", ""));
            }
            number = number * 10 + digit;
            digits += 1;
            if number > 255 {
                return Some(("IPv4 field has value >255", ""));
            }
        } else if character == '.' {
            if digits == 0 || rest.len() == 1 {
                return Some(("IPv4 field must have at least one digit", rest));
            }
            if dots == 3 {
                return Some(("IPv4 address too long", ""));
            }
            dots += 1;
            (number, digits) = (0, 0);
        } else {
            return Some(("unexpected character", rest));
        }
    }
    (dots < 3).then_some(("IPv4 address too short", ""))
}

/// The reason for an invalid IPv6 address.
fn of_six(text: &str) -> Option<Reason<'_>> {
    let mut rest = text;
    if let Some((address, zone)) = text.split_once('%') {
        if zone.is_empty() {
            return Some(("zone must be a non-empty string", ""));
        }
        rest = address;
    }
    let mut is_short = false;
    if let Some(after) = rest.strip_prefix("::") {
        is_short = true;
        rest = after;
    }
    let mut fields = 0;
    while fields < 8 && !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_hexdigit());
        let (field, after) = rest.split_at(end.unwrap_or(rest.len()));
        if field.len() > 4 {
            return Some(("each group must have 4 or less digits", rest));
        }
        if field.is_empty() {
            let why = "each colon-separated field must have at least one digit";
            return Some((why, rest));
        }
        if after.starts_with('.') {
            if !is_short && fields != 6 {
                let why = "embedded IPv4 address must replace the final 2 fields of the address";
                return Some((why, rest));
            }
            return of_four(rest);
        }
        fields += 1;
        rest = after;
        if rest.is_empty() {
            break;
        }
        let Some(next) = rest.strip_prefix(':') else {
            return Some(("unexpected character, want colon", rest));
        };
        if next.is_empty() {
            return Some(("colon must be followed by more characters", rest));
        }
        rest = next;
        if let Some(next) = rest.strip_prefix(':') {
            if is_short {
                return Some(("multiple :: in address", rest));
            }
            is_short = true;
            rest = next;
        }
    }
    match (rest.is_empty(), fields, is_short) {
        (false, ..) => Some(("trailing garbage after address", rest)),
        (true, 0..8, false) => Some(("address string too short", "")),
        (true, 8.., true) => Some(("the :: must expand to at least one field of zeros", "")),
        _ => None,
    }
}
