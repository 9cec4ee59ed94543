//! The values of all flags of `run`, for the page `/flagz`.

use super::Cli;
use clap::{ArgMatches, CommandFactory};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The flags of this process with their values, defaults included.
pub(super) fn flags() -> BTreeMap<String, String> {
    values(std::env::args_os())
}

fn values(arguments: impl IntoIterator<Item = OsString>) -> BTreeMap<String, String> {
    let matches = Cli::command().try_get_matches_from(arguments);
    let matches = matches.ok().and_then(|mut all| all.remove_subcommand());
    matches.map_or_else(BTreeMap::new, |(_, matches)| of(&matches))
}

fn of(matches: &ArgMatches) -> BTreeMap<String, String> {
    let value = |id: &str| {
        // A group of flags has no value of its own.
        let values = matches.try_get_raw(id).ok().flatten()?;
        let values: Vec<_> = values.map(OsStr::to_string_lossy).collect();
        Some((id.replace('_', "-"), values.join(",")))
    };
    matches.ids().filter_map(|id| value(id.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_flags_and_defaults_are_listed() {
        let arguments = [
            "evictd-scheduler",
            "run",
            "--secure-port=1",
            "--profiling=false",
        ];
        let flags = values(arguments.map(OsString::from));
        assert_eq!(flags["secure-port"], "1");
        assert_eq!(flags["profiling"], "false");
        assert_eq!(flags["bind-address"], "0.0.0.0");
        assert_eq!(
            flags["authorization-always-allow-paths"],
            "/healthz,/readyz,/livez"
        );
        assert!(!flags.contains_key("config"));
    }
}
