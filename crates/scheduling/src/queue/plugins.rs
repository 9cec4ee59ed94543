//! Plugins as small numbers, so that the rejectors of 100 000 pods take eight bytes each.

/// A plugin of the profile by its number, 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plugin(u8);

impl Plugin {
    /// The plugin with this number; `None` from 64 on.
    pub const fn new(number: u8) -> Option<Self> {
        if number < 64 {
            Some(Self(number))
        } else {
            None
        }
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A set of plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PluginSet(u64);

impl PluginSet {
    /// Whether no plugin is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this plugin is in it.
    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 >> plugin.0 & 1 == 1
    }

    /// What is in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its plugins by rising number.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        (0..64)
            .map(Plugin)
            .filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<Plugin> for PluginSet {
    fn from_iter<I: IntoIterator<Item = Plugin>>(plugins: I) -> Self {
        Self(
            plugins
                .into_iter()
                .fold(0, |set, plugin| set | 1 << plugin.0),
        )
    }
}
