//! Pressure stall information: how much of the last ten seconds tasks stood still for want of something.
//!
//! Parsed here and not by the procfs crate, because that one panics on a cut line and allocates at every tick.

use super::kernel_file::{Buffer, KernelFile};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Shares of the last ten seconds, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    /// While at least one task stood still.
    pub some_avg10: f32,
    /// While all tasks stood still that had something to do.
    pub full_avg10: f32,
}

/// Reads the machine's pressure of one resource.
#[derive(Debug)]
pub(super) struct PressureFile(KernelFile);

impl PressureFile {
    pub(super) fn new(proc_root: &Path, resource: &str) -> Self {
        Self(KernelFile::new(proc_root.join("pressure").join(resource)))
    }

    /// `None` where the kernel was built or started without it, which many are.
    pub(super) fn read(&mut self, buffer: &mut Buffer) -> Option<Pressure> {
        self.0.read(buffer, "some and full avg10", parse).ok()
    }
}

fn parse(text: &str) -> Option<Pressure> {
    let (mut some_avg10, mut full_avg10) = (None, None);
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let share = match words.next()? {
            "some" => &mut some_avg10,
            "full" => &mut full_avg10,
            _ => return None,
        };
        *share = Some(percent(words.next()?.strip_prefix("avg10=")?)?);
    }
    Some(Pressure {
        some_avg10: some_avg10?,
        full_avg10: full_avg10?,
    })
}

fn percent(text: &str) -> Option<f32> {
    let value = text.parse().ok()?;
    (0.0..=100.0).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let text = "some avg10=12.50 avg60=0.12 avg300=0.00 total=391926\n\
                    full avg10=2.25 avg60=0.00 avg300=0.00 total=1\n";
        let pressure = parse(text).unwrap();
        assert_eq!((pressure.some_avg10, pressure.full_avg10), (12.5, 2.25));
    }

    #[test]
    fn malformed_lines() {
        let table = [
            "",
            "some",
            "full",
            "some avg10=1.00",
            "some avg10=1.00\nfull avg10=",
            "some avg10=nan\nfull avg10=0.00",
            "some avg10=-1.00\nfull avg10=0.00",
            "some avg10=101\nfull avg10=0.00",
            "some avg60=1.00\nfull avg60=0.00",
            "none avg10=1.00\nfull avg10=0.00",
            "\n\n",
        ];
        for text in table {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
