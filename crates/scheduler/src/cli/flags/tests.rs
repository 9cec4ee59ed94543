//! The flags of kube-scheduler 1.36, alone and as in static pods.
#![allow(clippy::float_cmp, reason = "what is given is what is kept")]

use super::*;
use clap::Parser;
use evictd_placement::Plugin;
use evictd_pod::compatibility::Release;
use evictd_scheduling::config::Point;
use std::io::Write;
use std::sync::Arc;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    flags: Flags,
}

fn parse(arguments: &[&str]) -> Result<Flags, String> {
    let all = ["scheduler"].into_iter().chain(arguments.iter().copied());
    Command::try_parse_from(all)
        .map(|command| command.flags)
        .map_err(|error| error.to_string())
}

#[test]
fn s5_073_the_flags_of_a_static_pod_are_understood() {
    let flags = parse(&[
        "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--bind-address=127.0.0.1",
        "--kubeconfig=/etc/kubernetes/scheduler.conf",
        "--leader-elect=true",
        "--leader-elect-lease-duration=30s",
        "--profiling=false",
        "--tls-min-version=VersionTLS12",
        "--feature-gates=SchedulerQueueingHints=true,AllAlpha=true",
        "-v=4",
    ]);
    let flags = flags.unwrap();
    let config = flags.effective(&[]).unwrap();
    assert!(config.leader_election.leader_elect);
    assert_eq!(
        config.leader_election.lease_duration,
        SignedDuration::from_secs(30)
    );
    assert_eq!((flags.logging.verbosity, flags.secure_port), (4, 10259));
    assert_eq!(
        flags.warnings(),
        ["accepted, but without effect here: --profiling"]
    );
}

/// The effect of a flag.
enum Is {
    /// It has kube-scheduler's meaning, which this function checks.
    Meant(fn(&Flags) -> bool),
    /// It is accepted, and a warning at the start says that it has no effect.
    Told,
}

use Is::{Meant, Told};

fn election(flags: &Flags) -> LeaderElection {
    flags.effective(&[]).unwrap().leader_election
}

fn port(flags: &Flags) -> Port {
    flags.port().unwrap()
}

fn is_path(found: Option<&PathBuf>) -> bool {
    found.is_some_and(|path| path.ends_with("file"))
}

