//! Which plugins are asked where, and in which order.

use super::{read, wire};
use evictd_scheduling::config::{Configuration, Point, Points};
use serde_json::{Value, json};

/// The plugins of the only profile.
fn points(plugins: &Value) -> Points {
    let config = read(&json!({ "profiles": [{ "plugins": plugins }] }));
    config.profiles[0].points.clone()
}

#[test]
fn s5_076_the_default_plugins_at_each_point() {
    let points = points(&json!({}));
    let at = |point: Point| points.at(point).join(" ");
    assert_eq!(
        at(Point::PreEnqueue),
        "SchedulingGates DynamicResources DefaultPreemption"
    );
    assert_eq!(at(Point::QueueSort), "PrioritySort");
    assert_eq!(
        at(Point::PreFilter),
        "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone \
         PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"
    );
    assert_eq!(
        at(Point::Filter),
        "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions \
         NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources \
         NodeDeclaredFeatures"
    );
    assert_eq!(at(Point::PostFilter), "DynamicResources DefaultPreemption");
    assert_eq!(
        at(Point::PreScore),
        "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity \
         NodeResourcesBalancedAllocation"
    );
    assert_eq!(
        at(Point::Score),
        "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity \
         DynamicResources NodeResourcesBalancedAllocation ImageLocality"
    );
    assert_eq!(at(Point::Reserve), "VolumeBinding DynamicResources");
    assert_eq!(at(Point::Permit), "");
    assert_eq!(at(Point::PreBind), "VolumeBinding DynamicResources");
    assert_eq!(at(Point::Bind), "DefaultBinder");
    assert_eq!(at(Point::PostBind), "");
    let weights = points
        .at(Point::Score)
        .iter()
        .map(|name| points.weight(name));
    assert_eq!(weights.collect::<Vec<i64>>(), [3, 2, 1, 1, 2, 2, 2, 1, 1]);
}

#[test]
fn s5_075_disabling_all_plugins_leaves_only_the_enabled_ones() {
    let all = json!([{ "name": "*" }]);
    let merged = points(&json!({ "score": {
        "disabled": all, "enabled": [{ "name": "ImageLocality" }, { "name": "NodeAffinity", "weight": 9 }],
    } }));
    assert_eq!(merged.at(Point::Score), ["ImageLocality", "NodeAffinity"]);
    assert_eq!(
        (
            merged.weight("ImageLocality"),
            merged.weight("NodeAffinity")
        ),
        (1, 9)
    );
    assert_eq!(merged.at(Point::Filter).len(), 14);

    let merged = points(&json!({ "multiPoint": { "disabled": all, "enabled": [
        { "name": "DefaultBinder" }, { "name": "TaintToleration" }, { "name": "PrioritySort" },
    ] } }));
    assert_eq!(merged.at(Point::Filter), ["TaintToleration"]);
    assert_eq!(merged.at(Point::Bind), ["DefaultBinder"]);
    assert!(merged.at(Point::PreFilter).is_empty());
    // Its default weight went with the defaults; 0 is 1.
    assert_eq!(merged.weight("TaintToleration"), 1);
}

#[test]
fn s5_075_a_default_plugin_that_is_enabled_again_keeps_its_position() {
    let merged = points(
        &json!({ "multiPoint": { "enabled": [{ "name": "PodTopologySpread", "weight": 5 }] } }),
    );
    let default = points(&json!({}));
    assert_eq!(merged.at(Point::Score), default.at(Point::Score));
    assert_eq!(
        (
            merged.weight("PodTopologySpread"),
            merged.weight("InterPodAffinity")
        ),
        (5, 2)
    );
}

#[test]
fn s5_075_plugins_that_a_point_enables_again_come_first_in_its_order() {
    let merged = points(&json!({ "score": { "enabled": [
        { "name": "ImageLocality", "weight": 4 }, { "name": "NodeAffinity" },
    ] } }));
    assert_eq!(
        merged.at(Point::Score)[..3],
        ["ImageLocality", "NodeAffinity", "TaintToleration"]
    );
    assert_eq!(merged.at(Point::Score).len(), 9);
    assert_eq!(
        (
            merged.weight("ImageLocality"),
            merged.weight("NodeAffinity")
        ),
        (4, 1)
    );
}

#[test]
fn the_configuration_of_kube_scheduler_with_its_gang_feature_gates_is_accepted() {
    let merged = points(&json!({
        "multiPoint": { "enabled": [
            { "name": "GangScheduling", "weight": 0 },
            { "name": "TopologyPlacementGenerator", "weight": 0 },
            { "name": "PodGroupPodsCount", "weight": 1 },
        ] },
        "placementGenerate": {}, "placementScore": {},
    }));
    assert_eq!(merged.at(Point::Permit), ["GangScheduling"]);
    assert_eq!(
        merged.at(Point::PlacementGenerate),
        ["TopologyPlacementGenerator"]
    );
    assert_eq!(merged.at(Point::PlacementScore), ["PodGroupPodsCount"]);
}

