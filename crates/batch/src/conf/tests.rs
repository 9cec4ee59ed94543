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
    arguments: {binpack.weight: 5, binpack.cpu: 3, binpack.resources: nvidia.com/gpu}
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
        warnings_of(&conf),
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
        warnings_of(&conf),
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
    assert_eq!(warnings_of(&other), [warning]);
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
    warnings_of(&Conf::parse("a.conf", &text).unwrap())
}

fn warnings_of(conf: &Conf) -> Vec<String> {
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
            "enqueue, gangpreempt, allocate",
            "gangpreempt comes before allocate",
        ),
        ("allocate, enqueue", "enqueue comes after allocate"),
        ("enqueue, backfill", "allocate is missing"),
        ("allocate, shuffle", "shuffle has no plugin"),
    ] {
        let found = warnings(actions, usual);
        assert_eq!(found.len(), 1, "{found:?}");
        let start = format!("a.conf:1:10: actions: {wanted}");
        assert!(found[0].starts_with(&start), "{found:?}");
    }
    let found = warnings("allocate, reclaim, preempt", "  - name: nodeorder\n");
    assert!(
        found[0].contains("reclaim has no plugin that knows"),
        "{found:?}"
    );
    assert!(
        found[1].contains("preempt has no plugin that names"),
        "{found:?}"
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
        let found = warnings("allocate", plugins);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with(&format!("a.conf:{line}:")),
            "{found:?}"
        );
        assert!(found[0].contains(wanted), "{found:?}");
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
            "-1 is not a whole number of at least 0",
        ),
        (
            "binpack",
            "binpack.resources.a/b: much",
            "is not a whole number of at least 0",
        ),
        (
            "binpack",
            "binpack.weight: \"5\"",
            "is not a whole number of at least 0; the default holds",
        ),
        (
            "task-topology",
            "task-topology.weight: 1.5",
            "is not a whole number; the default holds",
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
        let found = warnings("enqueue, allocate", &plugins);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(wanted), "{found:?}");
        assert!(found[0].starts_with("a.conf:"), "{found:?}");
    }
    let right = "  - name: binpack\n    arguments: {binpack.weight: 2, binpack.resources: a/b, binpack.resources.a/b: 3}\n";
    assert_eq!(warnings("enqueue, allocate", right), [""; 0]);
}

