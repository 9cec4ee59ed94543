//! Names of tasks within jobs, as numbers. Tenants choose the names, so unused ones are swept.

use hashbrown::HashMap;

/// The name of a task within its job, as an index; 0 without a name.
pub(crate) type Role = u32;

/// The number of names before the first sweep of unused ones.
const FIRST_SWEEP: usize = 1024;

#[derive(Debug)]
pub(crate) struct Roles {
    names: Vec<Box<str>>,
    by_name: HashMap<Box<str>, Role>,
    /// Numbers that no name has.
    free: Vec<Role>,
    /// The number of names before the next sweep.
    sweep_at: usize,
}

impl Default for Roles {
    fn default() -> Self {
        Self {
            // No role at all.
            names: vec![Box::default()],
            by_name: HashMap::new(),
            free: Vec::new(),
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl Roles {
    /// The number of a name, which may be new.
    pub(crate) fn of(&mut self, name: &str) -> Role {
        if name.is_empty() {
            return 0;
        }
        if let Some(role) = self.by_name.get(name) {
            return *role;
        }
        let role = self.free.pop().unwrap_or_else(|| {
            self.names.push(Box::default());
            // Each takes more than a byte.
            Role::try_from(self.names.len() - 1).unwrap_or(Role::MAX)
        });
        self.names[role as usize] = name.into();
        self.by_name.insert(name.into(), role);
        role
    }

    pub(crate) fn name(&self, role: Role) -> &str {
        self.names.get(role as usize).map_or("", |name| name)
    }

    /// Whether there are enough names for a sweep to pay.
    pub(crate) fn is_due_for_sweep(&self) -> bool {
        self.by_name.len() > self.sweep_at
    }

    /// Removes the names of all numbers but these.
    pub(crate) fn sweep(&mut self, used: impl Iterator<Item = Role>) {
        let mut is_used = vec![false; self.names.len()];
        for role in used {
            is_used[role as usize] = true;
        }
        let (names, free) = (&mut self.names, &mut self.free);
        self.by_name.retain(|_, role| {
            let stays = is_used[*role as usize];
            if !stays {
                names[*role as usize] = Box::default();
                free.push(*role);
            }
            stays
        });
        self.by_name.shrink_to(FIRST_SWEEP);
        self.sweep_at = FIRST_SWEEP.max(2 * self.by_name.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_names_are_forgotten_and_their_numbers_are_reused() {
        let mut roles = Roles::default();
        assert_eq!(roles.of(""), 0);
        let kept = roles.of("worker");
        for number in 0..1_000_000 {
            let role = roles.of(&format!("task-{number}"));
            assert_eq!(roles.name(role), format!("task-{number}"));
            if roles.is_due_for_sweep() {
                roles.sweep([0, kept].into_iter());
                assert!(!roles.is_due_for_sweep());
            }
        }
        assert!(roles.names.len() < 2 * FIRST_SWEEP, "{}", roles.names.len());
        assert_eq!((roles.of("worker"), roles.name(kept)), (kept, "worker"));
    }
}