/// Every flag of kube-scheduler 1.36, except `--help` and `--version`.
const FLAGS: [(&str, Is); 63] = [
    (
        "--config=file",
        Meant(|flags| is_path(flags.config.as_ref())),
    ),
    (
        "--write-config-to=file",
        Meant(|flags| is_path(flags.write_config_to.as_ref())),
    ),
    ("--master=https://a", Told),
    // Secure serving.
    (
        "--bind-address=::1",
        Meant(|flags| port(flags).address.to_string() == "[::1]:10259"),
    ),
    ("--secure-port=0", Meant(|flags| flags.port().is_none())),
    ("--cert-dir=/tmp", Told),
    ("--disable-http2-serving", Told),
    ("--http2-max-streams-per-connection=100", Told),
    ("--permit-address-sharing=true", Told),
    ("--permit-port-sharing=true", Told),
    (
        "--tls-cert-file=file",
        Meant(|flags| is_path(flags.tls_cert_file.as_ref())),
    ),
    (
        "--tls-private-key-file=file",
        Meant(|flags| is_path(flags.tls_private_key_file.as_ref())),
    ),
    (
        "--tls-min-version=VersionTLS13",
        Meant(|flags| port(flags).only_tls13),
    ),
    ("--tls-cipher-suites=a,b", Told),
    ("--tls-curve-preferences=a", Told),
    ("--tls-sni-cert-key=a,b", Told),
    // Authentication and authorization.
    (
        "--authentication-kubeconfig=file",
        Meant(|flags| is_path(port(flags).authentication.as_ref())),
    ),
    (
        "--authentication-skip-lookup",
        Meant(|flags| port(flags).skip_lookup),
    ),
    ("--authentication-token-webhook-cache-ttl=10s", Told),
    ("--authentication-tolerate-lookup-failure=false", Told),
    (
        "--client-ca-file=file",
        Meant(|flags| is_path(port(flags).client_ca.map(|file| file.path).as_ref())),
    ),
    ("--requestheader-allowed-names=a", Told),
    ("--requestheader-client-ca-file=a", Told),
    ("--requestheader-extra-headers-prefix=a", Told),
    ("--requestheader-group-headers=a", Told),
    ("--requestheader-uid-headers=a", Told),
    ("--requestheader-username-headers=a", Told),
    (
        "--authorization-kubeconfig=file",
        Meant(|flags| is_path(port(flags).authorization.as_ref())),
    ),
    (
        "--authorization-always-allow-paths=/a,/b*",
        Meant(|flags| port(flags).always_allowed == ["/a", "/b*"]),
    ),
    ("--authorization-webhook-cache-authorized-ttl=10s", Told),
    ("--authorization-webhook-cache-unauthorized-ttl=10s", Told),
    // Deprecated.
    ("--profiling=false", Told),
    ("--contention-profiling=false", Told),
    (
        "--kubeconfig=file",
        Meant(|flags| is_path(flags.kubeconfig.as_ref())),
    ),
    ("--kube-api-content-type=application/json", Told),
    (
        "--kube-api-qps=2.5",
        Meant(|flags| flags.effective(&[]).unwrap().client_connection.qps == Some(2.5)),
    ),
    (
        "--kube-api-burst=7",
        Meant(|flags| flags.effective(&[]).unwrap().client_connection.burst == Some(7)),
    ),
    (
        "--pod-max-in-unschedulable-pods-duration=1m",
        Meant(|flags| {
            flags.effective(&[]).unwrap().pod_max_unschedulable == SignedDuration::from_mins(1)
        }),
    ),
    // Leader election.
    (
        "--leader-elect=false",
        Meant(|flags| !election(flags).leader_elect),
    ),
    (
        "--leader-elect-lease-duration=1m",
        Meant(|flags| election(flags).lease_duration == SignedDuration::from_mins(1)),
    ),
    (
        "--leader-elect-renew-deadline=9s",
        Meant(|flags| election(flags).renew_deadline == SignedDuration::from_secs(9)),
    ),
    (
        "--leader-elect-retry-period=1s",
        Meant(|flags| election(flags).retry_period == SignedDuration::from_secs(1)),
    ),
    (
        "--leader-elect-resource-lock=leases",
        Meant(|flags| flags.effective(&[]).is_ok()),
    ),
    (
        "--leader-elect-resource-name=mine",
        Meant(|flags| election(flags).resource_name == "mine"),
    ),
    (
        "--leader-elect-resource-namespace=here",
        Meant(|flags| election(flags).resource_namespace == "here"),
    ),
    // Feature gates and versions.
    (
        "--feature-gates=AllAlpha=false,KubeletPSI=true",
        Meant(|flags| flags.warnings().is_empty()),
    ),
    (
        "--emulated-version=kube=1.37",
        Meant(|flags| flags.emulation.release() == Some(Release::V1_37)),
    ),
    ("--emulation-forward-compatible", Told),
    ("--min-compatibility-version=kube=1.35", Told),
    // Metrics.
    ("--allow-metric-labels=a=b", Told),
    ("--allow-metric-labels-manifest=a", Told),
    ("--disabled-metrics=a", Told),
    ("--show-hidden-metrics-for-version=1.35", Told),
    // Logs.
    ("-v=4", Meant(|flags| flags.logging.verbosity == 4)),
    ("--v=4", Meant(|flags| flags.logging.verbosity == 4)),
    ("--vmodule=a=2", Told),
    ("--log-flush-frequency=5s", Told),
    ("--logging-format=json", Told),
    ("--log-json-info-buffer-size=0", Told),
    ("--log-json-split-stream", Told),
    ("--log-text-info-buffer-size=0", Told),
    ("--log-text-split-stream", Told),
    (
        "--leader_elect=false",
        Meant(|flags| !election(flags).leader_elect),
    ),
];

