use super::*;

#[test]
fn s6_092_an_empty_file_is_the_built_in_one() {
    let conf = Conf::read(" \n").unwrap();
    assert_eq!(
        conf.actions,
        [Action::Enqueue, Action::Allocate, Action::Backfill]
    );
    let names: Vec<Vec<&str>> = conf
        .tiers
        .iter()
        .map(|tier| tier.iter().map(|tier| tier.name.as_str()).collect())
        .collect();
    assert_eq!(names[0], ["priority", "gang", "conformance"]);
    assert_eq!(
        names[1],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder"]
    );
}

#[test]
fn s6_093_arguments_and_switches_are_read() {
    let text = "\
actions: \" allocate ,backfill\"
configurations:
- name: allocate
  arguments:
    predicateErrorCacheEnable: false
tiers:
- plugins:
  - name: binpack
    enableNodeOrder: false
    arguments: {binpack.weight: 5, binpack.cpu: \"3\", binpack.resources: nvidia.com/gpu}
";
    let conf = Conf::read(text).unwrap();
    assert_eq!(conf.actions, [Action::Allocate, Action::Backfill]);
    let plugin = &conf.tiers[0][0];
    assert!(!plugin.at(Switch::NodeOrder) && plugin.at(Switch::JobOrder));
    assert_eq!(
        plugin.arguments.number("binpack.weight", 1.0).to_bits(),
        5.0_f64.to_bits()
    );
    assert_eq!(
        plugin.arguments.number("binpack.cpu", 1.0).to_bits(),
        3.0_f64.to_bits()
    );
    assert_eq!(
        plugin.arguments.text("binpack.resources"),
        Some("nvidia.com/gpu")
    );
    let arguments = conf.arguments_of(Action::Allocate).unwrap();
    assert!(!arguments.boolean("predicateErrorCacheEnable", true));
    assert!(conf.warnings.is_empty(), "{:?}", conf.warnings);
}

#[test]
fn s6_094_some_keys_end_in_a_d_and_misspelt_ones_are_told() {
    let text = "\
actions: allocate
tiers:
- plugins:
  - name: proportion
    enabledOverused: false
    enableAllocatable: false
";
    let conf = Conf::read(text).unwrap();
    let plugin = &conf.tiers[0][0];
    assert!(!plugin.at(Switch::Overused) && plugin.at(Switch::Allocatable));
    assert_eq!(
        conf.warnings,
        ["tiers[0].plugins[0].enableAllocatable: unknown key; the nearest is enabledAllocatable"]
    );
}

#[test]
fn s6_095_unknown_actions_fail_and_unknown_plugins_are_skipped() {
    let text = |actions: &str| {
        format!("actions: {actions}\ntiers:\n- plugins:\n  - name: gnag\n  - name: gang\n")
    };
    let error = Conf::read(&text("\"enqueue, dance\"")).unwrap_err();
    assert_eq!(error.to_string(), "failed to find Action  dance");
    let conf = Conf::read(&text("enqueue")).unwrap();
    assert_eq!(conf.tiers[0].len(), 1);
    assert_eq!(
        conf.warnings,
        ["tiers[0].plugins[0].name: gnag: unknown plugin; the nearest is gang; it is skipped"]
    );
    assert!(!conf.tiers[0][0].is_hierarchical());
}

#[test]
fn s6_170_s6_225_plugins_that_stay_out_are_refused_with_line_reason_and_way() {
    let text = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: deviceshare\n";
    let error = Conf::read(text).unwrap_err().to_string();
    let start = "line 5: tiers[0].plugins[1].name: deviceshare is not supported: ";
    assert!(error.starts_with(start) && error.contains("DRA"), "{error}");
    let text = "actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n    arguments:\n      capacity.DynamicResourceAllocationEnable: true\n";
    let error = Conf::read(text).unwrap_err().to_string();
    assert!(
        error.starts_with("line 6: tiers[0].plugins[0].arguments: "),
        "{error}"
    );
    assert!(Conf::read(&text.replace("true", "false")).is_ok());
}

#[test]
fn s6_096_hierarchical_drf_and_proportion_do_not_share_a_tier() {
    let one = "actions: enqueue\ntiers:\n- plugins:\n  - {name: drf, enableHierarchy: true}\n  - name: proportion\n";
    assert_eq!(
        Conf::read(one).unwrap_err(),
        ConfError::HierarchyAndProportion
    );
    let two = "actions: enqueue\ntiers:\n- plugins:\n  - {name: drf, enableHierarchy: true}\n- plugins:\n  - name: proportion\n";
    assert!(Conf::read(two).is_ok());
}

#[test]
fn a_value_of_another_type_is_refused_with_its_place() {
    let error = |text: &str| Conf::read(text).unwrap_err().to_string();
    assert_eq!(error("actions: enqueue\ntiers: 3"), "tiers: must be a list");
    assert_eq!(error("- a"), "the file: must be a map");
    assert!(error("actions: [").starts_with("it is not YAML"));
    let text = "actions: enqueue\ntiers:\n- plugins:\n  - {name: gang, enableJobOrder: maybe}\n";
    assert_eq!(
        error(text),
        "tiers[0].plugins[0].enableJobOrder: must be true or false"
    );
}
