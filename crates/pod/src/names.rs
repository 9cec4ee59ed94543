//! Kubernetes' rules for names. Each function returns the errors in order; an empty list means that the name is valid.

/// A label of a domain name, RFC 1123: names of containers, namespaces, volumes.
pub fn dns_label(name: &str) -> Vec<String> {
    let mut wrong = at_most(name, 63);
    if !is_dns_label(name) {
        wrong.push(if is_dns_subdomain(name) {
            "must not contain dots".to_owned()
        } else {
            example(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// A label of a domain name, RFC 1035: names of services.
pub fn dns_1035_label(name: &str) -> Vec<String> {
    let mut wrong = at_most(name, 63);
    let starts_well = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase());
    if !starts_well || !is_dns_label(name) {
        wrong.push(example(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

/// A domain name, RFC 1123: names of most objects.
pub fn dns_subdomain(name: &str) -> Vec<String> {
    let mut wrong = at_most(name, 253);
    if !is_dns_subdomain(name) {
        wrong.push(example(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    wrong
}

/// A key of labels, a name of a resource: a name, with a domain and a slash before it or without.
pub fn qualified(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let form = || {
        example(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
            &["MyName", "my.name", "123-abc"],
        )
    };
    let parts: Vec<&str> = name.split('/').collect();
    let name_part = match parts.as_slice() {
        [name_part] => name_part,
        [prefix, name_part] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let of_prefix = dns_subdomain(prefix).into_iter();
                wrong.extend(of_prefix.map(|message| format!("prefix part {message}")));
            }
            name_part
        }
        _ => {
            wrong.push(format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                form()
            ));
            return wrong;
        }
    };
    if name_part.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    }
    let long = at_most(name_part, 63).into_iter();
    wrong.extend(long.map(|message| format!("name part {message}")));
    if !is_name_part(name_part) {
        wrong.push(format!("name part {}", form()));
    }
    wrong
}

/// A value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = at_most(value, 63);
    if !value.is_empty() && !is_name_part(value) {
        wrong.push(example(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// The name of an environment variable.
pub fn environment(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let starts_well = name
        .bytes()
        .next()
        .is_some_and(|byte| !byte.is_ascii_digit());
    if !starts_well || !name.bytes().all(allowed) {
        wrong.push(example(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        ));
    }
    match name {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        name if name.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// The name of a port.
pub fn port(name: &str) -> Vec<String> {
    let mut wrong = at_most(name, 15);
    let lower = |byte: u8| byte.is_ascii_lowercase();
    let allowed = |byte: u8| lower(byte) || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(allowed) {
        wrong.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.bytes().any(lower) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// The number of a port.
pub fn port_number(port: i64) -> Option<&'static str> {
    (!(1..=65535).contains(&port)).then_some("must be between 1 and 65535, inclusive")
}

fn at_most(text: &str, bytes: usize) -> Vec<String> {
    let long = text.len() > bytes;
    long.then(|| format!("must be no more than {bytes} bytes"))
        .into_iter()
        .collect()
}

/// The rule, with examples and the regular expression.
fn example(what: &str, expression: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples.iter().map(|one| format!("'{one}', ")).collect();
    let examples = examples.join(" or ");
    format!("{what} (e.g. {examples}regex used for validation is '{expression}')")
}

fn is_dns_label(name: &str) -> bool {
    let edge = |byte: Option<u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let allowed = |byte: u8| byte == b'-' || edge(Some(byte));
    edge(name.bytes().next()) && edge(name.bytes().last()) && name.bytes().all(allowed)
}

fn is_dns_subdomain(name: &str) -> bool {
    name.split('.').all(is_dns_label)
}

fn is_name_part(name: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let allowed = |byte: u8| b"-_.".contains(&byte) || byte.is_ascii_alphanumeric();
    edge(name.bytes().next()) && edge(name.bytes().last()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_name_with_a_good_one_and_what_is_wrong_with_bad_ones() {
        type Case<'c> = (fn(&str) -> Vec<String>, &'c str, &'c [&'c str]);
        let long = "x".repeat(64);
        let cases: [Case<'_>; 20] = [
            (dns_1035_label, "a-1", &[]),
            (dns_1035_label, "1-a", &["a DNS-1035 label must consist"]),
            (dns_label, "a-1", &[]),
            (dns_label, "a.b", &["must not contain dots"]),
            (dns_label, "A", &["a lowercase RFC 1123 label must consist"]),
            (dns_label, &long, &["must be no more than 63 bytes"]),
            (dns_subdomain, "a.b-c.d", &[]),
            (
                dns_subdomain,
                "a..b",
                &["a lowercase RFC 1123 subdomain must"],
            ),
            (qualified, "example.com/My_Name", &[]),
            (qualified, "/a", &["prefix part must be non-empty"]),
            (
                qualified,
                "B/a",
                &["prefix part a lowercase RFC 1123 subdomain"],
            ),
            (
                qualified,
                "a/",
                &["name part must be non-empty", "name part must consist"],
            ),
            (qualified, "a/b/c", &["a valid label key must consist"]),
            (label_value, "", &[]),
            (
                label_value,
                "a b",
                &["a valid label must be an empty string"],
            ),
            (environment, "MY-ENV.1", &[]),
            (environment, "1A", &["a valid environment variable name"]),
            (environment, "..A", &["must not start with '..'"]),
            (port, "http-8080", &[]),
            (
                port,
                "-80--",
                &[
                    "must contain at least one letter (a-z)",
                    "must not contain consecutive hyphens",
                    "must not begin or end with a hyphen",
                ],
            ),
        ];
        for (check, name, expected) in cases {
            let found = check(name);
            assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{name}: {found}");
            }
        }
    }

    #[test]
    fn examples_are_told_as_kubernetes_tells_them() {
        assert_eq!(
            dns_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(
            port_number(0),
            Some("must be between 1 and 65535, inclusive")
        );
        assert_eq!(port_number(65535), None);
    }
}
