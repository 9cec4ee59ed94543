//! Decisions from before this start: the history, and the decisions that the last run was about to carry out.

use crate::{
    config::Effective,
    history::{DEFAULT_LIMIT, EarlierDecisions, History, HistoryError, Intents},
};
use evictd_decision::record::Record;
use evictd_kernel::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// The decisions found on disk.
pub(super) struct FoundOnDisk {
    pub(super) history: History,
    pub(super) earlier: EarlierDecisions,
    /// The intents, with the decisions whose history is not complete.
    pub(super) intents: Option<(Intents, Vec<Record>)>,
}

/// Opens the history. If the disk cannot be read the agent starts anyway, with the intents alone or without both,
/// because such a node needs it no less.
pub(super) fn find(
    config: &Effective,
    clock: Clock,
    boot_id: &str,
) -> Result<FoundOnDisk, HistoryError> {
    // The history's lock comes first: its holder may also use the intents.
    let history = History::open(&config.state_directory, DEFAULT_LIMIT)?;
    let opened = Intents::open(&config.runtime_directory);
    if let Err(error) = &opened {
        tracing::warn!(
            "if evictd is killed right after it has killed a pod, that eviction may be missing in the history: {error}; \
             set runtimeDirectory to a tmpfs that evictd may write to"
        );
    }
    let (intents, found_intents) = opened.ok().unzip();
    let found_intents: Vec<Record> = found_intents.unwrap_or_default();
    let ids: BTreeSet<String> = found_intents
        .iter()
        .map(|record| record.id.clone())
        .collect();
    let now = clock.now();
    let backoff = config.rules().owner_backoff();
    let window = backoff.map_or(SignedDuration::ZERO, |backoff| backoff.window());
    let since = now.saturating_sub(window).unwrap_or(Timestamp::MIN);
    let mut earlier = EarlierDecisions::new(since..=now, ids.clone());
    if history.is_readable()
        && let Err(error) = earlier.read(&config.state_directory)
    {
        tracing::warn!(
            "unfinished decisions may not be continued, and evictions by owner are counted from zero: {error}; repair \
             that disk, or set another stateDirectory"
        );
    }
    let lacking = earlier.add_intents(found_intents, boot_id);
    let intents = intents.map(|mut intents| {
        let kept = |id: &&String| !lacking.iter().any(|record| record.id == **id);
        ids.iter().filter(kept).for_each(|id| intents.free(id));
        (intents, lacking)
    });
    Ok(FoundOnDisk {
        history,
        earlier,
        intents,
    })
}
