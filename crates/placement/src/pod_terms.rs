//! The affinity terms of pods on nodes, found by the pods that they can select. One tenant may run thousands of pods with
//! hundreds of terms each. An attempt to place another pod must not look at all of them.

use crate::labels::Labels;
use crate::selector::{Selector, needs_label};
use crate::symbol::Symbol;
use crate::template::PodTerm;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// A term with several namespaces and several values is listed under at most this many combinations of them.
const MOST_PLACES: usize = 256;

/// How the groups of pods use a term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// The term's first position among the required anti-affinity terms.
    pub(crate) anti_affinity: Option<usize>,
    /// How often it is a required affinity term.
    pub(crate) affinity: i64,
    /// How often it is a preferred term.
    pub(crate) preferred: usize,
    /// The sum of its weights as a preferred term.
    pub(crate) weight: i64,
}

/// A term, and the groups that have it.
#[derive(Debug)]
pub(crate) struct KnownTerm {
    pub(crate) term: Arc<PodTerm>,
    /// By the group's index.
    pub(crate) uses: HashMap<u32, Use>,
}

/// The terms of a group of pods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TermsOf<'g> {
    pub(crate) anti_affinity: &'g [PodTerm],
    pub(crate) affinity: &'g [PodTerm],
    pub(crate) preferred: &'g [(i64, PodTerm)],
}

impl<'g> TermsOf<'g> {
    fn all(self) -> impl Iterator<Item = &'g PodTerm> {
        let preferred = self.preferred.iter().map(|(_, term)| term);
        let required = self.anti_affinity.iter().chain(self.affinity);
        required.chain(preferred)
    }
}

/// A property of a pod or of its namespace, without which a term cannot select it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Anchor {
    Anything,
    /// The namespace of this name.
    Name(Symbol),
    /// A label of this key.
    Key(Symbol),
    /// A label of this key and value.
    Label(Symbol, Symbol),
}

/// All terms. Groups with the same term share it.
#[derive(Debug, Default)]
pub(crate) struct PodTerms {
    /// By number; `None` is free.
    terms: Vec<Option<KnownTerm>>,
    free: Vec<u32>,
    numbers: HashMap<Arc<PodTerm>, u32>,
    /// The numbers of the terms by what they need of the namespace and of the pod's labels.
    places: HashMap<Anchor, HashMap<Anchor, HashSet<u32>>>,
}

impl PodTerms {
    /// Adds a group of pods.
    pub(crate) fn add(&mut self, group: u32, terms: TermsOf<'_>) {
        for (position, term) in terms.anti_affinity.iter().enumerate() {
            if let Some(uses) = self.uses(group, term) {
                uses.anti_affinity.get_or_insert(position);
            }
        }
        for term in terms.affinity {
            if let Some(uses) = self.uses(group, term) {
                uses.affinity += 1;
            }
        }
        for (weight, term) in terms.preferred {
            if let Some(uses) = self.uses(group, term) {
                uses.preferred += 1;
                uses.weight += weight;
            }
        }
    }

    /// Removes a group with the terms that it was added with.
    pub(crate) fn remove(&mut self, group: u32, terms: TermsOf<'_>) {
        for term in terms.all() {
            let Some(number) = self.numbers.get(term).copied() else {
                continue;
            };
            let Some(known) = &mut self.terms[number as usize] else {
                continue;
            };
            known.uses.remove(&group);
            if known.uses.is_empty() {
                self.forget(number);
            }
        }
    }

    /// How a group uses a term; `None` for a term that selects nothing.
    fn uses(&mut self, group: u32, term: &PodTerm) -> Option<&mut Use> {
        let number = match self.numbers.get(term) {
            Some(number) => *number,
            None => self.learn(term)?,
        };
        let known = self.terms[number as usize].as_mut()?;
        Some(known.uses.entry(group).or_default())
    }

