//! Pressure stall information: the share of time in which tasks were stalled because they waited for a resource.
//!
//! Parsed here and not by the procfs crate, because that crate panics on a truncated line and allocates at every
//! read.

use crate::kernel_file::{Buffer, KernelFile, ReadError};
use evictd_signals::pressure::{Average, Share, Stall};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Shares of the last ten seconds, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    /// Time in which at least one task was stalled.
    pub some_avg10: f32,
    /// Time in which all tasks that were not idle were stalled.
    pub full_avg10: f32,
}

impl From<Stall> for Pressure {
    fn from(stall: Stall) -> Self {
        let percent = |share| f32::from(stall.figure(share, Average::Avg10)) / 100.0;
        Self {
            some_avg10: percent(Share::Some),
            full_avg10: percent(Share::Full),
        }
    }
}

/// Reads the pressure of one resource.
#[derive(Debug)]
pub(super) struct PressureFile {
    file: KernelFile,
    parse: fn(&str) -> Option<Stall>,
}

impl PressureFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            file: KernelFile::new(path),
            parse,
        }
    }

    /// For the CPU; older kernels report only `some` there.
    pub(super) fn of_cpu(path: PathBuf) -> Self {
        Self {
            file: KernelFile::new(path),
            parse: parse_some,
        }
    }

    /// Fails if the kernel was built or started without pressure information, as many are.
    pub(super) fn read(&mut self, buffer: &mut Buffer) -> Result<Stall, ReadError> {
        self.file
            .read(buffer, "averages of some and full", self.parse)
    }
}

fn parse(text: &str) -> Option<Stall> {
    let (some, full) = lines(text)?;
    Some(Stall {
        some: some?,
        full: full?,
    })
}

fn parse_some(text: &str) -> Option<Stall> {
    let (some, full) = lines(text)?;
    Some(Stall {
        some: some?,
        full: full.unwrap_or_default(),
    })
}

type Averages = [u16; 3];

fn lines(text: &str) -> Option<(Option<Averages>, Option<Averages>)> {
    let (mut some, mut full) = (None, None);
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let share = match words.next()? {
            "some" => &mut some,
            "full" => &mut full,
            _ => return None,
        };
        let mut average = |name| hundredths(words.next()?.strip_prefix(name)?);
        *share = Some([average("avg10=")?, average("avg60=")?, average("avg300=")?]);
    }
    Some((some, full))
}

/// The kernel writes percentages with two digits after the decimal point.
fn hundredths(text: &str) -> Option<u16> {
    let (whole, hundredths) = text.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(hundredths) || hundredths.len() != 2 {
        return None;
    }
    let whole: u16 = whole.parse().ok().filter(|whole| *whole <= 100)?;
    let value = whole * 100 + hundredths.parse::<u16>().ok()?;
    (value <= 10_000).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let text = "some avg10=12.50 avg60=0.12 avg300=0.00 total=391926\n\
                    full avg10=2.25 avg60=0.00 avg300=100.00 total=1\n";
        let stall = parse(text).unwrap();
        assert_eq!((stall.some, stall.full), ([1250, 12, 0], [225, 0, 10_000]));
        let pressure = Pressure::from(stall);
        assert_eq!((pressure.some_avg10, pressure.full_avg10), (12.5, 2.25));
    }

    #[test]
    fn malformed_lines() {
        let rest = "avg60=0.00 avg300=0.00";
        let full = format!("full avg10=0.00 {rest}");
        let some = |avg10: &str| format!("some avg10={avg10} {rest}\n{full}");
        let table = [
            String::new(),
            "some".to_owned(),
            "full".to_owned(),
            format!("some avg10=1.00 {rest}"),
            some("nan"),
            some("-1.00"),
            some("101.00"),
            some("100.01"),
            some("1.0"),
            some("1"),
            some("+1.00"),
            some("99999.00"),
            format!("some avg60=1.00\n{full}"),
            format!("none avg10=1.00 {rest}\n{full}"),
            "\n\n".to_owned(),
        ];
        for text in table {
            assert_eq!(parse(&text), None, "{text:?}");
        }
    }

    #[test]
    fn of_the_processor_some_is_enough() {
        let text = "some avg10=3.00 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(parse_some(text).unwrap().some[0], 300);
        assert_eq!(parse_some(""), None);
    }
}
