//! Assumptions about incomplete input, each reported once for all objects concerned.

use evictd_pod::wire;
use std::borrow::Cow;
use std::fmt;

/// The most objects that are named for an assumption.
const NAMED: usize = 3;

/// The assumption about objects that change no decision, which is followed by their number by kind.
const IGNORED_KINDS: &str = "objects of kinds that no decision needs are ignored";

/// Assumptions, in the order in which they were first made.
#[derive(Debug, Clone, Default)]
pub struct Assumptions(Vec<Assumption>);

#[derive(Debug, Clone)]
struct Assumption {
    text: Cow<'static, str>,
    count: usize,
    named: Vec<String>,
}

impl Assumptions {
    /// Notes an assumption about an object. `object` makes its name, and is called only if the name is shown.
    pub fn add(
        &mut self,
        assumption: impl Into<Cow<'static, str>>,
        object: impl FnOnce() -> String,
    ) {
        let noted = self.get_or_insert(assumption.into());
        noted.count += 1;
        if noted.named.len() < NAMED {
            noted.named.push(object());
        }
    }

    /// Notes an assumption that names its object itself.
    pub fn note(&mut self, assumption: impl Into<Cow<'static, str>>) {
        self.get_or_insert(assumption.into());
    }

    /// Notes the objects of kinds that no decision needs. `of` names their source, as in `1 ConfigMap of --pod`.
    pub fn ignore<'k>(
        &mut self,
        kinds: impl IntoIterator<Item = (&'k String, &'k usize)>,
        of: &str,
    ) {
        for (kind, count) in kinds {
            self.add(IGNORED_KINDS, || format!("{count} {kind}{of}"));
        }
    }

    /// Notes the assumptions about a disruption budget.
    pub(super) fn note_budget(&mut self, budget: &wire::PodDisruptionBudget) {
        let name = || format!("PodDisruptionBudget {}", budget.metadata.full_name());
        let spec = &budget.spec;
        if spec.min_available.is_some() && spec.max_unavailable.is_some() {
            let assumption = "of budgets with both spec.minAvailable and spec.maxUnavailable, which the API server refuses, \
                              status.disruptionsAllowed is used as it is";
            self.add(assumption, name);
        }
        if budget.status.disruptions_allowed.is_none() {
            let assumption = "budgets without status.disruptionsAllowed allow no disruption";
            self.add(assumption, name);
        }
    }

    fn get_or_insert(&mut self, assumption: Cow<'static, str>) -> &mut Assumption {
        let mut known = self.0.iter();
        let known = known.position(|known| known.text == assumption);
        let index = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(Assumption {
                text: assumption,
                count: 0,
                named: Vec::new(),
            });
        }
        &mut self.0[index]
    }

    /// One line each.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(Assumption::to_string).collect()
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = self.count - self.named.len();
        f.write_str(&self.text)?;
        if !self.named.is_empty() {
            write!(f, ": {}", self.named.join(", "))?;
        }
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        Ok(())
    }
}