#[test]
fn s6_222_arguments_that_are_not_read_are_reported_with_their_lines() {
    let of_usage = "  - name: gang
  - name: usage
    arguments:
      usage.weight: \"10\"
      cpu.weight: 2.5
      memory.weight: -1
      thresholds:
        memory: 70
        cpu: 150
        mem: 70
      estimator:
        request_ratio: 2
        risk_factor: 0.5
        be_cpu: half
        be_mem: 200Mi
        burst: 1
";
    let found = warnings("allocate", of_usage);
    let starts = [
        "a.conf:7:21: tiers[0].plugins[1].arguments.usage.weight: \"10\" is not a whole number of at least 0",
        "a.conf:8:19: tiers[0].plugins[1].arguments.cpu.weight: 2.5 is not a whole number of at least 0",
        "a.conf:9:22: tiers[0].plugins[1].arguments.memory.weight: -1 is not a whole number of at least 0",
        "a.conf:11:9: tiers[0].plugins[1].arguments.thresholds.memory: unknown argument, which is ignored",
        "a.conf:12:14: tiers[0].plugins[1].arguments.thresholds.cpu: 150 is not a whole number from 0 to 100",
        "a.conf:15:24: tiers[0].plugins[1].arguments.estimator.request_ratio: 2 is not a number from 0 to 1",
        "a.conf:16:22: tiers[0].plugins[1].arguments.estimator.risk_factor: 0.5 is not a number of at least 1",
        "a.conf:17:17: tiers[0].plugins[1].arguments.estimator.be_cpu: \"half\" is not a whole number or a quantity",
        "a.conf:19:9: tiers[0].plugins[1].arguments.estimator.burst: unknown argument, which is ignored",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
    let of_rescheduling = "  - name: rescheduling
    arguments:
      strategies:
      - name: lowNodeUtilisation
        params:
          thresholds: {cpu: 20, mem: 20}
          targetThresholds: {cpu: \"80\"}
";
    let found = warnings("allocate, shuffle", of_rescheduling);
    let starts = [
        "a.conf:7:15: tiers[0].plugins[0].arguments.strategies[0].name: \"lowNodeUtilisation\" is not lowNodeUtilization",
        "a.conf:9:33: tiers[0].plugins[0].arguments.strategies[0].params.thresholds.mem: unknown argument, which is ignored",
        "a.conf:10:35: tiers[0].plugins[0].arguments.strategies[0].params.targetThresholds.cpu: \"80\" is not a number",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
}

#[test]
fn s6_198_gangpreempt_needs_a_plugin_that_names_its_victims() {
    // Volcano asks drf and tdm about single pods only.
    let found = warnings("allocate, gangpreempt", "  - name: drf\n  - name: tdm\n");
    let words = "gangpreempt has no plugin that names victims, so it evicts no pod";
    assert!(found.iter().any(|found| found.contains(words)), "{found:?}");
    for name in ["gang", "priority", "conformance", "capacity"] {
        let found = warnings("allocate, gangpreempt", &format!("  - name: {name}\n"));
        assert!(
            !found.iter().any(|found| found.contains(words)),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn a_name_that_is_missing_has_no_nearest_one() {
    let found = warnings("allocate", "  - name: \"\"\n");
    assert_eq!(
        found,
        ["a.conf:4:11: tiers[0].plugins[0].name: the plugin has no name; it is skipped"]
    );
    let text = "actions: allocate\nconfigurations:\n- arguments: {}\n";
    let conf = Conf::parse("a.conf", text).unwrap();
    let found = warnings_of(&conf);
    assert_eq!(
        found,
        ["a.conf:3:3: configurations[0].name: the action has no name; it is skipped"]
    );
    let text = "actions: allocate\ntiers:\n- plugins:\n  - name: numaaware\n";
    let error = Conf::parse("a.conf", text).unwrap_err().to_string();
    assert!(
        error.contains("numaaware is not supported: did you mean numa-aware?"),
        "{error}"
    );
}

#[test]
fn s6_198_gangreclaim_with_proportion_alone_is_reported() {
    let words = "gangreclaim does not ask proportion about victims";
    let reported = |plugins: &str| {
        let found = warnings("allocate, gangreclaim", plugins);
        found.iter().any(|found| found.contains(words))
    };
    assert!(reported("  - name: gang\n  - name: proportion\n"));
    assert!(!reported("  - name: gang\n  - name: capacity\n"));
}

#[test]
fn durations_that_cannot_be_read_are_reported_and_the_default_holds() {
    let of = |metrics: &str, plugin: &str| {
        let text = format!(
            "actions: \"enqueue, allocate, shuffle\"\nmetrics: {metrics}\ntiers:\n- plugins:\n  - name: usage\n  - {plugin}\n"
        );
        let conf = Conf::parse("a.conf", &text).unwrap();
        assert_eq!(conf.measures(), Some(Duration::from_secs(30)));
        let mut found = warnings_of(&conf);
        found.retain(|found| found.contains("is not a duration"));
        found
    };
    assert_eq!(
        of("{type: metrics_server, interval: soon}", "{name: gang}"),
        ["a.conf:2:43: metrics.interval: \"soon\" is not a duration like 30s; the default holds"]
    );
    // A number has no unit, and no pause is none.
    assert_eq!(of("{interval: 30}", "{name: gang}").len(), 1);
    assert_eq!(of("{interval: 0s}", "{name: gang}").len(), 1);
    for plugin in [
        "{name: sla, arguments: {sla-waiting-time: 1 day}}",
        "{name: tdm, arguments: {tdm.evict.period: often}}",
        "{name: rescheduling, arguments: {interval: 5}}",
        "{name: rescheduling, arguments: {metricsPeriod: x}}",
    ] {
        assert_eq!(of("{}", plugin).len(), 1, "{plugin}");
    }
    assert_eq!(
        of(
            "{interval: 30s}",
            "{name: sla, arguments: {sla-waiting-time: 1h30m}}"
        )
        .len(),
        0
    );
}

#[test]
fn unknown_keys_of_metrics_are_reported() {
    let text = "actions: allocate\ntiers:\n- plugins:\n  - name: usage\nmetrics: {intervall: 10s, tls.insecureSkipVerify: \"true\"}\n";
    let found = warnings_of(&Conf::parse("a.conf", text).unwrap());
    assert_eq!(
        found,
        [
            "a.conf:5:11: metrics.intervall: unknown argument, which is ignored; did you mean interval?"
        ]
    );
}
