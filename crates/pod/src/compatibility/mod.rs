//! The release of Kubernetes whose behaviour is wanted, and its feature gates. Code that differs between releases reads
//! [`Compatibility`].
//!
//! ```
//! use evictd_pod::compatibility::{Compatibility, Gate, Release};
//!
//! let old = Compatibility::default();
//! assert!(old.release() == Release::V1_36 && !old.is_on(Gate::StorageCapacityScoring));
//! assert!(Compatibility::of(Release::V1_37).is_on(Gate::StorageCapacityScoring));
//! let set = Compatibility::with_gates(Release::V1_36, [("StorageCapacityScoring", true)]);
//! assert!(set.is_ok_and(|set| set.is_on(Gate::StorageCapacityScoring)));
//! ```

mod gates;
mod others;

pub use gates::{Gate, GateState, Stage};

/// A release of Kubernetes whose behaviour is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// 1.36, also in place of older ones.
    #[default]
    V1_36,
    /// 1.37, also in place of newer ones.
    V1_37,
}

impl Release {
    /// Every release, the oldest first.
    pub const ALL: [Self; 2] = [Self::V1_36, Self::V1_37];

    /// Major and minor version, as `1.36`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1_36 => "1.36",
            Self::V1_37 => "1.37",
        }
    }

    /// The release whose behaviour fits a server of this version best.
    pub fn of_version(major: u32, minor: u32) -> Self {
        if (major, minor) >= (1, 37) {
            Self::V1_37
        } else {
            Self::V1_36
        }
    }
}

/// Why a gate cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Kubernetes has it in another release only.
    #[error("cannot set feature gate {name}: Kubernetes {} does not have it", release.as_str())]
    NotInRelease {
        /// The gate.
        name: String,
        /// The emulated release.
        release: Release,
    },
    /// Its feature is stable.
    #[error("cannot set feature gate {name} to {}: it is locked to {locked} in Kubernetes {}", !locked, release.as_str())]
    Locked {
        /// The gate.
        name: String,
        /// The only value.
        locked: bool,
        /// The emulated release.
        release: Release,
    },
}

/// The gates that set all gates of a stage: alpha, then beta.
const ALL_OF_A_STAGE: [&str; 2] = ["AllAlpha", "AllBeta"];

/// A release of Kubernetes with its feature gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compatibility {
    release: Release,
    /// A bit for each gate that is on.
    on: u64,
}

impl Default for Compatibility {
    fn default() -> Self {
        Self::of(Release::default())
    }
}

impl Compatibility {
    /// With the default gates.
    pub fn of(release: Release) -> Self {
        let mut new = Self { release, on: 0 };
        for gate in Gate::ALL.iter().copied() {
            let default = gate.state(release).is_some_and(|state| state.default);
            new.put(gate, default);
        }
        new
    }

    /// With these gates set; the last setting of a gate counts. `AllAlpha` and `AllBeta` set those of a stage that are not set
    /// themselves. Names that are no [`Gate`] are skipped.
    ///
    /// # Errors
    /// Those of all gates that the release does not have or has locked otherwise.
    pub fn with_gates<'g>(
        release: Release,
        set: impl IntoIterator<Item = (&'g str, bool)>,
    ) -> Result<Self, Vec<GateError>> {
        let set: Vec<(&str, bool)> = set.into_iter().collect();
        let mut new = Self::of(release);
        // Stages come first, because a single gate overrides its stage.
        for (all, stage) in ALL_OF_A_STAGE.into_iter().zip([Stage::Alpha, Stage::Beta]) {
            let Some((_, value)) = set.iter().rev().find(|(name, _)| *name == all) else {
                continue;
            };
            for gate in Gate::ALL.iter().copied() {
                if gate
                    .state(release)
                    .is_some_and(|state| state.stage == stage)
                {
                    new.put(gate, *value);
                }
            }
        }
        let mut errors = Vec::new();
        for gate in Gate::ALL.iter().copied() {
            let set = set.iter().rev().find(|(name, _)| *name == gate.as_str());
            let Some((_, value)) = set else { continue };
            let name = gate.as_str().to_owned();
            match gate.state(release) {
                None => errors.push(GateError::NotInRelease { name, release }),
                Some(state) if state.locked && state.default != *value => {
                    let locked = state.default;
                    errors.push(GateError::Locked {
                        name,
                        locked,
                        release,
                    });
                }
                Some(_) => new.put(gate, *value),
            }
        }
        let missing = set
            .iter()
            .filter(|(name, _)| others::is_missing(name, release));
        errors.extend(missing.map(|(name, _)| GateError::NotInRelease {
            name: (*name).to_owned(),
            release,
        }));
        if errors.is_empty() {
            Ok(new)
        } else {
            Err(errors)
        }
    }

