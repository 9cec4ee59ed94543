//! The pages of the secure port beside health and metrics.

use super::serve::Page;
use super::view::View;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pages by path. Each is made anew for a request.
pub(super) fn pages(view: &View) -> BTreeMap<&'static str, Page> {
    let (of_pending, of_decisions) = (view.clone(), view.clone());
    let pending: Page = Arc::new(move |query| {
        let view = of_pending.clone();
        Box::pin(async move { view.pending(&query).await })
    });
    let decisions: Page = Arc::new(move |query| {
        let view = of_decisions.clone();
        Box::pin(async move { view.decisions(&query) })
    });
    [("/v1/pending", pending), ("/v1/decisions", decisions)].into()
}
