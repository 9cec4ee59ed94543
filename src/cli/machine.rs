//! Identity and size of this machine, for `evictd status`.

use evictd_signals::human_bytes;
use serde::Serialize;
use std::sync::mpsc::channel;
use std::time::Duration;
use sysinfo::{Disks, MemoryRefreshKind, RefreshKind, System};

/// How long to wait for filesystems: one that hangs must not block the status.
const PATIENCE: Duration = Duration::from_secs(2);

/// The machine's identity and size; unknown fields are absent.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Machine {
    host_name: Option<String>,
    operating_system: Option<String>,
    kernel: Option<String>,
    architecture: String,
    memory_bytes: Option<u64>,
    swap_bytes: Option<u64>,
    /// Absent if a filesystem did not answer in time.
    disks: Option<Vec<Disk>>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Disk {
    mount_point: String,
    device: String,
    file_system: String,
    total_bytes: u64,
    available_bytes: u64,
}

impl Machine {
    /// The figures of this machine.
    pub(super) fn here() -> Self {
        let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::everything());
        let system = System::new_with_specifics(memory).ok();
        Self {
            host_name: System::host_name().ok(),
            operating_system: System::long_os_version().ok(),
            kernel: System::kernel_version().ok(),
            architecture: System::cpu_arch(),
            memory_bytes: system.as_ref().map(System::total_memory),
            swap_bytes: system.as_ref().map(System::total_swap),
            disks: disks(),
        }
    }

    /// The figures in one line.
    pub(super) fn line(&self) -> String {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let size = |bytes: Option<u64>| match bytes.and_then(|bytes| i64::try_from(bytes).ok()) {
            None => "unknown".to_owned(),
            Some(0) => "no".to_owned(),
            Some(bytes) => human_bytes(bytes),
        };
        let disks = match &self.disks {
            None => "a filesystem does not answer".to_owned(),
            Some(disks) if disks.len() == 1 => "1 disk".to_owned(),
            Some(disks) => format!("{} disks", disks.len()),
        };
        format!(
            "{}, {}, Linux {} {}, {} memory, {} swap, {disks}",
            known(&self.host_name),
            known(&self.operating_system),
            known(&self.kernel),
            self.architecture,
            size(self.memory_bytes),
            size(self.swap_bytes),
        )
    }
}

fn disks() -> Option<Vec<Disk>> {
    let (sender, found) = channel();
    std::thread::spawn(move || {
        let disks = Disks::new_with_refreshed_list().ok();
        // The receiver is closed if this took too long.
        let _ = sender.send(disks.map(|disks| disks.iter().map(Disk::of).collect()));
    });
    found.recv_timeout(PATIENCE).ok().flatten()
}

impl Disk {
    fn of(disk: &sysinfo::Disk) -> Self {
        Self {
            mount_point: disk.mount_point().display().to_string(),
            device: disk.name().to_string_lossy().into_owned(),
            file_system: disk.file_system().to_string_lossy().into_owned(),
            total_bytes: disk.total_space(),
            available_bytes: disk.available_space(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_and_a_kernel() {
        let machine = Machine::here();
        assert!(machine.memory_bytes.unwrap() > 0);
        let line = machine.line();
        assert!(
            line.contains("Linux ") && line.contains(" memory"),
            "{line}"
        );
    }
}
