//! Compares thresholds with those of a kubelet that evicts too: if the kubelet's are crossed first, it chooses the
//! victims.

use super::node_name;
use crate::{
    config::{self, Effective, MemoryAvailable},
    publish::words::configured,
    server::state::{Shared, SignalStatus, ThresholdStatus},
};
use evictd_cluster_client::{Backoff, KubeletClient};
use evictd_signals::{Signal, Threshold};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The node's capacities are known after the first cycle, which is immediate.
const FIRST_LOOK: Duration = Duration::from_millis(200);
/// The first pause before the kubelet is asked again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// Where the kubelet shows its configuration.
const CONFIGZ: &str = "/configz";

/// Logs once, and shows on the status page, for which signals the kubelet may act first.
pub(super) async fn compare(config: Effective, shared: Arc<Shared>) {
    while shared.not_ready().is_some() {
        sleep(FIRST_LOOK).await;
    }
    let theirs = until_answered(&shared, || kubelets(&config)).await;
    let warnings = later_than_the_kubelet(
        &theirs.thresholds(),
        &shared.status().signals,
        config.memory_available,
    );
    if warnings.is_empty() {
        tracing::info!(
            "the kubelet was asked: each threshold here is crossed before the kubelet's"
        );
    }
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    shared.add_warnings(warnings);
}

/// Repeats the request until there is an answer, because a kubelet on a busy node may answer late. Until then the status page
/// shows a warning with the latest error; the log has the first one.
async fn until_answered<T, F>(shared: &Shared, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut warned: Option<String> = None;
    loop {
        let answer = ask().await;
        if let Some(before) = &warned {
            shared.remove_warning(before);
        }
        let problem = match answer {
            Ok(answer) => return answer,
            Err(problem) => problem,
        };
        let warning =
            format!("cannot tell whether the kubelet evicts before evictd does: {problem}");
        if warned.is_none() {
            tracing::warn!("{warning}");
        }
        shared.add_warnings(vec![warning.clone()]);
        warned = Some(warning);
        sleep(backoff.next(Backoff::NO_JITTER)).await;
    }
}

async fn kubelets(config: &Effective) -> Result<Effective, String> {
    let kubelet = KubeletClient::find(&config.kubelet.access, &node_name(config))
        .await
        .map_err(|error| error.to_string())?;
    let text = kubelet
        .get(CONFIGZ)
        .await
        .map_err(|error| error.to_string())?;
    let loaded = config::parse(&format!("{kubelet}{CONFIGZ}"), &text);
    loaded
        .map(|loaded| loaded.effective)
        .map_err(|refused| refused.to_string())
}