#[test]
fn s5_073_every_flag_of_kube_scheduler_means_something_or_is_told() {
    for (flag, is) in FLAGS {
        let (name, _) = flag.split_once('=').unwrap_or((flag, ""));
        // A certificate and its key come together.
        let pair = match name {
            "--tls-cert-file" => Some("--tls-private-key-file=other"),
            "--tls-private-key-file" => Some("--tls-cert-file=other"),
            _ => None,
        };
        let arguments: Vec<&str> = [flag].into_iter().chain(pair).collect();
        let flags = parse(&arguments).unwrap_or_else(|error| panic!("{flag}: {error}"));
        match is {
            Meant(means) => {
                assert!(means(&flags), "{flag}");
                assert!(flags.warnings().is_empty(), "{flag}");
            }
            Told => {
                let warning = format!("accepted, but without effect here: {name}");
                assert_eq!(flags.warnings(), [warning], "{flag}");
            }
        }
    }
}

/// The static pods of distributions: each flag is accepted, and one line names those without effect.
#[test]
fn s5_073_the_static_pods_of_distributions_are_understood() {
    const KUBEADM: &str = "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf \
        --authorization-kubeconfig=/etc/kubernetes/scheduler.conf --bind-address=127.0.0.1 \
        --kubeconfig=/etc/kubernetes/scheduler.conf --leader-elect=true";
    let table = [
        (KUBEADM.to_owned(), ""),
        (
            format!(
                "{KUBEADM} --bind-address=:: --profiling=False --kube-api-qps=50 --kube-api-burst=100 \
                 --feature-gates=RotateKubeletServerCertificate=true,HPAScaleToZero=true \
                 --tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
            ),
            "--profiling, --tls-cipher-suites",
        ),
        (
            "--permit-port-sharing=true --authentication-kubeconfig=/a --authorization-kubeconfig=/a \
             --bind-address=127.0.0.1 --kubeconfig=/a --leader-elect=false --profiling=false --secure-port=10259 \
             --tls-cert-file=/a.crt --tls-private-key-file=/a.key"
                .to_owned(),
            "--permit-port-sharing, --profiling",
        ),
        (
            "--authentication-tolerate-lookup-failure=false --authentication-kubeconfig=/a \
             --authorization-kubeconfig=/a --bind-address=127.0.0.1 --config=/config.yaml --leader-elect=true \
             --profiling=false --tls-min-version=VersionTLS13"
                .to_owned(),
            "--authentication-tolerate-lookup-failure, --profiling",
        ),
        (
            "--authentication-kubeconfig=/a --authorization-kubeconfig=/a --config=/config.yaml \
             --cert-dir=/var/run/kubernetes --feature-gates=GangScheduling=true --tls-cert-file=/a \
             --tls-private-key-file=/b --logging-format=json --v=2"
                .to_owned(),
            "--cert-dir, --logging-format",
        ),
    ];
    for (line, ignored_flags) in table {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let flags = parse(&arguments).unwrap_or_else(|error| panic!("{line}: {error}"));
        let warning = format!("accepted, but without effect here: {ignored_flags}");
        let warning = (!ignored_flags.is_empty()).then_some(warning);
        assert_eq!(flags.warnings(), Vec::from_iter(warning), "{line}");
    }
}

#[test]
fn of_a_flag_that_comes_twice_the_last_counts() {
    let flags = parse(&[
        "--bind-address=127.0.0.1",
        "--v=4",
        "--bind-address=::",
        "-v",
        "6",
    ]);
    let flags = flags.unwrap();
    assert!(flags.bind_address.is_ipv6());
    assert_eq!(flags.logging.verbosity, 6);
}

