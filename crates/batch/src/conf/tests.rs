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
        told(&conf),
        [
            "volcano-scheduler.conf:6:5: tiers[0].plugins[0].enableAllocatable: unknown key, which is ignored; did you mean \
             tiers[0].plugins[0].enabledAllocatable?"
        ]
    );
}

#[test]
fn s6_095_unknown_actions_fail_and_unknown_plugins_are_skipped() {
    let text = |actions: &str| {
        format!("actions: {actions}\ntiers:\n- plugins:\n  - name: gnag\n  - name: gang\n")
    };
    let error = Conf::read(&text("\"enqueue, dance\"")).unwrap_err();
    assert_eq!(error.first, "failed to find Action  dance");
    assert!(
        error.to_string().starts_with(
            "volcano-scheduler.conf:1:10: actions: failed to find Action  dance; the actions are enqueue, "
        ),
        "{error}"
    );
    let conf = Conf::read(&text("allocate")).unwrap();
    assert_eq!(conf.tiers[0].len(), 1);
    assert_eq!(
        told(&conf),
        [
            "volcano-scheduler.conf:4:11: tiers[0].plugins[0].name: gnag: unknown plugin; it is skipped; the nearest is gang"
        ]
    );
    assert!(!conf.tiers[0][0].is_hierarchical());
}

#[test]
fn s6_170_s6_225_plugins_that_stay_out_are_refused_with_line_reason_and_way() {
    let text = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: deviceshare\n";
    let error = Conf::read(text).unwrap_err().first;
    let start = "line 5: tiers[0].plugins[1].name: deviceshare is not supported: ";
    assert!(error.starts_with(start) && error.contains("DRA"), "{error}");
    let text = "actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n    arguments:\n      capacity.DynamicResourceAllocationEnable: true\n";
    let error = Conf::read(text).unwrap_err().to_string();
    let start = "volcano-scheduler.conf:6:7: tiers[0].plugins[0].arguments.capacity.DynamicResourceAllocationEnable: ";
    assert!(error.starts_with(start), "{error}");
    assert!(Conf::read(&text.replace("true", "false")).is_ok());
}

#[test]
fn s6_222_the_use_of_nodes_is_read_only_for_plugins_that_need_it() {
    let conf = |plugin: &str, metrics: &str| {
        let text = format!(
            "actions: allocate\ntiers:\n- plugins:\n  - name: {plugin}\nmetrics: {metrics}\n"
        );
        Conf::read(&text).unwrap()
    };
    assert_eq!(conf("gang", "{interval: 10s}").measures(), None);
    for (plugin, metrics, seconds) in [
        ("usage", "{}", 30),
        ("rescheduling", "{interval: 10s}", 10),
        ("usage", "{interval: 1ms}", 1),
    ] {
        let interval = Some(Duration::from_secs(seconds));
        assert_eq!(conf(plugin, metrics).measures(), interval, "{metrics}");
    }
    let other = conf("usage", "{type: prometheus, address: \"http://p\"}");
    let warning = "volcano-scheduler.conf:5:17: metrics.type: prometheus: the use of nodes is read from \
                   metrics.k8s.io instead; write metrics_server";
    assert_eq!(told(&other), [warning]);
}

#[test]
fn s6_096_hierarchical_drf_and_proportion_do_not_share_a_tier() {
    let one = "actions: enqueue\ntiers:\n- plugins:\n  - {name: drf, enableHierarchy: true}\n  - name: proportion\n";
    let error = Conf::read(one).unwrap_err();
    assert_eq!(
        error.first,
        "proportion and drf with hierarchy enabled conflicts"
    );
    assert!(error.to_string().contains(":4:5: tiers[0].plugins[0]: "));
    let two = "actions: enqueue\ntiers:\n- plugins:\n  - {name: drf, enableHierarchy: true}\n- plugins:\n  - name: proportion\n";
    assert!(Conf::read(two).is_ok());
}