/// One sentence per signal with thresholds here on which the kubelet may act first.
fn later_than_the_kubelet(
    theirs: &[Threshold],
    ours: &[SignalStatus],
    memory: MemoryAvailable,
) -> Vec<String> {
    let warnings = ours.iter().filter_map(|signal| {
        let highest = signal.thresholds.iter().max_by_key(|one| one.value)?;
        let lowest = signal.thresholds.iter().min_by_key(|one| one.value)?;
        let of_signal = theirs.iter().filter(|one| one.signal == signal.signal);
        // Before the kubelet's soft threshold at least the highest of evictd must be crossed; before its hard one, all.
        let mut late = of_signal.map(|one| (one, if one.is_hard() { lowest } else { highest }));
        // An unknown capacity is not 0: every percentage of 0 is the same.
        let capacity = signal.capacity?;
        let is_late = |one: &Threshold, our: &ThresholdStatus| {
            our.value <= one.value.at(capacity).value()
        };
        if let Some((one, our)) = late.find(|(one, our)| is_late(one, our)) {
            return Some(format!(
                "the kubelet evicts for {} at {}, before evictd does at {}: set a higher threshold here, or a lower one \
                 in the kubelet",
                signal.signal,
                configured(one),
                our.configured
            ));
        }
        let other_formula = signal.signal == Signal::MemoryAvailable
            && memory == MemoryAvailable::MemAvailable
            && theirs.iter().any(|one| one.signal == signal.signal);
        other_formula.then(|| {
            "the kubelet counts active page cache as used memory, and may cross its threshold for memory.available \
             before evictd does: set memoryAvailable: workingSet while the kubelet evicts, too"
                .to_owned()
        })
    });
    warnings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{history::Waiting, server::state::Status};
    use evictd_kernel::clock::Clock;
    use std::path::PathBuf;
    use tokio::time::Instant;

    fn shared() -> Arc<Shared> {
        let (status, nowhere) = (Status::default(), PathBuf::new());
        Shared::new(Clock::start(), status, nowhere, Waiting::default()).0
    }

    /// Who fails so often, and then answers; when it was asked, in seconds.
    async fn asked(shared: &Shared, failures: usize) -> Vec<u64> {
        let (began, mut asked) = (Instant::now(), Vec::new());
        let mut ask = || {
            asked.push(began.elapsed().as_secs());
            let number = asked.len();
            async move {
                if number > failures {
                    Ok(())
                } else {
                    Err(format!("failure {number}"))
                }
            }
        };
        until_answered(shared, &mut ask).await;
        asked
    }

    #[tokio::test(start_paused = true)]
    async fn a_kubelet_that_answers_is_asked_once() {
        let shared = shared();
        assert_eq!(asked(&shared, 0).await, [0]);
        assert!(shared.status().warnings.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_kubelet_that_does_not_answer_is_asked_again_ever_more_seldom() {
        let shared = shared();
        let asked = asked(&shared, 12).await;
        let apart: Vec<u64> = asked.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(apart, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert!(shared.status().warnings.is_empty(), "it is taken back");
    }

    #[tokio::test(start_paused = true)]
    async fn until_the_kubelet_answers_one_warning_shows_the_last_error() {
        let shared = shared();
        shared.add_warnings(vec!["something else".to_owned()]);
        let warned = async {
            for (after, number) in [(500, 1), (1000, 2), (2000, 3)] {
                sleep(Duration::from_millis(after)).await;
                let words = format!(
                    "cannot tell whether the kubelet evicts before evictd does: failure {number}"
                );
                let warnings = shared.status().warnings;
                assert_eq!(warnings, ["something else", words.as_str()]);
            }
        };
        tokio::join!(asked(&shared, 3), warned);
        assert_eq!(shared.status().warnings, ["something else"]);
    }

    fn ours(signal: Signal, values: &[i64]) -> SignalStatus {
        SignalStatus {
            capacity: Some(1000 << 20),
            thresholds: values
                .iter()
                .map(|value| ThresholdStatus {
                    value: value << 20,
                    configured: format!("{value}Mi"),
                    ..ThresholdStatus::default()
                })
                .collect(),
            ..SignalStatus::new(signal)
        }
    }

    fn theirs(text: &str) -> Vec<Threshold> {
        let text = format!(
            "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n{text}"
        );
        config::parse("kubelet", &text)
            .unwrap()
            .effective
            .thresholds()
    }

    #[test]
    fn each_of_our_thresholds_is_to_be_crossed_before_the_kubelets() {
        let hard = "evictionHard: {memory.available: 100Mi, nodefs.available: 10%}\nenforceNodeAllocatable: [none]";
        let soft = "evictionHard: {memory.available: 100Mi}\nevictionSoft: {memory.available: 30%}\n\
                    evictionSoftGracePeriod: {memory.available: 1m}\nenforceNodeAllocatable: [none]";
        let memory = Signal::MemoryAvailable;
        let table = [
            (hard, ours(memory, &[200]), None),
            (
                hard,
                ours(memory, &[100]),
                Some("at 100Mi, before evictd does at 100Mi"),
            ),
            (
                hard,
                ours(memory, &[200, 50]),
                Some("before evictd does at 50Mi"),
            ),
            (hard, ours(memory, &[]), None),
            (hard, ours(Signal::NodefsAvailable, &[101]), None),
            (
                hard,
                ours(Signal::NodefsAvailable, &[100]),
                Some("nodefs.available at 10%, before evictd does at 100Mi"),
            ),
            (hard, ours(Signal::PidAvailable, &[1]), None),
            (
                soft,
                ours(memory, &[200]),
                Some("before evictd does at 200Mi"),
            ),
            (soft, ours(memory, &[200, 400]), None),
        ];
        for (kubelet, signal, expected) in table {
            let shown = format!("{kubelet} {signal:?}");
            let warnings =
                later_than_the_kubelet(&theirs(kubelet), &[signal], MemoryAvailable::WorkingSet);
            assert_eq!(
                warnings.len(),
                usize::from(expected.is_some()),
                "{shown}: {warnings:?}"
            );
            let told = warnings.first().map_or("", String::as_str);
            assert!(
                told.contains(expected.unwrap_or_default()),
                "{shown}: {told}"
            );
        }
    }

    #[test]
    fn another_formula_for_memory_is_worth_a_word() {
        let kubelet = theirs("evictionHard: {memory.available: 100Mi}");
        let signal = ours(Signal::MemoryAvailable, &[200]);
        let told = later_than_the_kubelet(&kubelet, &[signal], MemoryAvailable::MemAvailable);
        assert!(told[0].contains("workingSet"), "{told:?}");
    }
}
