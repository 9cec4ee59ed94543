//! Probes and hooks of a container.

use crate::field::Mistakes;
use crate::read::{has, list, number, text};
use evictd_pod::names;
use serde_json::Value;

/// Hooks first, then the probes.
pub(super) fn check(container: &Value, path: &str, mistakes: &mut Mistakes) {
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if !handler.is_null() {
            check_handler(handler, &format!("{path}.lifecycle.{hook}"), mistakes);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if has(container, probe) {
            check_probe(
                &container[probe],
                probe,
                &format!("{path}.{probe}"),
                mistakes,
            );
        }
    }
}

fn check_probe(probe: &Value, kind: &str, path: &str, mistakes: &mut Mistakes) {
    check_handler(probe, path, mistakes);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        let value = number(probe, field);
        if value < 0 {
            let path = format!("{path}.{field}");
            mistakes.invalid_number(&path, value, "must be greater than or equal to 0");
        }
    }
    let successes = number(probe, "successThreshold");
    // The other probes end with their first success.
    if kind != "readinessProbe" && !matches!(successes, 0 | 1) {
        let path = format!("{path}.successThreshold");
        mistakes.invalid_number(&path, successes, "must be 1");
    }
}

fn check_handler(handler: &Value, path: &str, mistakes: &mut Mistakes) {
    let mut given = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        if !has(handler, kind) {
            continue;
        }
        let (action, path) = (&handler[kind], format!("{path}.{kind}"));
        if given {
            mistakes.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        given = true;
        match kind {
            "exec" if list(action, "command").is_empty() => {
                mistakes.required(&format!("{path}.command"), "");
            }
            "httpGet" => {
                check_port(&action["port"], &format!("{path}.port"), mistakes);
                let scheme = text(action, "scheme");
                if !scheme.is_empty() {
                    mistakes.one_of(&format!("{path}.scheme"), scheme, &["HTTP", "HTTPS"]);
                }
            }
            "tcpSocket" | "grpc" => check_port(&action["port"], &format!("{path}.port"), mistakes),
            _ => {}
        }
    }
    if !given {
        mistakes.required(path, "must specify a handler type");
    }
}

/// A number or a name.
fn check_port(port: &Value, path: &str, mistakes: &mut Mistakes) {
    if let Some(name) = port.as_str() {
        return mistakes.each_invalid(path, name, names::port(name));
    }
    let number = port.as_i64().unwrap_or_default();
    if let Some(why) = names::port_number(number) {
        mistakes.invalid_number(path, number, why);
    }
}