/// S7-261, S7-262: gang plugins are still named, and preemption for groups is on.
#[test]
fn s7_260_the_extension_point_for_groups_of_1_37_is_accepted() {
    assert_eq!(
        points(&json!({})).at(Point::PodGroupPostFilter),
        ["DefaultPreemption"]
    );
    let off = json!({ "podGroupPostFilter": { "disabled": [{ "name": "DefaultPreemption" }] } });
    let merged = points(&off);
    assert!(merged.at(Point::PodGroupPostFilter).is_empty());
    assert!(
        merged
            .at(Point::PostFilter)
            .contains(&"DefaultPreemption".to_owned())
    );
}

/// S7-264: such a plugin is named at the start, because groups do without it.
#[test]
fn s7_264_plugins_that_groups_do_not_have_are_found() {
    let nothing = json!({ "disabled": [{ "name": "*" }] });
    let default = json!({ "name": "DefaultPreemption" });
    let cases = [
        (json!({}), &[][..]),
        (
            json!({ "podGroupPostFilter": nothing }),
            &["DefaultPreemption"][..],
        ),
        (
            json!({ "podGroupPostFilter": nothing, "postFilter": nothing }),
            &[],
        ),
        (
            json!({ "postFilter": nothing, "podGroupPostFilter": { "enabled": [default] } }),
            &[],
        ),
    ];
    for (plugins, expected) in cases {
        let points = points(&plugins);
        let found: Vec<&str> = points.post_filters_without_groups().collect();
        assert_eq!(found, expected, "{plugins}");
    }
}

#[test]
fn s5_075_a_plugin_disabled_and_enabled_at_one_point_comes_last() {
    let merged = points(&json!({ "filter": {
        "disabled": [{ "name": "NodeName" }], "enabled": [{ "name": "NodeName" }],
    } }));
    assert_eq!(merged.at(Point::Filter).last().unwrap(), "NodeName");
    assert_eq!(merged.at(Point::Filter).len(), 14);
}

#[test]
fn s5_075_a_plugin_can_be_disabled_at_all_points_or_at_one() {
    let off = json!({ "disabled": [{ "name": "NodeAffinity" }] });
    let merged = points(&json!({ "multiPoint": off }));
    for point in Point::ALL {
        assert!(
            !merged.at(point).contains(&"NodeAffinity".to_owned()),
            "{point:?}"
        );
    }
    let merged = points(&json!({ "score": off }));
    assert!(!merged.at(Point::Score).contains(&"NodeAffinity".to_owned()));
    assert!(
        merged
            .at(Point::Filter)
            .contains(&"NodeAffinity".to_owned())
    );
    // Of a plugin that is off for all points, one may still be on; it comes after the others.
    let merged = points(
        &json!({ "multiPoint": off, "score": { "enabled": [{ "name": "NodeAffinity", "weight": 2 }] } }),
    );
    assert_eq!(merged.at(Point::Score).last().unwrap(), "NodeAffinity");
    assert_eq!(merged.weight("NodeAffinity"), 2);
}

#[test]
fn s5_075_custom_plugins_are_merged_like_built_in_ones() {
    let registered: [(&str, &[Point]); 1] = [("Racks", &[Point::Filter, Point::Score])];
    let profile = json!({
        "plugins": { "multiPoint": { "enabled": [{ "name": "Racks", "weight": 3 }] } },
        "pluginConfig": [{ "name": "Racks", "args": { "height": 42 } }],
    });
    let wire = wire(&json!({ "profiles": [profile] })).unwrap();
    let config = Configuration::new(&wire, &registered).unwrap();
    let profile = &config.profiles[0];
    assert_eq!(profile.points.at(Point::Filter).last().unwrap(), "Racks");
    assert_eq!(profile.points.at(Point::Score).last().unwrap(), "Racks");
    assert!(
        !profile
            .points
            .at(Point::PreFilter)
            .contains(&"Racks".to_owned())
    );
    assert_eq!(profile.points.weight("Racks"), 3);
    assert_eq!(profile.custom_args["Racks"]["height"], 42);
    // Without being registered nobody knows it.
    assert_eq!(Configuration::new(&wire, &[]).unwrap_err().len(), 2);
}

#[test]
fn s5_075_node_resources_fit_ignores_the_resources_that_only_extenders_manage() {
    let config = read(&json!({
        "profiles": [{ "pluginConfig": [
            { "name": "NodeResourcesFit", "args": { "ignoredResources": ["example.com/other"] } },
        ] }],
        "extenders": [
            { "urlPrefix": "http://a", "ignorable": true },
            { "urlPrefix": "http://b", "managedResources": [
                { "name": "example.com/gpu", "ignoredByScheduler": true }, { "name": "example.com/nic" },
            ] },
        ],
    }));
    assert_eq!(
        config.profiles[0].args.fit.ignored.resources,
        ["example.com/gpu"]
    );
    let order = config
        .extenders
        .iter()
        .map(|extender| extender.url_prefix.as_str());
    assert_eq!(order.collect::<Vec<&str>>(), ["http://b", "http://a"]);
    assert_eq!(
        config.extenders[0].managed_resources,
        ["example.com/gpu", "example.com/nic"]
    );
}
