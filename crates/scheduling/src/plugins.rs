//! The plugins by name, and sets of them in eight bytes, so that the rejectors of 100 000 pods take little memory.

macro_rules! names {
    ($($name:ident),* $(,)?) => {
        /// A plugin of kube-scheduler 1.36 that may reject a pod (S5-076).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "they are names")]
        pub enum PluginName {
            $($name),*
        }

        impl PluginName {
            /// All of them, in the order of the default profile.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name in configurations and messages.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name)),*
                }
            }
        }
    };
}

names! {
    SchedulingGates,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeDeclaredFeatures,
    GangScheduling,
    // Not a plugin: what an extender rejects is recorded under this name (S5-111).
    Extender,
    // Not one of kube-scheduler: any other plugin. Nobody knows what it waits for, so every event wakes its pods.
    Other,
}

impl PluginName {
    /// The plugin of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|plugin| plugin.as_str() == name)
    }
}

/// A set of plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PluginSet(u32);

impl PluginSet {
    /// Whether no plugin is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this plugin is in it.
    pub const fn contains(self, plugin: PluginName) -> bool {
        self.0 >> plugin as u32 & 1 == 1
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its plugins in the order of [`PluginName::ALL`].
    pub fn iter(self) -> impl Iterator<Item = PluginName> {
        PluginName::ALL
            .iter()
            .copied()
            .filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<PluginName> for PluginSet {
    fn from_iter<I: IntoIterator<Item = PluginName>>(plugins: I) -> Self {
        let plugins = plugins.into_iter();
        Self(plugins.fold(0, |set, plugin| set | 1 << plugin as u32))
    }
}
