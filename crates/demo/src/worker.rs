//! The hidden subcommand that is the process of a demo pod: it uses memory, threads or disk space at a set rate.

use evictd_pod::Quantity;
use evictd_signals::StarvedResource;
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

/// Memory is taken in pieces of this size.
const PIECE: usize = 1 << 20;

/// The pod's behaviour after its start signal.
#[derive(Debug, Clone, clap::Args)]
pub struct Role {
    /// Memory taken at once
    #[arg(long, default_value = "0")]
    hold: Quantity,
    /// Memory taken in the end
    #[arg(long, default_value = "0")]
    grow_to: Quantity,
    /// The growth in a second
    #[arg(long, default_value = "1Gi")]
    per_second: Quantity,
    /// Threads started in the end
    #[arg(long, default_value_t = 0)]
    threads: u32,
    /// A file that grows up to `file-size`
    #[arg(long)]
    file: Option<PathBuf>,
    /// Size of that file in the end
    #[arg(long, default_value = "0")]
    file_size: Quantity,
    /// Begins at once and does not end with the demo: in a container of its own
    #[arg(long)]
    alone: bool,
}

impl Role {
    /// A role that holds a fixed amount of memory.
    pub fn hold(memory: &str) -> Self {
        Self {
            hold: amount(memory),
            grow_to: Quantity::ZERO,
            per_second: amount("1Gi"),
            threads: 0,
            file: None,
            file_size: Quantity::ZERO,
            alone: false,
        }
    }

    /// A role that takes memory up to `most` at this pace.
    pub fn grow(most: &str, per_second: &str) -> Self {
        Self {
            grow_to: amount(most),
            per_second: amount(per_second),
            ..Self::hold("16Mi")
        }
    }

    /// A role that starts threads at this pace.
    pub fn start_threads(threads: u32, per_second: &str) -> Self {
        Self {
            threads,
            per_second: amount(per_second),
            ..Self::hold("8Mi")
        }
    }

    /// A role that fills a file at this pace.
    pub fn fill(size: &str, per_second: &str) -> Self {
        Self {
            file_size: amount(size),
            per_second: amount(per_second),
            ..Self::hold("8Mi")
        }
    }

    /// The command line that plays it; `file` is where a role that fills one has it.
    pub fn arguments(&self, file: Option<&Path>) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = [
            ("--hold", self.hold.to_string()),
            ("--grow-to", self.grow_to.to_string()),
            ("--per-second", self.per_second.to_string()),
            ("--threads", self.threads.to_string()),
            ("--file-size", self.file_size.to_string()),
        ]
        .into_iter()
        .flat_map(|(flag, value)| [flag.into(), value.into()])
        .collect();
        if let Some(file) = file.filter(|_| self.file_size.is_positive()) {
            arguments.extend(["--file".into(), file.into()]);
        }
        arguments
    }
}

/// The resources that a role has taken so far.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// Bytes of memory.
    pub memory: i64,
    /// Threads, the first one included.
    pub threads: i64,
    /// Bytes on disk.
    pub disk: i64,
}

impl Taken {
    /// The amount of this resource.
    pub fn of(&self, resource: StarvedResource) -> i64 {
        match resource {
            StarvedResource::Memory => self.memory,
            StarvedResource::Pids => self.threads,
            StarvedResource::EphemeralStorage => self.disk,
            StarvedResource::Inodes => 1,
            StarvedResource::Io => 0,
        }
    }
}

impl Role {
    /// The amount that it should have taken this long after its start signal; a role takes only one resource.
    pub fn takes(&self, time: Duration) -> Taken {
        let so_far = i128::from(self.per_second.value())
            .saturating_mul(i128::try_from(time.as_millis()).unwrap_or(i128::MAX))
            / 1000;
        let so_far = i64::try_from(so_far).unwrap_or(i64::MAX);
        let hold = self.hold.value();
        Taken {
            memory: hold
                .saturating_add(so_far)
                .min(self.grow_to.value())
                .max(hold),
            threads: so_far.min(self.threads.into()).saturating_add(1),
            disk: so_far.min(self.file_size.value()),
        }
    }
}

/// Parses an amount in this program's own text; a wrong one becomes zero, which the tests detect.
fn amount(text: &str) -> Quantity {
    text.parse().unwrap_or_default()
}

/// Waits for a line on standard input, because only then it is in its cgroup, unless it is alone; then does its work until it
/// is killed.
pub async fn play(role: Role) -> io::Result<()> {
    let mut memory = Vec::new();
    if role.alone {
        take(&mut memory, bytes(role.hold));
    } else {
        // The pods of the demo end with it, however it ends.
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
        if io::stdin().read_line(&mut String::new())? == 0 {
            // The demo had ended before the line above took effect.
            return Ok(());
        }
        take(&mut memory, bytes(role.hold));
        io::stdout().write_all(b"\n")?;
        io::stdout().flush()?;
        io::stdin().read_line(&mut String::new())?;
    }
    let mut pace = SamplingInterval::new(role.per_second);
    while memory.len() * PIECE < bytes(role.grow_to) {
        let next = (memory.len() + 1) * PIECE;
        take(&mut memory, next);
        pace.after(PIECE).await;
    }
    for _ in 0..role.threads {
        std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(std::thread::park)?;
        pace.after(1).await;
    }
    if let Some(path) = role.file {
        let mut file = File::create(path)?;
        let piece = vec![1_u8; PIECE / 4];
        let mut written = 0;
        while written < bytes(role.file_size) {
            file.write_all(&piece)?;
            written += piece.len();
            pace.after(piece.len()).await;
        }
    }
    std::future::pending::<()>().await;
    drop(memory);
    Ok(())
}

fn bytes(quantity: Quantity) -> usize {
    usize::try_from(quantity.value()).unwrap_or(0)
}

/// Allocates pieces up to `total` bytes and writes to every page, so that it is really used.
fn take(memory: &mut Vec<Vec<u8>>, total: usize) {
    while memory.len() * PIECE < total {
        memory.push(vec![1; PIECE]);
    }
}

/// Spreads work evenly over time.
struct SamplingInterval {
    next: Instant,
    per_second: f64,
}

impl SamplingInterval {
    #[allow(clippy::cast_precision_loss, reason = "a pace need not be exact")]
    fn new(per_second: Quantity) -> Self {
        Self {
            next: Instant::now(),
            per_second: per_second.value().max(1) as f64,
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a pace need not be exact")]
    async fn after(&mut self, amount: usize) {
        self.next += Duration::from_secs_f64(amount as f64 / self.per_second);
        sleep_until(self.next).await;
    }
}