#[test]
fn truths_and_durations_are_those_of_go() {
    assert!(!parse(&["--leader-elect=f"]).unwrap().leader_elect.unwrap());
    assert!(parse(&["--leader-elect"]).unwrap().leader_elect.unwrap());
    let error = parse(&["--profiling=maybe"]).unwrap_err();
    assert!(error.contains("neither true nor false"), "{error}");
    assert!(parse(&["--log-flush-frequency=5"]).is_err());
    assert!(parse(&["--leader-elect-lease-duration=1 minute"]).is_err());
}

#[test]
fn s5_074_flags_of_the_election_must_go_together() {
    let flags = parse(&["--leader-elect-lease-duration=10s"]).unwrap();
    let error = flags.effective(&[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "--leader-elect-*: leaseDuration must be above renewDeadline"
    );
    let off = ["--leader-elect=false", "--leader-elect-lease-duration=10s"];
    assert!(parse(&off).unwrap().effective(&[]).is_ok());
}

#[test]
fn gates_may_name_their_component_and_come_twice() {
    let flags = parse(&[
        "--feature-gates=kube:GangScheduling=false",
        "--feature-gates=GangScheduling=true, DRAListTypeAttributes=1",
    ]);
    assert_eq!(
        flags.unwrap().warnings(),
        ["--feature-gates DRAListTypeAttributes=true changes nothing: it is always off here"]
    );
}

#[test]
fn s7_002_the_emulated_version_has_the_forms_of_kube_scheduler() {
    for (text, release) in [
        ("1.36", Release::V1_36),
        ("1.37", Release::V1_37),
        ("kube=1.37", Release::V1_37),
        ("1.35", Release::V1_36),
        ("1.36,kube=1.37", Release::V1_37),
    ] {
        let flags = parse(&[&format!("--emulated-version={text}")]).unwrap();
        assert_eq!(flags.emulation.release(), Some(release), "{text}");
        assert_eq!(flags.warnings().is_empty(), text != "1.35", "{text}");
    }
    for (text, error) in [
        (
            "1.38",
            "Kubernetes 1.38 cannot be emulated, only 1.36 and 1.37",
        ),
        ("1.32", "cannot be emulated"),
        ("1.37.1", "the form is MAJOR.MINOR, as 1.37"),
        ("newest", "the form is MAJOR.MINOR, as 1.37"),
        ("wardle=1.2", "wardle: the only component here is kube"),
    ] {
        let refused = parse(&[&format!("--emulated-version={text}")]).unwrap_err();
        assert!(refused.contains(error), "{refused}");
    }
    let older = parse(&["--emulated-version=1.35"]).unwrap().emulation;
    let refused = older.of_files().unwrap_err().to_string();
    assert_eq!(
        refused,
        "--emulated-version 1.35: cannot be emulated, only 1.36 and 1.37"
    );
}

#[test]
fn s7_002_a_gate_of_another_release_is_refused() {
    let flags = parse(&["--feature-gates=GangScheduling=true,VolumeLimitScaling=false"]).unwrap();
    assert!(flags.emulation.with(Release::V1_36).is_ok());
    let error =
        "--feature-gates: cannot set feature gate GangScheduling: Kubernetes 1.37 does not have it";
    assert_eq!(flags.emulation.with(Release::V1_37).unwrap_err(), error);
}

#[test]
fn s4_025_s5_100_the_gates_of_1_36_are_as_they_are_there() {
    let on = "SchedulerQueueingHints=true,SchedulerPopFromBackoffQ=true,SchedulerAsyncPreemption=true,\
              OpportunisticBatching=true";
    let flags = parse(&[&format!("--feature-gates={on}")]).unwrap();
    assert_eq!(flags.warnings(), [""; 0]);
    // Victims are always deleted in the background.
    let flags = parse(&["--feature-gates=SchedulerAsyncPreemption=false"]).unwrap();
    let expected =
        "--feature-gates SchedulerAsyncPreemption=false changes nothing: it is always on here";
    assert_eq!(flags.warnings(), [expected]);
}

#[test]
fn what_is_not_known_is_told_with_the_nearest() {
    let error = parse(&["--leader-elct=true"]).unwrap_err();
    assert!(error.contains("--leader-elect"), "{error}");
    // Also for flags without effect.
    for (flag, nearest) in [
        ("--tls-cipher-suite=a", "'--tls-cipher-suites'"),
        ("--profilling=false", "'--profiling'"),
        (
            "--authorization-kubconfig=a",
            "'--authorization-kubeconfig'",
        ),
    ] {
        let error = parse(&[flag]).unwrap_err();
        assert!(error.contains("unexpected argument"), "{error}");
        assert!(error.contains(nearest), "{flag}: {error}");
    }
    let error = parse(&["--feature-gates=SchedulerQueueingHint=true"]).unwrap_err();
    assert!(
        error.contains("the nearest is SchedulerQueueingHints"),
        "{error}"
    );
    assert!(
        parse(&["--leader-elect-retry-period=soon"])
            .unwrap_err()
            .contains("like 15s")
    );
}

#[test]
fn the_rate_of_the_flags_holds_where_the_file_leaves_it_out() {
    let table = [
        ("", Some(7.0), Some(3), ["holds", "holds"]),
        (
            "clientConnection: {qps: 20}\n",
            Some(20.0),
            Some(3),
            ["ignored", "holds"],
        ),
        (
            // As in kube-scheduler, 0 is no value.
            "clientConnection: {qps: 0, burst: 9}\n",
            Some(7.0),
            Some(9),
            ["holds", "ignored"],
        ),
    ];
    for (text, qps, burst, said) in table {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        write!(file, "{head}{text}").unwrap();
        let path = file.path().to_str().unwrap();
        let flags = parse(&["--config", path, "--kube-api-qps=7", "--kube-api-burst=3"]).unwrap();
        let config = flags.effective(&[]).unwrap();
        let client = &config.client_connection;
        assert_eq!((client.qps, client.burst), (qps, burst), "{text}");
        let warnings = flags.rate_warnings(client);
        assert_eq!(warnings.len(), 2, "{text}");
        for (warning, word) in warnings.iter().zip(said) {
            assert!(warning.contains(word), "{text}: {warning}");
        }
    }
    // Without a file nothing needs to be said.
    let flags = parse(&["--kube-api-qps=7"]).unwrap();
    let config = flags.effective(&[]).unwrap();
    assert_eq!(flags.rate_warnings(&config.client_connection), [""; 0]);
}

struct Mine;

impl Plugin for Mine {
    fn name(&self) -> &'static str {
        "Mine"
    }
}

