//! The machine: evictd on it, and what it says of what is left.

use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

const CONFIGURATION: &str = "/etc/evictd/evictd.yaml";
const KUBECONFIG: &str = "/etc/evictd/kubeconfig";
const METRICS: &str = "127.0.0.1:20261";
const START: Duration = Duration::from_mins(1);
/// Upstream: 30 s.
const TRANSITION_SCALED: &str = "10s";
/// Upstream: the default of 2m; images are there for hours.
const IMAGE_AGE_SCALED: &str = "2s";

/// Runs a program to its end; what it wrote.
pub(crate) fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{program} {arguments:?}: {said}")))
}

/// Lets evictd find the API server.
pub(crate) fn connect(kubeconfig: &str) -> io::Result<()> {
    fs::create_dir_all("/etc/systemd/system/evictd.service.d")?;
    fs::write(KUBECONFIG, kubeconfig)?;
    let environment = format!("[Service]\nEnvironment=KUBECONFIG={KUBECONFIG}\n");
    fs::write("/etc/systemd/system/evictd.service.d/e2e.conf", environment)?;
    run("systemctl", &["daemon-reload"]).map(|_| ())
}

/// Starts evictd with upstream's configuration of a kubelet under test and this on top; returns once it has figures.
pub(crate) fn start(on_top: &Value) -> io::Result<()> {
    let mut configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "evictionHard": {"memory.available": "250Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
        "evictionMinimumReclaim": {"nodefs.available": "5%", "nodefs.inodesFree": "5%"},
        "evictionPressureTransitionPeriod": TRANSITION_SCALED,
        "imageMinimumGCAge": IMAGE_AGE_SCALED,
    });
    for (key, value) in on_top.as_object().into_iter().flatten() {
        configuration[key] = value.clone();
    }
    // The KubeletConfiguration of 1.36 has it, evictd has no use for it.
    if let Some(all) = configuration.as_object_mut() {
        all.remove("cgroupsPerQOS");
    }
    println!("  -- {configuration}");
    fs::write(CONFIGURATION, configuration.to_string())?;
    run("systemctl", &["restart", "evictd"])?;
    let begun = Instant::now();
    while left("memory.available").is_none() {
        if begun.elapsed() > START {
            return Err(io::Error::other("evictd has no figures after a minute"));
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// What evictd says is left of a signal.
pub(crate) fn left(signal: &str) -> Option<u64> {
    let name = format!("evictd_signal_available{{signal=\"{signal}\"}} ");
    let all = metrics().ok()?;
    let line = all.lines().find_map(|line| line.strip_prefix(&name))?;
    let value: f64 = line.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number that is not negative"
    )]
    Some(value.max(0.0) as u64)
}

fn metrics() -> io::Result<String> {
    let mut stream = TcpStream::connect(METRICS)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
    let mut all = String::new();
    stream.read_to_string(&mut all)?;
    Ok(all)
}

/// Bounds the pods' cgroup as a kubelet does.
pub(crate) fn bound_pods(mebibytes: u64) -> io::Result<()> {
    let limit = format!("MemoryMax={mebibytes}M");
    run(
        "systemctl",
        &["set-property", "--runtime", "kubepods.slice", &limit],
    )
    .map(|_| ())
}

/// The machine's memory in bytes.
pub(crate) fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}

/// Whether evictd would let this pod in now.
pub(crate) fn admits(pod: &Value) -> io::Result<bool> {
    let file = "/run/e2e-pod.json";
    fs::write(file, pod.to_string())?;
    let answer = run("evictd", &["admit", "--pod", file, "-o", "json"])?;
    let answer: Value = serde_json::from_str(&answer)?;
    Ok(answer["allowed"] == true)
}
