//! The turns of jobs for which nodes are reserved.
//!
//! Sessions keep this list in memory and never read it from objects, because tenants may write the status of their pod
//! groups.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The list holds at most so many turns, because each renewal of the Lease carries them.
const LONGEST: usize = 64;

/// A job that has turns. A group that is made again under the same name is another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate<'j> {
    /// `namespace/name`.
    pub(crate) job: &'j str,
    pub(crate) created: Option<Timestamp>,
    pub(crate) queue: &'j str,
}

/// One turn of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Turn {
    job: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<Timestamp>,
    queue: String,
    since: Timestamp,
    /// Absent while the turn lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// The most nodes reserved at a time, in hundredths of the cluster. Unknown counts as all.
    #[serde(default = "all_nodes")]
    kept: u8,
}

const fn all_nodes() -> u8 {
    100
}

impl Turn {
    fn is_of(&self, candidate: Candidate<'_>) -> bool {
        self.job == candidate.job && self.created == candidate.created
    }

    fn namespace(&self) -> &str {
        self.job.split('/').next().unwrap_or_default()
    }

    /// When its reserved nodes are no more than this part of all nodes, averaged since its begin.
    fn paid_at(&self, part: f64) -> Option<Timestamp> {
        let lasted = self.until?.duration_since(self.since).as_secs_f64();
        let all = lasted * f64::from(self.kept) / 100.0 / part;
        let all = SignedDuration::try_from_secs_f64(all).unwrap_or(SignedDuration::MAX);
        Some(self.since.checked_add(all).unwrap_or(Timestamp::MAX))
    }
}

/// The turns of jobs, the latest last. A scheduler writes them down as JSON, so that they survive its restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Turns(Vec<Turn>);

impl Turns {
    /// The turns as an earlier scheduler wrote them. Times after `now` count as `now`: clocks differ.
    ///
    /// # Errors
    ///
    /// If the text does not come from [`Turns::to_text`].
    pub fn from_text(text: &str, now: Timestamp) -> Result<Self, serde_json::Error> {
        let mut turns: Self = serde_json::from_str(text)?;
        turns.not_after(now);
        turns.shorten();
        Ok(turns)
    }

    /// Times after `now` count as `now`: a clock that is set back must not prolong a turn.
    pub(crate) fn not_after(&mut self, now: Timestamp) {
        for turn in &mut self.0 {
            turn.since = turn.since.min(now);
            turn.until = turn.until.map(|until| until.min(now));
            turn.kept = turn.kept.min(all_nodes());
        }
    }

