//! The plugins by name, and sets of them. A set is four bytes, because 100 000 pods may wait, each with its rejectors.

macro_rules! names {
    ($($name:ident),* $(,)?) => {
        /// A plugin of kube-scheduler 1.36 that may reject a pod (S5-076).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "they are names")]
        pub enum PluginName {
            $($name),*
        }

        impl PluginName {
            /// All plugins, in the order of the default profile.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name in configurations and messages.
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
    // Not a plugin: kube-scheduler records rejections of extenders under this name (S5-111).
    Extender,
    // Any custom plugin. Which events it depends on is unknown, so every event wakes its pods.
    Other,
}

impl PluginName {
    /// The plugin with this name.
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
    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the plugin is in the set.
    pub const fn contains(self, plugin: PluginName) -> bool {
        self.0 >> plugin as u32 & 1 == 1
    }

    /// The intersection.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The union.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The plugins in the order of [`PluginName::ALL`].
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
