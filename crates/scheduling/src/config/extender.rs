//! The extenders of a configuration.

use super::text::{is_extended_resource, is_label_name};
use super::wire;
use super::{FieldErrors, Profile};
use jiff::SignedDuration;

/// An HTTP service that is asked beside the plugins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extender {
    /// The URL to which the verbs are appended.
    pub url_prefix: String,
    /// The verb that filters nodes; empty if it does not.
    pub filter_verb: String,
    /// The verb that filters victims.
    pub preempt_verb: String,
    /// The verb that scores nodes.
    pub prioritize_verb: String,
    /// The weight of its scores.
    pub weight: i64,
    /// The verb that binds pods.
    pub bind_verb: String,
    /// Whether it is reached by HTTPS. Without a CA its certificate is not verified.
    pub enable_https: bool,
    /// The TLS client configuration.
    pub tls: Option<Tls>,
    /// The timeout of a request.
    pub timeout: SignedDuration,
    /// Whether it caches nodes, so that requests hold only their names.
    pub node_cache_capable: bool,
    /// It is asked only about pods that request one of these resources. If empty, it is asked about all.
    pub managed_resources: Vec<String>,
    /// The managed resources that no plugin checks.
    pub ignored_resources: Vec<String>,
    /// Whether its errors are ignored.
    pub ignorable: bool,
}

/// The TLS client configuration of an extender. Empty fields are absent. Data is in base64 and takes precedence over files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Whether its certificate is not verified.
    pub insecure: bool,
    /// The name that its certificate must have, instead of the host of the URL.
    pub server_name: String,
    /// The client certificate.
    pub cert_file: String,
    /// The private key of the client certificate.
    pub key_file: String,
    /// The CA certificates.
    pub ca_file: String,
    /// The client certificate.
    pub cert_data: String,
    /// The private key of the client certificate.
    pub key_data: String,
    /// The CA certificates.
    pub ca_data: String,
}

impl Tls {
    fn read(field: &str, wire: &wire::TlsConfig, errors: &mut FieldErrors) -> Self {
        let has = |file: &str, data: &str| !(file.is_empty() && data.is_empty());
        let certificate = has(&wire.cert_file, &wire.cert_data);
        let key = has(&wire.key_file, &wire.key_data);
        if certificate != key {
            errors.add(
                field,
                "a certificate and its private key must come together",
            );
        }
        if wire.insecure && has(&wire.ca_file, &wire.ca_data) {
            errors.add(
                format!("{field}.insecure"),
                "must be absent where there are authorities to check by",
            );
        }
        Self {
            insecure: wire.insecure,
            server_name: wire.server_name.clone(),
            cert_file: wire.cert_file.clone(),
            key_file: wire.key_file.clone(),
            ca_file: wire.ca_file.clone(),
            cert_data: wire.cert_data.clone(),
            key_data: wire.key_data.clone(),
            ca_data: wire.ca_data.clone(),
        }
    }
}

impl Extender {
    fn read(field: &str, wire: &wire::Extender, errors: &mut FieldErrors) -> Self {
        if wire.url_prefix.is_empty() {
            errors.add(format!("{field}.urlPrefix"), "is missing");
        }
        if !wire.prioritize_verb.is_empty() && wire.weight <= 0 {
            errors.add(
                format!("{field}.weight"),
                format!("{}: must be above 0 with a prioritizeVerb", wire.weight),
            );
        }
        let names = |ignored: bool| {
            wire.managed_resources
                .iter()
                .filter(|managed| !ignored || managed.ignored_by_scheduler)
                .map(|managed| managed.name.clone())
                .collect()
        };
        let tls = wire.tls_config.as_ref();
        Self {
            url_prefix: wire.url_prefix.clone(),
            filter_verb: wire.filter_verb.clone(),
            preempt_verb: wire.preempt_verb.clone(),
            prioritize_verb: wire.prioritize_verb.clone(),
            weight: wire.weight,
            bind_verb: wire.bind_verb.clone(),
            enable_https: wire.enable_https,
            tls: tls.map(|tls| Tls::read(&format!("{field}.tlsConfig"), tls, errors)),
            timeout: errors.duration(
                &format!("{field}.httpTimeout"),
                wire.http_timeout.as_deref(),
                5,
            ),
            node_cache_capable: wire.node_cache_capable,
            managed_resources: names(false),
            ignored_resources: names(true),
            ignorable: wire.ignorable,
        }
    }
}

pub(super) fn read(wire: &[wire::Extender], errors: &mut FieldErrors) -> Vec<Extender> {
    let mut extenders: Vec<Extender> = Vec::new();
    let mut managed: Vec<&str> = Vec::new();
    for (index, wire) in wire.iter().enumerate() {
        let field = format!("extenders[{index}]");
        let binds = |extender: &Extender| !extender.bind_verb.is_empty();
        if !wire.bind_verb.is_empty() && extenders.iter().any(binds) {
            errors.add(format!("{field}.bindVerb"), "only one extender may bind");
        }
        for (index, resource) in wire.managed_resources.iter().enumerate() {
            let (name, at) = (
                &resource.name,
                format!("{field}.managedResources[{index}].name"),
            );
            if !is_label_name(name) || !is_extended_resource(name) {
                let message = "must be an extended resource, like example.com/gpu";
                errors.add(&at, format!("{name:?}: {message}"));
            }
            if managed.contains(&name.as_str()) {
                errors.add(&at, format!("{name:?}: is managed twice"));
            }
            managed.push(name);
        }
        extenders.push(Extender::read(&field, wire, errors));
    }
    // An error of an ignorable extender must not hide the answers of the others (S5-050).
    extenders.sort_by_key(|extender| extender.ignorable);
    extenders
}

/// As in kube-scheduler: the resources that only extenders check replace the ignored resources of `NodeResourcesFitArgs`.
pub(super) fn ignore_resources(extenders: &[Extender], profiles: &mut [Profile]) {
    let ignored: Vec<String> = extenders
        .iter()
        .flat_map(|extender| &extender.ignored_resources)
        .cloned()
        .collect();
    if !ignored.is_empty() {
        for profile in profiles {
            profile.args.fit.ignored.resources.clone_from(&ignored);
        }
    }
}
