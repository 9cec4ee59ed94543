//! The metrics of this process, under the names that all Prometheus clients use.

use procfs::ProcResult;
use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

#[derive(Debug)]
pub(super) struct ProcessMetrics;

/// The figures of a process. An unreadable figure is absent.
struct Figures {
    cpu_seconds: f64,
    start_seconds: Option<f64>,
    resident: u64,
    virtual_memory: u64,
    max_virtual_memory: Option<u64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
    /// Bytes received and sent, by all processes with these network interfaces, such as those of a pod.
    network: Option<(u64, u64)>,
}

impl Figures {
    #[expect(
        clippy::cast_precision_loss,
        reason = "ticks and bytes of a process are exact enough"
    )]
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let ticks = procfs::ticks_per_second() as f64;
        let booted = procfs::boot_time_secs().ok();
        let limits = process.limits().ok();
        let limit = |value: Option<LimitValue>| match value? {
            LimitValue::Value(value) => Some(value),
            // As other clients of Prometheus show it.
            LimitValue::Unlimited => Some(u64::MAX),
        };
        Ok(Self {
            cpu_seconds: (stat.utime + stat.stime) as f64 / ticks,
            start_seconds: booted.map(|booted| booted as f64 + stat.starttime as f64 / ticks),
            resident: stat.rss * procfs::page_size(),
            virtual_memory: stat.vsize,
            max_virtual_memory: limit(limits.as_ref().map(|all| all.max_address_space.soft_limit)),
            open_fds: process.fd_count().ok().map(|count| count as u64),
            max_fds: limit(limits.as_ref().map(|all| all.max_open_files.soft_limit)),
            network: std::fs::read_to_string("/proc/self/net/netstat")
                .ok()
                .and_then(|text| network(&text)),
        })
    }
}

/// The bytes received and sent, of a table whose rows come in pairs: names and values.
fn network(netstat: &str) -> Option<(u64, u64)> {
    let mut rows = netstat
        .lines()
        .filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, values) = (rows.next()?, rows.next()?);
    let value = |wanted: &str| {
        let mut columns = names.split_whitespace().zip(values.split_whitespace());
        let (_, value) = columns.find(|(name, _)| *name == wanted)?;
        value.parse().ok()
    };
    Some((value("InOctets")?, value("OutOctets")?))
}

impl Collector for ProcessMetrics {
    #[expect(
        clippy::cast_precision_loss,
        reason = "bytes of a process are exact enough"
    )]
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(figures) = Figures::read() else {
            return Ok(());
        };
        let bytes = |bytes: u64| bytes as f64;
        let counters = [
            (
                "process_cpu_seconds",
                "Processor time of this process",
                Some(figures.cpu_seconds),
            ),
            (
                "process_network_receive_bytes",
                "Bytes received over the network",
                figures.network.map(|(received, _)| bytes(received)),
            ),
            (
                "process_network_transmit_bytes",
                "Bytes sent over the network",
                figures.network.map(|(_, sent)| bytes(sent)),
            ),
        ];
        for (name, help, value) in counters {
            if let Some(value) = value {
                let help = format!("[STABLE] {help}");
                let counter = encoder.encode_descriptor(name, &help, None, MetricType::Counter)?;
                ConstCounter::new(value).encode(counter)?;
            }
        }
        let gauges = [
            (
                "process_start_time_seconds",
                "Start in seconds since 1970",
                figures.start_seconds,
            ),
            (
                "process_resident_memory_bytes",
                "Resident memory",
                Some(bytes(figures.resident)),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory",
                Some(bytes(figures.virtual_memory)),
            ),
            (
                "process_virtual_memory_max_bytes",
                "The most virtual memory",
                figures.max_virtual_memory.map(bytes),
            ),
            (
                "process_open_fds",
                "Open files",
                figures.open_fds.map(bytes),
            ),
            (
                "process_max_fds",
                "The most open files",
                figures.max_fds.map(bytes),
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let help = format!("[STABLE] {help}");
                let gauge = encoder.encode_descriptor(name, &help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(gauge)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::network;
    use crate::metrics::{Exposition, Format};
    use prometheus_client::registry::Registry;

    #[test]
    fn network_bytes_are_those_of_the_ip_extensions() {
        let text = "TcpExt: InOctets OutOctets\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 3 4000000000 5\n";
        assert_eq!(network(text), Some((4_000_000_000, 5)));
        assert_eq!(network("IpExt: InOctets\nIpExt: 3\n"), None);
        assert_eq!(network(""), None);
    }

    #[test]
    fn a_process_shows_its_time_memory_files_and_start() {
        let exposition = Exposition::new(Registry::default()).with_process();
        let text = exposition.render(Format::Plain).unwrap();
        for name in [
            "process_cpu_seconds_total counter",
            "process_resident_memory_bytes gauge",
            "process_virtual_memory_bytes gauge",
            "process_virtual_memory_max_bytes gauge",
            "process_network_receive_bytes_total counter",
            "process_network_transmit_bytes_total counter",
            "process_open_fds gauge",
            "process_max_fds gauge",
            "process_start_time_seconds gauge",
        ] {
            assert!(text.contains(&format!("# TYPE {name}\n")), "{name}: {text}");
        }
        let resident = text
            .lines()
            .find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        assert!(resident.unwrap().parse::<f64>().unwrap() > 100_000.0);
    }
}
