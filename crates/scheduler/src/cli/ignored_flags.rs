//! Flags of kube-scheduler that are accepted without effect.

use crate::values::{boolean, duration};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

/// The type of a flag's value. An invalid value is still an error.
#[derive(Clone, Copy)]
enum Takes {
    Text,
    Bool,
    Number,
    Duration,
}

use Takes::{Bool, Duration, Number, Text};

const FLAGS: [(&str, Takes); 35] = [
    ("allow-metric-labels", Text),
    ("allow-metric-labels-manifest", Text),
    ("authentication-token-webhook-cache-ttl", Duration),
    ("authentication-tolerate-lookup-failure", Bool),
    ("authorization-webhook-cache-authorized-ttl", Duration),
    ("authorization-webhook-cache-unauthorized-ttl", Duration),
    ("cert-dir", Text),
    ("contention-profiling", Bool),
    ("disable-http2-serving", Bool),
    ("disabled-metrics", Text),
    ("emulation-forward-compatible", Bool),
    ("http2-max-streams-per-connection", Number),
    ("kube-api-content-type", Text),
    ("log-flush-frequency", Duration),
    ("log-json-info-buffer-size", Text),
    ("log-json-split-stream", Bool),
    ("log-text-info-buffer-size", Text),
    ("log-text-split-stream", Bool),
    ("logging-format", Text),
    ("master", Text),
    ("min-compatibility-version", Text),
    ("permit-address-sharing", Bool),
    ("permit-port-sharing", Bool),
    ("profiling", Bool),
    ("requestheader-allowed-names", Text),
    ("requestheader-client-ca-file", Text),
    ("requestheader-extra-headers-prefix", Text),
    ("requestheader-group-headers", Text),
    ("requestheader-uid-headers", Text),
    ("requestheader-username-headers", Text),
    ("show-hidden-metrics-for-version", Text),
    ("tls-cipher-suites", Text),
    ("tls-curve-preferences", Text),
    ("tls-sni-cert-key", Text),
    ("vmodule", Text),
];

/// The ignored flags on the command line.
#[derive(Debug)]
pub(super) struct IgnoredFlags(Vec<&'static str>);

impl IgnoredFlags {
    /// A line that names all of them. `None` without any.
    pub(super) fn warning(&self) -> Option<String> {
        let names: Vec<String> = self.0.iter().map(|name| format!("--{name}")).collect();
        (!names.is_empty())
            .then(|| format!("accepted, but without effect here: {}", names.join(", ")))
    }
}

impl Args for IgnoredFlags {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.map(|(name, takes)| {
            let arg = Arg::new(name).long(name).hide(true);
            match takes {
                Text => arg,
                Bool => arg
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true")
                    .value_parser(boolean),
                Number => arg.value_parser(value_parser!(i64)),
                Duration => arg.value_parser(duration),
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for IgnoredFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let names = FLAGS.iter().map(|(name, _)| *name);
        let given =
            names.filter(|name| matches.value_source(name) == Some(ValueSource::CommandLine));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