    /// The turns as JSON.
    pub fn to_text(&self) -> String {
        // Texts and times always become JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The begin of a job's current turn.
    pub(crate) fn since(&self, candidate: Candidate<'_>) -> Option<Timestamp> {
        let last = self.0.last()?;
        (last.until.is_none() && last.is_of(candidate)).then_some(last.since)
    }

    /// The job with the current turn.
    pub(crate) fn job(&self) -> Option<&str> {
        let last = self.0.last()?;
        last.until.is_none().then_some(&*last.job)
    }

    /// When the last turn of a job ended.
    pub(crate) fn ended(&self, candidate: Candidate<'_>) -> Option<Timestamp> {
        let mut turns = self.0.iter().rev();
        turns.find(|turn| turn.is_of(candidate))?.until
    }

    /// The earliest begin of the next turn. Reserved nodes stand idle, so the pause is as long as the turn was.
    pub(crate) fn next_after(&self) -> Option<Timestamp> {
        let last = self.0.last()?;
        let until = last.until?;
        until.checked_add(until.duration_since(last.since)).ok()
    }

    /// The order of jobs that wait for a turn: the queue, and in it the namespace, whose last turn is longest ago comes
    /// first. So many large jobs of one tenant do not take every turn.
    pub(crate) fn rank(&self, candidate: Candidate<'_>) -> impl Ord + use<> {
        let namespace = candidate.job.split('/').next().unwrap_or_default();
        let last = |of: &dyn Fn(&Turn) -> bool| self.0.iter().rposition(of);
        // A position of None sorts first: a queue without a turn so far.
        let queue = last(&|turn| turn.queue == candidate.queue);
        let tenant = last(&|turn| turn.queue == candidate.queue && turn.namespace() == namespace);
        (queue, tenant)
    }

    /// When the reserved nodes of a job's queue, and of its namespace there, are no more than these parts, averaged
    /// over time.
    pub(crate) fn paid_at(&self, candidate: Candidate<'_>, parts: [f64; 2]) -> Option<Timestamp> {
        let namespace = candidate.job.split('/').next().unwrap_or_default();
        let of_queue = |turn: &&Turn| turn.queue == candidate.queue;
        let queue = self.0.iter().rev().find(of_queue);
        let mut tenant = self.0.iter().rev().filter(of_queue);
        let tenant = tenant.find(|turn| turn.namespace() == namespace);
        let [of_queue, of_namespace] = parts;
        let queue = queue.and_then(|turn| turn.paid_at(of_queue));
        queue.max(tenant.and_then(|turn| turn.paid_at(of_namespace)))
    }

    /// Records the number of reserved nodes in the current turn.
    pub(crate) fn keeps(&mut self, kept: usize, all: usize) {
        let part = (100 * kept)
            .div_ceil(all.max(1))
            .min(usize::from(all_nodes()));
        let part = u8::try_from(part).unwrap_or(all_nodes());
        if let Some(last) = self.0.last_mut().filter(|last| last.until.is_none()) {
            last.kept = last.kept.max(part);
        }
    }

    /// A job's turn begins.
    pub(crate) fn begin(&mut self, candidate: Candidate<'_>, since: Timestamp) {
        self.0.push(Turn {
            job: candidate.job.to_owned(),
            created: candidate.created,
            queue: candidate.queue.to_owned(),
            since,
            until: None,
            kept: 0,
        });
        self.shorten();
    }

    /// The turn under way ends.
    pub(crate) fn end(&mut self, now: Timestamp) {
        if let Some(last) = self.0.last_mut() {
            last.until.get_or_insert(now);
        }
    }

    /// Forgets the oldest turns.
    fn shorten(&mut self) {
        let surplus = self.0.len().saturating_sub(LONGEST);
        self.0.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn candidate<'j>(job: &'j str, queue: &'j str) -> Candidate<'j> {
        Candidate {
            job,
            created: Some(at(0)),
            queue,
        }
    }

    #[test]
    fn a_turn_belongs_to_one_job_and_is_followed_by_a_pause_of_its_length() {
        let mut turns = Turns::default();
        let large = candidate("a/large", "q");
        turns.begin(large, at(10));
        let again = Candidate {
            created: Some(at(1)),
            ..large
        };
        assert_eq!(turns.since(large), Some(at(10)));
        assert_eq!(turns.since(again), None, "a new group of the same name");
        assert_eq!((turns.job(), turns.next_after()), (Some("a/large"), None));
        turns.end(at(40));
        turns.end(at(50));
        assert_eq!(turns.ended(large), Some(at(40)));
        assert_eq!((turns.job(), turns.next_after()), (None, Some(at(70))));
    }

    #[test]
    fn queues_and_then_namespaces_take_turns() {
        let mut turns = Turns::default();
        for (minute, job, queue) in [(0, "a/one", "q"), (1, "c/one", "r"), (2, "b/one", "q")] {
            turns.begin(candidate(job, queue), at(minute));
            turns.end(at(minute + 1));
        }
        let mut waiting = [
            candidate("b/two", "q"),
            candidate("a/two", "q"),
            candidate("c/two", "r"),
            candidate("d/one", "s"),
        ];
        waiting.sort_by_key(|candidate| turns.rank(*candidate));
        let order = waiting.map(|candidate| candidate.job);
        assert_eq!(order, ["d/one", "c/two", "a/two", "b/two"]);
    }

    #[test]
    fn a_queue_and_a_namespace_keep_no_more_than_their_parts_of_nodes_and_time() {
        let mut turns = Turns::default();
        turns.begin(candidate("a/large", "q"), at(100));
        turns.keeps(1, 2);
        turns.keeps(1, 4);
        turns.end(at(160));
        // Half of the nodes for an hour: by a whole part it is paid when it ends, by a quarter after two hours.
        let paid = |job: &str, queue: &str, parts: [f64; 2]| {
            let paid = turns.paid_at(candidate(job, queue), parts);
            paid.map(|at| at.as_second() / 60)
        };
        for (job, queue, parts, expected) in [
            ("a/other", "q", [1.0, 1.0], Some(130)),
            ("a/other", "q", [0.25, 0.25], Some(220)),
            ("a/other", "q", [0.25, 0.05], Some(700)),
            ("b/other", "q", [0.25, 0.05], Some(220)),
            ("a/other", "r", [0.25, 0.05], None),
        ] {
            assert_eq!(paid(job, queue, parts), expected, "{job} in {queue}");
        }
        let mut clock_was_set_back = turns.clone();
        clock_was_set_back.not_after(at(50));
        let paid = clock_was_set_back.paid_at(candidate("a/large", "q"), [0.25; 2]);
        assert_eq!(paid, Some(at(50)));
        // Of a turn that an older scheduler has written it is not known how many nodes it kept.
        let text = r#"[{"job": "a/large", "queue": "q", "since": "1970-01-01T00:00:00Z", "until": "1970-01-01T01:00:00Z"}]"#;
        let older = Turns::from_text(text, at(500)).unwrap();
        let of = Candidate {
            created: None,
            ..candidate("a/large", "q")
        };
        assert_eq!(older.paid_at(of, [0.5; 2]), Some(at(120)));
    }

    #[test]
    fn turns_survive_as_text_and_none_lies_in_the_future() {
        let mut turns = Turns::default();
        for minute in 0..300 {
            turns.begin(candidate("a/large", "q"), at(minute));
            turns.end(at(minute + 1));
        }
        turns.begin(candidate("a/large", "q"), at(400));
        let text = turns.to_text();
        assert_eq!(Turns::from_text(&text, at(500)).unwrap(), turns);
        assert_eq!(turns.0.len(), LONGEST);
        let early = Turns::from_text(&text, at(100)).unwrap();
        assert_eq!(early.since(candidate("a/large", "q")), Some(at(100)));
        assert!(Turns::from_text("{", at(0)).is_err());
    }
}
