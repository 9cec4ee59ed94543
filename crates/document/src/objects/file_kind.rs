//! The kind of objects without one, by the name of their file, as old support bundles have them.

use evictd_manifests::Kind;
use std::path::Path;

/// Finds the kind by the name of a file or of its folder, such as `pods/shop.json` or `storage-classes.json`.
pub(super) fn kind_of_path(path: &str) -> Option<&'static str> {
    let path = Path::new(path);
    let names = [path.file_stem(), path.parent().and_then(Path::file_name)];
    names.into_iter().flatten().find_map(|name| {
        let name = name.to_str()?.replace(['-', '_'], "").to_lowercase();
        let resource = match name.as_str() {
            "pvs" => "persistentvolumes",
            "pvcs" => "persistentvolumeclaims",
            name => name,
        };
        let mut kinds = Kind::ALL.iter();
        kinds
            .find(|kind| kind.resource() == resource)
            .map(|kind| kind.as_str())
    })
}