#[test]
fn every_mistake_is_reported_at_once_with_its_place() {
    let lines = |text: &str| {
        let error = Conf::parse("a.conf", text).unwrap_err().to_string();
        error.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(
        lines("actions: enqueue\ntiers: 3"),
        ["a.conf:2:8: tiers: 3 is not a list; begin each item with -"]
    );
    assert_eq!(lines("- a"), ["a.conf:1:1: a list is not a map"]);
    assert!(lines("actions: [")[0].contains("it is not YAML"));
    let text = "actions: enque\nactions: enqueue\ntiers:\n- plugins:\n  - {name: gang, enableJobOrder: maybe}\n  - name: usage\n";
    let found = lines(text);
    let starts = [
        "a.conf:2:1: actions: appears twice, first in line 1; remove one",
        "a.conf:5:34: tiers[0].plugins[0].enableJobOrder: \"maybe\" is not true or false",
    ];
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
    let text = "actions: \"enque, reserve\"\n";
    let found = lines(text);
    assert!(found[0].ends_with("; did you mean enqueue?"), "{found:?}");
    assert!(found[1].contains("gone from Volcano"), "{found:?}");
}

/// The warnings of a configuration with these actions and these lines of one tier.
fn warnings(actions: &str, plugins: &str) -> Vec<String> {
    let text = format!("actions: \"{actions}\"\ntiers:\n- plugins:\n{plugins}");
    let conf = Conf::parse("a.conf", &text).unwrap();
    conf.warnings.iter().map(ToString::to_string).collect()
}

fn told(conf: &Conf) -> Vec<String> {
    conf.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a2_an_order_of_actions_that_stalls_jobs_is_reported_with_its_line() {
    let usual = "  - name: gang\n  - name: proportion\n";
    assert_eq!(
        warnings("enqueue, allocate, preempt, reclaim, backfill", usual),
        [""; 0]
    );
    for (actions, wanted) in [
        (
            "enqueue, reclaim, allocate",
            "reclaim comes before allocate",
        ),
        (
            "enqueue, preempt, allocate",
            "preempt comes before allocate",
        ),
        (
            "enqueue, gangreclaim, allocate",
            "gangreclaim comes before allocate",
        ),
        ("allocate, enqueue", "enqueue comes after allocate"),
        ("enqueue, backfill", "allocate is missing"),
        ("allocate, shuffle", "shuffle has no plugin"),
    ] {
        let told = warnings(actions, usual);
        assert_eq!(told.len(), 1, "{told:?}");
        let start = format!("a.conf:1:10: actions: {wanted}");
        assert!(told[0].starts_with(&start), "{told:?}");
    }
    let told = warnings("allocate, reclaim, preempt", "  - name: nodeorder\n");
    assert!(
        told[0].contains("reclaim has no plugin that knows"),
        "{told:?}"
    );
    assert!(
        told[1].contains("preempt has no plugin that names"),
        "{told:?}"
    );
}

#[test]
fn a2_plugins_that_contradict_each_other_are_reported_with_their_line() {
    for (plugins, line, wanted) in [
        (
            "  - name: proportion\n  - name: capacity\n",
            5,
            "capacity contradicts proportion in line 4",
        ),
        (
            "  - name: gang\n  - name: gang\n",
            5,
            "gang is already in line 4",
        ),
        (
            "  - {name: gang, enableHierarchy: true}\n",
            4,
            "gang does not use the tree of queues",
        ),
        ("  - name: overcommit\n", 4, "overcommit has no effect"),
    ] {
        let told = warnings("allocate", plugins);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("a.conf:{line}:")), "{told:?}");
        assert!(told[0].contains(wanted), "{told:?}");
    }
}

#[test]
fn a2_arguments_that_mean_nothing_are_reported_with_their_line() {
    let table = [
        (
            "binpack",
            "binpack.wieght: 5",
            "did you mean binpack.weight?",
        ),
        (
            "binpack",
            "binpack.cpu: -1",
            "-1 is not a number of at least 0",
        ),
        (
            "binpack",
            "binpack.resources.a/b: much",
            "is not a number of at least 0",
        ),
        (
            "overcommit",
            "overcommit-factor: 0.5",
            "at least 1; the default holds",
        ),
        (
            "predicates",
            "predicate.NodePortsEnable: maybe",
            "is not true or false",
        ),
        ("gang", "weight: 3", "it has no arguments"),
        (
            "capacity",
            "ancestorReclaimLevel: 1",
            "without the tree of queues",
        ),
    ];
    for (plugin, argument, wanted) in table {
        let plugins = format!("  - name: {plugin}\n    arguments:\n      {argument}\n");
        let told = warnings("enqueue, allocate", &plugins);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(wanted), "{told:?}");
        assert!(told[0].starts_with("a.conf:"), "{told:?}");
    }
    let right = "  - name: binpack\n    arguments: {binpack.weight: 2, binpack.resources: a/b, binpack.resources.a/b: 3}\n";
    assert_eq!(warnings("enqueue, allocate", right), [""; 0]);
}