    /// The names of all gates, those of other components included, of every release.
    pub fn known_gates() -> impl Iterator<Item = &'static str> {
        let of_scheduler = Gate::ALL.iter().map(|gate| gate.as_str());
        ALL_OF_A_STAGE
            .into_iter()
            .chain(of_scheduler)
            .chain(others::names())
    }

    fn put(&mut self, gate: Gate, value: bool) {
        let bit = 1_u64 << (gate as u32);
        if gate.fixed().unwrap_or(value) {
            self.on |= bit;
        } else {
            self.on &= !bit;
        }
    }

    /// The release.
    pub const fn release(self) -> Release {
        self.release
    }

    /// Whether the release is this one or a later one.
    pub fn is_at_least(self, release: Release) -> bool {
        self.release >= release
    }

    /// Whether a feature is on here.
    pub const fn is_on(self, gate: Gate) -> bool {
        self.on & (1_u64 << (gate as u32)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(release: Release, set: &[(&str, bool)]) -> Result<Compatibility, Vec<String>> {
        Compatibility::with_gates(release, set.iter().copied())
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn s7_002_s7_003_gates_exist_in_some_releases_only() {
        use Release::{V1_36, V1_37};
        let gone = [
            "GangScheduling",
            "WorkloadAwarePreemption",
            "SidecarContainers",
            "BtreeWatchCache",
        ];
        let new = [
            "CompositePodGroup",
            "PodGroupPreemptionPolicy",
            "InPlacePodVerticalScalingSchedulerPreemption",
            "SchedulerPreQueueingHints",
            "InterPodAffinityHostnameFastPath",
            "DRADerivedAttributes",
            "DRADeviceCompatibilityGroups",
            "DRAOptionalNodeOperations",
            "DRAFractionalCapacityRange",
        ];
        for (names, has, has_not) in [(&gone[..], V1_36, V1_37), (&new[..], V1_37, V1_36)] {
            for name in names {
                assert!(with(has, &[(name, true)]).is_ok(), "{name}");
                let version = has_not.as_str();
                let error = format!(
                    "cannot set feature gate {name}: Kubernetes {version} does not have it"
                );
                assert_eq!(with(has_not, &[(name, true)]), Err(vec![error]));
            }
        }
    }

    #[test]
    fn s7_004_s7_005_defaults_and_locks_change_with_the_release() {
        let (old, new) = (Release::V1_36, Release::V1_37);
        for gate in [Gate::StorageCapacityScoring, Gate::VolumeLimitScaling] {
            assert!(!Compatibility::of(old).is_on(gate) && Compatibility::of(new).is_on(gate));
            let off = with(new, &[(gate.as_str(), true), (gate.as_str(), false)]);
            assert!(!off.unwrap().is_on(gate));
            assert!(with(old, &[(gate.as_str(), true)]).unwrap().is_on(gate));
        }
        for name in [
            "DRAExtendedResource",
            "NodeDeclaredFeatures",
            "DRAPrioritizedList",
        ] {
            assert!(with(old, &[(name, false)]).is_ok(), "{name}");
            let error = format!(
                "cannot set feature gate {name} to false: it is locked to true in Kubernetes 1.37"
            );
            assert_eq!(with(new, &[(name, false)]), Err(vec![error]));
            assert!(with(new, &[(name, true)]).is_ok(), "{name}");
        }
    }

    /// Where they can be turned off at all, kube-scheduler then allocates no devices that have binding conditions.
    #[test]
    fn s7_164_the_gates_of_binding_conditions_have_no_effect() {
        let conditions = Gate::DRADeviceBindingConditions;
        for (gate, release) in [
            (conditions, Release::V1_36),
            (conditions, Release::V1_37),
            (Gate::DRAResourceClaimDeviceStatus, Release::V1_36),
        ] {
            let off = with(release, &[(gate.as_str(), false)]);
            assert!(off.unwrap().is_on(gate), "{gate:?} {release:?}");
        }
        let status = Gate::DRAResourceClaimDeviceStatus.as_str();
        assert!(with(Release::V1_37, &[(status, false)]).is_err());
    }

    #[test]
    fn s7_003_a_whole_stage_is_set_at_once() {
        let scoring = Gate::StorageCapacityScoring;
        let all = with(Release::V1_37, &[("AllBeta", false)]).unwrap();
        assert!(!all.is_on(scoring) && !all.is_on(Gate::VolumeLimitScaling));
        // It is alpha in 1.36 and beta in 1.37.
        assert!(
            with(Release::V1_36, &[("AllAlpha", true)])
                .unwrap()
                .is_on(scoring)
        );
        let but = [("AllAlpha", true), (scoring.as_str(), false)];
        assert!(!with(Release::V1_36, &but).unwrap().is_on(scoring));
        // Locked gates are in no such stage.
        assert!(all.is_on(Gate::DRAExtendedResource));
    }

    #[test]
    fn a_server_of_another_release_is_treated_as_the_nearest_one() {
        for (minor, release) in [(33, "1.36"), (36, "1.36"), (37, "1.37"), (38, "1.37")] {
            assert_eq!(Release::of_version(1, minor).as_str(), release);
        }
        assert_eq!(
            Gate::of("VolumeLimitScaling"),
            Some(Gate::VolumeLimitScaling)
        );
        assert!(Gate::ALL.len() <= 64 && Gate::ALL.is_sorted());
    }
}
