//! Where ours decides otherwise than Volcano, switch by switch.

/// How a session decides. [`Form::volcano`] is Volcano's own way, quirks included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form {}

impl Form {
    /// Exactly as Volcano at ed72c7c8.
    pub const fn volcano() -> Self {
        Self {}
    }
}
