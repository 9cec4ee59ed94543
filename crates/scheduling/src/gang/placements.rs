//! Measures in which domains a group is tried (S7-095).

use super::Member;
use crate::framework::Framework;
use std::time::Duration;

/// Measures for the profile of a group. Nothing is measured for a group without pods.
#[derive(Clone, Copy)]
pub(super) struct Placements<'s>(Option<&'s Framework>);

impl<'s> Placements<'s> {
    /// Of a group with so many domains. A repetition in the domain that was chosen is not measured again.
    pub(super) fn new(
        (profiles, is_repetition): (&'s [Framework], bool),
        members: &[Member],
        count: usize,
    ) -> Self {
        let profile = members
            .first()
            .filter(|_| !is_repetition)
            .and_then(|member| profiles.get(member.profile));
        if let Some(profile) = profile {
            profile
                .recorder
                .on_placements(&profile.scheduler_name, count);
        }
        Self(profile)
    }

    /// A domain is tried from now on.
    pub(super) fn begin(self) -> Duration {
        self.0
            .map_or(Duration::ZERO, |profile| profile.recorder.now())
    }

    /// A domain was tried.
    pub(super) fn tried(self, began: Duration, is_feasible: bool) {
        if let Some(profile) = self.0 {
            let took = profile.recorder.now().saturating_sub(began);
            profile
                .recorder
                .on_placement(&profile.scheduler_name, is_feasible, took);
        }
    }
}
