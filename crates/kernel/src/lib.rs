//! What evictd reads and changes on the machine: `/proc`, cgroups v1 and v2, filesystems and pressure;
//! notifications from the kernel when memory gets short; and the termination of a cgroup's processes.

pub mod cgroup;
pub mod clock;
pub mod kernel_file;
pub mod kill;
pub mod protect;
pub mod signals;
pub mod threads;
pub mod wake;
pub mod walk;