#[test]
fn a_configuration_may_name_a_plugin_of_ones_own() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
                - plugins:\n    multiPoint:\n      enabled:\n      - name: Mine\n";
    write!(file, "{text}").unwrap();
    let path = file.path().to_str().unwrap();
    let flags = parse(&["--config", path]).unwrap();
    let error = flags.effective(&[]).unwrap_err().to_string();
    assert!(
        error.contains("\"Mine\": there is no such plugin"),
        "{error}"
    );
    let plugin = CustomPlugin {
        name: "Mine",
        points: &[Point::Permit],
        make: |_, _| Ok(Arc::new(Mine)),
    };
    let config = flags.effective(&[plugin]).unwrap();
    assert_eq!(config.profiles[0].points.at(Point::Permit), ["Mine"]);
}

#[test]
fn s6_249_a_gate_of_volcano_is_refused_with_reason_and_way() {
    let error = parse(&["--feature-gates=SchedulingGatesQueueAdmission=true"]).unwrap_err();
    let words = "SchedulingGatesQueueAdmission is not supported: gates of pods are removed by those who set them";
    assert!(error.contains(words), "{error}");
    let error = parse(&["--feature-gates=SchedulingGatesQueueAdmission=false"]).unwrap_err();
    assert!(error.contains("leave it out"), "{error}");
}
