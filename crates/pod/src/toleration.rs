//! The rules of tolerations. They are generic, because compiled filters compare numbers instead of strings.

use crate::wire;

/// The taints that are tolerated. `T` is a text, or a number that represents it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration<T> {
    /// `None`: any key.
    key: Option<T>,
    /// `None`: any value.
    value: Option<T>,
    /// `None`: any effect.
    effect: Option<T>,
}

impl<T: Copy + PartialEq> Toleration<T> {
    /// `None` for an operator that Kubernetes 1.36 does not enable by default.
    pub fn new<'w>(wire: &'w wire::Toleration, of: &mut impl FnMut(&'w str) -> T) -> Option<Self> {
        let value = match wire.operator.as_str() {
            "" | "Equal" => Some(of(&wire.value)),
            "Exists" => None,
            _ => return None,
        };
        let mut given = |text: &'w String| (!text.is_empty()).then(|| of(text));
        Some(Self {
            key: given(&wire.key),
            value,
            effect: given(&wire.effect),
        })
    }

    /// Whether it covers a taint with this key, value and effect.
    pub fn covers(&self, key: T, value: T, effect: T) -> bool {
        let covers = |wanted: Option<T>, actual| wanted.is_none_or(|wanted| wanted == actual);
        covers(self.key, key) && covers(self.value, value) && covers(self.effect, effect)
    }
}
