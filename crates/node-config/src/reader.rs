//! The state while the files of a configuration are read: the place of each setting, and the mistakes.

use super::effective::{Effective, Kind};
use evictd_configuration::{Fault, Mistake, Place};
use std::collections::BTreeMap;

/// The place of a setting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) file: &'a str,
    pub(super) key: Option<Place>,
    pub(super) value: Option<Place>,
}

/// How far a reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The kind is not known yet.
    Kind,
    /// Each file is checked by itself.
    Files,
    /// All files are read: mistakes concern the merged settings, and are reported where a setting was written last.
    Whole,
}

/// The files being read.
pub(super) struct Reader<'a> {
    pub(super) files: Vec<&'a str>,
    /// The one being read.
    pub(super) file: &'a str,
    pub(super) stage: Stage,
    /// Whether a map's entries come on top of the defaults instead of replacing them (S1-016).
    pub(super) merges: bool,
    pub(super) effective: Effective,
    /// The place where each setting and each entry of the signals' maps was written last.
    pub(super) places: BTreeMap<String, Written<'a>>,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) warnings: Vec<Mistake>,
    /// The kubelet's message for its first error, if it would report one.
    pub(super) kubelet_first_error: Option<String>,
    /// The file is that of a distribution, with flags for its kubelet.
    pub(super) is_of_a_distribution: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self {
            files: vec![file],
            file,
            stage: Stage::Kind,
            merges: true,
            effective: Effective::blank(Kind::Evictd),
            places: BTreeMap::new(),
            mistakes: Vec::new(),
            warnings: Vec::new(),
            kubelet_first_error: None,
            is_of_a_distribution: false,
        }
    }

    /// Whether a mistake was found in this setting as a whole, so that nothing of it was read.
    pub(super) fn is_refused(&self, key: &str) -> bool {
        self.mistakes.iter().any(|mistake| mistake.key == key)
    }

    pub(super) fn mistake(&mut self, key: &str, fault: Fault) {
        self.mistakes.push(fault.in_file(self.file_of(key), key));
    }

    pub(super) fn warning(&mut self, key: &str, fault: Fault) {
        self.warnings.push(fault.in_file(self.file_of(key), key));
    }

    pub(super) fn file_of(&self, key: &str) -> &'a str {
        match self.places.get(key) {
            Some(written) if self.stage == Stage::Whole => written.file,
            _ => self.file,
        }
    }

    pub(super) fn written(&self, key: Option<Place>, value: Option<Place>) -> Written<'a> {
        Written {
            file: self.file,
            key,
            value,
        }
    }

    /// A warning about a setting as a whole, at its value where it was written.
    pub(super) fn warn_about(&mut self, key: &str, message: String, advice: &str) {
        let fault = Fault::new(self.value_place(key), message).advise(advice);
        self.warning(key, fault);
    }

    pub(super) fn key_place(&self, path: &str) -> Option<Place> {
        self.places.get(path)?.key
    }

    pub(super) fn value_place(&self, path: &str) -> Option<Place> {
        self.places.get(path)?.value
    }
}
