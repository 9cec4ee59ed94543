//! The machine as evictd sees and touches it: readers of `/proc`, control groups v1 and v2, filesystems and pressure;
//! who calls when something changes; and the hands that end the processes of a control group.

pub mod cgroup;
pub mod clock;
pub mod kernel_file;
pub mod kill;
pub mod protect;
pub mod signals;
pub mod threads;
pub mod wake;
pub mod walk;
