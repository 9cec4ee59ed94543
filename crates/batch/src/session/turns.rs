//! Whose turn it is to have nodes kept for it.
//!
//! Sessions keep this list themselves and never read it from objects, because tenants may write the status of their pod groups.

use jiff::Timestamp;
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
    /// Absent while nodes are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
}

impl Turn {
    fn is_of(&self, candidate: Candidate<'_>) -> bool {
        self.job == candidate.job && self.created == candidate.created
    }

    fn namespace(&self) -> &str {
        self.job.split('/').next().unwrap_or_default()
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
    /// If the text is not what [`Turns::to_text`] writes.
    pub fn from_text(text: &str, now: Timestamp) -> Result<Self, serde_json::Error> {
        let mut turns: Self = serde_json::from_str(text)?;
        for turn in &mut turns.0 {
            turn.since = turn.since.min(now);
            turn.until = turn.until.map(|until| until.min(now));
        }
        turns.shorten();
        Ok(turns)
    }

    /// The turns as JSON.
    pub fn to_text(&self) -> String {
        // Texts and times always become JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Since when nodes are kept for a job.
    pub(crate) fn since(&self, candidate: Candidate<'_>) -> Option<Timestamp> {
        let last = self.0.last()?;
        (last.until.is_none() && last.is_of(candidate)).then_some(last.since)
    }

    /// The job that nodes are kept for, if there is one.
    pub(crate) fn job(&self) -> Option<&str> {
        let last = self.0.last()?;
        last.until.is_none().then_some(&*last.job)
    }

    /// When the last turn of a job ended.
    pub(crate) fn ended(&self, candidate: Candidate<'_>) -> Option<Timestamp> {
        let mut turns = self.0.iter().rev();
        turns.find(|turn| turn.is_of(candidate))?.until
    }

    /// From when on nodes may be kept again. A turn leaves nodes empty, so the pause after it is as long as the turn was.
    pub(crate) fn next_after(&self) -> Option<Timestamp> {
        let last = self.0.last()?;
        let until = last.until?;
        until.checked_add(until.duration_since(last.since)).ok()
    }

    /// The order among jobs that wait for a turn: first a queue, and in a queue a namespace, whose last turn is longest ago, so that
    /// many large jobs of one tenant do not take the turns of all others.
    pub(crate) fn rank(&self, candidate: Candidate<'_>) -> impl Ord + use<> {
        let namespace = candidate.job.split('/').next().unwrap_or_default();
        let last = |of: &dyn Fn(&Turn) -> bool| self.0.iter().rposition(of);
        let queue = last(&|turn| turn.queue == candidate.queue);
        let tenant = last(&|turn| turn.queue == candidate.queue && turn.namespace() == namespace);
        (queue, tenant)
    }

    /// A job's turn begins.
    pub(crate) fn begin(&mut self, candidate: Candidate<'_>, since: Timestamp) {
        self.0.push(Turn {
            job: candidate.job.to_owned(),
            created: candidate.created,
            queue: candidate.queue.to_owned(),
            since,
            until: None,
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
        waiting.sort_by_key(|own| turns.rank(*own));
        let order = waiting.map(|own| own.job);
        assert_eq!(order, ["d/one", "c/two", "a/two", "b/two"]);
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