    fn learn(&mut self, term: &PodTerm) -> Option<u32> {
        let places = places(term);
        if places.is_empty() {
            return None;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.terms.push(None);
            // The machine cannot hold 2^32 terms in memory, so the fallback is never used.
            u32::try_from(self.terms.len() - 1).unwrap_or(u32::MAX)
        });
        for (namespace, label) in places {
            let labels = self.places.entry(namespace).or_default();
            labels.entry(label).or_default().insert(number);
        }
        let term = Arc::new(term.clone());
        self.numbers.insert(Arc::clone(&term), number);
        self.terms[number as usize] = Some(KnownTerm {
            term,
            uses: HashMap::new(),
        });
        Some(number)
    }

    fn forget(&mut self, number: u32) {
        let Some(known) = self.terms[number as usize].take() else {
            return;
        };
        for (namespace, label) in places(&known.term) {
            let Some(labels) = self.places.get_mut(&namespace) else {
                continue;
            };
            if let Some(numbers) = labels.get_mut(&label) {
                numbers.remove(&number);
                if numbers.is_empty() {
                    labels.remove(&label);
                }
            }
            if labels.is_empty() {
                self.places.remove(&namespace);
            }
        }
        self.numbers.remove(&known.term);
        self.free.push(number);
    }

    /// The terms that can select a pod of this namespace with these labels. Each is returned once; they need not match.
    pub(crate) fn about<'t>(
        &'t self,
        namespace: Symbol,
        namespace_labels: &Labels,
        labels: &Labels,
    ) -> impl Iterator<Item = &'t KnownTerm> + use<'t> {
        let mut numbers: Vec<u32> = Vec::new();
        if !self.places.is_empty() {
            let of_namespace = [Anchor::Name(namespace)].into_iter();
            for of_namespace in of_namespace.chain(anchors_of(namespace_labels)) {
                let Some(of_labels) = self.places.get(&of_namespace) else {
                    continue;
                };
                for label in anchors_of(labels) {
                    numbers.extend(of_labels.get(&label).into_iter().flatten());
                }
            }
        }
        // A term with many values may have been found under several of them.
        numbers.sort_unstable();
        numbers.dedup();
        numbers
            .into_iter()
            .filter_map(|number| self.terms[number as usize].as_ref())
    }
}

/// The properties of an object with these labels.
fn anchors_of(labels: &Labels) -> impl Iterator<Item = Anchor> {
    let pairs = labels.iter();
    let labels = pairs.flat_map(|(key, value)| [Anchor::Key(key), Anchor::Label(key, value)]);
    std::iter::once(Anchor::Anything).chain(labels)
}

/// A selector selects only labels that have one of these. Empty if it selects nothing.
fn anchors(selector: &Selector) -> Vec<Anchor> {
    let Selector::All(requirements) = selector else {
        return Vec::new();
    };
    let listing = requirements
        .iter()
        .filter(|requirement| !requirement.wanted().is_empty())
        .min_by_key(|requirement| requirement.wanted().len());
    if let Some(requirement) = listing {
        let key = requirement.key();
        let values: HashSet<Symbol> = requirement.wanted().iter().copied().collect();
        let label = |value| Anchor::Label(key, value);
        return values.into_iter().map(label).collect();
    }
    let mut requirements = requirements.iter();
    match requirements.find(|requirement| needs_label(requirement)) {
        Some(requirement) => vec![Anchor::Key(requirement.key())],
        None => vec![Anchor::Anything],
    }
}

/// The combinations of a namespace and a label under which a term is listed. Empty if it selects nothing.
fn places(term: &PodTerm) -> Vec<(Anchor, Anchor)> {
    let names: HashSet<Symbol> = term.namespaces.iter().copied().collect();
    let mut namespaces: Vec<Anchor> = names.into_iter().map(Anchor::Name).collect();
    namespaces.extend(anchors(&term.namespace_selector));
    let labels = anchors(&term.selector);
    // The memory of a term must stay in proportion to its size.
    let both_are_long = namespaces.len() > 1 && labels.len() > 1;
    if both_are_long && namespaces.len().saturating_mul(labels.len()) > MOST_PLACES {
        namespaces = vec![Anchor::Anything];
    }
    let pairs = namespaces.iter().flat_map(|namespace| {
        let labels = labels.iter();
        labels.map(|label| (*namespace, *label))
    });
    pairs.collect()
}
