//! Expressions that a comparison with Kubernetes 1.36 found to differ, with the values and costs of its library.

use super::*;

fn check(rows: &[(&str, &str, u64)]) {
    for (text, value, cost) in rows {
        assert_eq!(costs(text), ((*value).to_owned(), *cost), "{text}");
    }
}

#[test]
fn lists_are_sorted_and_have_ends() {
    check(&[
        ("[].first().hasValue()", "false", 2),
        ("[1, 2].last().orValue(0)", "2", 1),
        ("dyn(1).first()", "no such overload: first(int)", 1),
        ("['b', 'a'].sortBy(x, x)", "[a b]", 48),
        ("[1, 2].sortBy(x, -x)", "[2 1]", 50),
        ("[1, 2, 3].sortBy(x, 3 - x)", "[3 2 1]", 74),
        ("[1, 2, 3, 4].sortBy(x, x % 2 == 0)", "[1 3 2 4]", 106),
        ("['bb', 'a'].sortBy(x, x.size()).last().value()", "bb", 52),
        ("cel.bind(l, [2, 1], l.sortBy(l, l))", "[1 2]", 49),
        (
            "device.attributes.map(d, d).sortBy(x, x)",
            "[gpu.example.com rack.example.com]",
            77,
        ),
        ("['b', 'a'].sort()", "[a b]", 19),
        ("[].sort()", "[]", 11),
        ("[1.0, double('NaN')].sort().size()", "2", 20),
        ("[].distinct()", "[]", 11),
        ("[[[1]]].flatten(2)", "[1]", 13),
        ("lists.range(-1)", "[]", 11),
    ]);
    for (text, why) in [
        ("dyn([[1]]).sort()", "list elements must be comparable"),
        (
            "dyn([dyn(1), 2u]).sort()",
            "list elements must have the same type",
        ),
        ("dyn([1]).unwrapOpt()", "no such overload: unwrapOpt(list)"),
        ("[1].slice(3, 3)", "cannot slice(3, 3), list is length 1"),
        (
            "[1].slice(-1, 3)",
            "cannot slice(-1, 3), negative indexes not supported",
        ),
        (
            "[1].slice(1, 0)",
            "cannot slice(1, 0), start index must be less than or equal to end index",
        ),
        ("[[[1]]].flatten(-1)", "level must be non-negative"),
        ("[].max()", "max called on empty list"),
    ] {
        assert_eq!(costs(text).0, why, "{text}");
    }
    for (text, why) in [
        ("'a'.sortBy(x, x)", "sortBy can only be applied to a list"),
        (
            "{'a': 1}.sortBy(x, x)",
            "sortBy can only be applied to a list",
        ),
        ("[1].sortBy(x.y, x)", "argument must be a simple name"),
    ] {
        let error = Expression::compile(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn the_costs_of_lists_are_those_that_stop_a_selector() {
    const TOO_MUCH: &str = "operation cancelled: actual cost limit exceeded";
    assert_eq!(selects("lists.range(600).sort().size() == 600"), Ok(true));
    for text in [
        "lists.range(800).sort().size() == 800",
        "lists.range(800).sortBy(x, -x).size() == 800",
        "lists.range(800).distinct().size() == 800",
        "lists.range(1000).all(x, lists.range(1000).reverse().size() == 1000)",
    ] {
        assert_eq!(selects(text), Err(TOO_MUCH.into()), "{text}");
    }
    let estimated = |text: &str| estimate::most(&compiled(text).node);
    assert_eq!(estimated("['b', 'a'].sort()"), 30);
    assert_eq!(estimated("['b', 'a'].sortBy(x, x)"), 79);
    assert_eq!(estimated("[1, 2, 3].reverse()"), 24);
    assert_eq!(estimated("[1, 2, 1].distinct()"), 39);
}

#[test]
fn the_alternative_of_an_optional_is_free_and_evaluated_late() {
    check(&[
        ("optional.of(true).orValue(1 / 0 == 1)", "true", 1),
        ("optional.none().or(optional.of(2)).value()", "2", 3),
        ("device.?driver.orValue('x')", "gpu.example.com", 2),
        (
            "device.attributes['gpu.example.com'].?none.or(optional.of('y')).value()",
            "y",
            5,
        ),
        (
            "device.attributes['gpu.example.com'].?none.?b.hasValue()",
            "false",
            4,
        ),
        ("{'a': device.driver}.?a.hasValue()", "true", 35),
        ("{'a': device.driver}.?b.hasValue()", "false", 34),
        ("[device.driver][?3].hasValue()", "false", 14),
    ]);
}

#[test]
fn values_that_refuse_a_comparison_are_not_equal() {
    check(&[
        (
            "device.attributes['gpu.example.com'].driverVersion != 'x'",
            "true",
            5,
        ),
        (
            "device.attributes['gpu.example.com'].driverVersion == 'x'",
            "no such overload",
            5,
        ),
        ("semver('1.2.3') != dyn('1.2.3')", "true", 2),
        ("semver('1.2.3') != semver('1.2.3')", "false", 3),
        ("quantity('1') != dyn(1)", "true", 2),
        (
            "device.attributes['gpu.example.com'].driverVersion in ['1.2.3']",
            "internal error: runtime error: hash of unhashable type cel.Semver",
            4,
        ),
    ]);
}

#[test]
fn versions_are_normalized_as_in_kubernetes() {
    for (text, is_version) in [
        ("", false),
        ("v", false),
        ("1..2", false),
        ("-1", false),
        ("1.2-rc1", false),
        ("1.2.3.4", false),
        ("vv1", false),
        ("01.02.03", true),
        ("1.2.03-rc1", true),
        ("1.2.-rc1", true),
        ("1.2.+b", true),
    ] {
        let asked = format!("isSemver('{text}', true)");
        assert_eq!(selects(&asked), Ok(is_version), "{asked}");
    }
    for (text, why) in [
        (
            "semver('1.2-rc1', true)",
            "short version cannot contain PreRelease/Build meta data",
        ),
        (
            "semver('v', true)",
            "strconv.ParseUint: parsing \"\": invalid syntax",
        ),
        (
            "semver('1.2.3-01')",
            "Numeric PreRelease version must not contain leading zeroes \"01\"",
        ),
        ("semver('1.2.3-a..b')", "Prerelease is empty"),
        (
            "semver('1.2.3-a_b')",
            "Invalid character(s) found in prerelease \"a_b\"",
        ),
        ("semver('1.2.3+')", "Build meta data is empty"),
        (
            "semver('1.2.3+a_b')",
            "Invalid character(s) found in build meta data \"a_b\"",
        ),
    ] {
        assert_eq!(costs(text).0, why, "{text}");
    }
}

#[test]
fn an_amount_is_an_integer_if_it_is_stored_as_one() {
    for (text, is_integer) in [
        ("1E", true),
        ("1.5k", true),
        ("1e3", true),
        ("00001", true),
        ("10Ti", true),
        ("999999999999999999", true),
        ("1000000000000000000", false),
        ("-1000000000000000000", false),
        ("10E", false),
        ("100Ti", false),
        ("1Ei", false),
        ("2000m", false),
        ("2.0", false),
        ("0.5Ki", false),
        ("1e19", false),
        ("0m", false),
    ] {
        let asked = format!("quantity('{text}').isInteger()");
        assert_eq!(selects(&asked), Ok(is_integer), "{asked}");
    }
    check(&[
        (
            "quantity('2000m').asInteger()",
            "cannot convert value to integer",
            2,
        ),
        ("quantity('1.5G').asInteger()", "1500000000", 2),
        ("quantity('1').add(quantity('1m')).isInteger()", "false", 4),
        ("quantity('1k').add(1).asInteger()", "1001", 3),
        ("quantity('100').sub(quantity('30')).asInteger()", "70", 4),
        ("quantity('9E').add(quantity('9E')).isInteger()", "false", 4),
        (
            "device.capacity['gpu.example.com'].memory.asInteger()",
            "42949672960",
            5,
        ),
    ]);
}

#[test]
fn large_amounts_differ_and_floats_are_approximate() {
    for text in [
        "quantity('9223372036854775807') != quantity('100E')",
        "quantity('100E').isGreaterThan(quantity('99E'))",
        "quantity('-100E').isLessThan(quantity('-99E'))",
        "quantity('100E').compareTo(quantity('100000P')) == 0",
        "quantity('100Ei') == quantity('8Ei')",
        "quantity('123456789012345678901234567890') != quantity('123456789012345678901234567891')",
        "quantity('9007199254740993').asApproximateFloat() == 9007199254740993.0",
        "quantity('0.3').asApproximateFloat() == 0.30000000000000004",
        "quantity('0.1').asApproximateFloat() == 0.1",
        "quantity('100E').asApproximateFloat() == 1e20",
        "quantity('9E').add(quantity('9E')).asApproximateFloat() == 1.8e19",
        "quantity('1.1Gi').asApproximateFloat() == 1181116006.4",
        "quantity('1e-12').asApproximateFloat() == 1e-9",
        "quantity('1.0000000001').asApproximateFloat() == 1.000000001",
    ] {
        assert_eq!(selects(text), Ok(true), "{text}");
    }
}

#[test]
fn doubles_are_read_and_written_as_in_go() {
    for (text, value) in [
        ("2097152.0", "2.097152e+06"),
        ("999999.0", "999999"),
        ("1e21", "1e+21"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("-1.5e-7", "-1.5e-07"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("-0.0", "-0"),
        ("double('NaN')", "NaN"),
        ("double('-Inf')", "-Inf"),
        ("double('1_000')", "1000"),
        ("double('1_0.5_0')", "10.5"),
        ("double('infinity')", "+Inf"),
    ] {
        assert_eq!(costs(&format!("string({text})")).0, value, "{text}");
    }
    for text in ["1__0", "_1", "1_", "1_.5", "-nan", "1e400", ""] {
        let error = Expression::compile(&format!("double('{text}') > 0.0")).unwrap_err();
        let told = "type conversion error from 'string' to 'double'";
        assert_eq!(error, told, "{text}");
    }
}

#[test]
fn formats_write_what_kubernetes_writes() {
    for (format, value, written) in [
        ("%s", "['a']", r#"["a"]"#),
        (
            "%s",
            r#"[1.5, 'ä"', b'ab', true, null, [1], 1u, int, timestamp(0), duration('1s')]"#,
            r#"[1.500000, "ä\"", b"ab", true, null, [1], 1, int, timestamp("1970-01-01T00:00:00Z"), duration("1s")]"#,
        ),
        ("%s", "{'b': 1, 'a': {1: 2}}", r#"{"a":{1:2}, "b":1}"#),
        ("%s", "{10: 1, 9: 2, -1: 3}", "{-1:3, 10:1, 9:2}"),
        ("%s", "[double('NaN'), 1e-5]", r#"["NaN", 0.000010]"#),
        (
            "%s",
            r#"["\u0001\n\u00e9\u200b\u007f\u00a0e\u0301\\"]"#,
            "[\"\\x01\\né\\u200b\\x7f\\u00a0e\u{301}\\\\\"]",
        ),
        ("%s", "1e6", "1e+06"),
        ("%e", "1234.5", "1.234500×10⁰³"),
        ("%.2e", "-1234.5e100", "-1.234500×10¹⁰³"),
        ("%.20e", "1.5", "       1.500000×10⁰⁰"),
        ("%e", "0.00012345", "1.234500×10⁻⁰⁴"),
        ("%e", "double('-Inf')", "    -∞"),
        ("%.3f", "1e10", "10,000,000,000.000"),
        ("%f", "-1234567.5", "-1,234,567.500000"),
        ("%f", "-999.5", "-999.500000"),
        ("%f", "1e23", "99,999,999,999,999,991,611,392.000000"),
        ("%.0f", "-0.4", "-0"),
        ("%f", "-0.0", "0.000000"),
        ("%f", "'Infinity'", "∞"),
        ("%d%%", "5", "5%"),
    ] {
        let text = format!("'{format}'.format([{value}])");
        assert_eq!(costs(&text).0, written, "{text}");
    }
    check(&[("'%.1000f'.format([0.1]).size()", "234", 2)]);
}

#[test]
fn formats_refuse_what_kubernetes_refuses() {
    for (text, why) in [
        (
            "'%f'.format([dyn(1)])",
            "error during formatting: fixed-point clause can only be used on doubles, was given int",
        ),
        (
            "'%d'.format([dyn(1.0)])",
            "error during formatting: decimal clause can only be used on integers, was given double",
        ),
        (
            "'%x'.format([dyn(1.5)])",
            "error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given double",
        ),
        (
            "'%s'.format([dyn(quantity('1'))])",
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given kubernetes.Quantity",
        ),
        (
            r"'%s'.format([b'\xff'])",
            "error during formatting: could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string",
        ),
        (
            "'%q'.format([1])",
            "could not parse formatting clause: unrecognized formatting clause \"q\"",
        ),
        ("'%'.format([1])", "unexpected end of string"),
        ("'%s %s'.format(['a'])", "index 1 out of range"),
        (
            "'%.3'.format([1.0])",
            "could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
        ),
        (
            "'%.f'.format([1.0])",
            "could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \"\": invalid syntax",
        ),
    ] {
        assert_eq!(costs(text).0, why, "{text}");
    }
    // A width may be long, so it is paid for.
    let wide = "lists.range(300).all(x, '%.900000e'.format([1.5]).size() == 900000)";
    let told = "operation cancelled: actual cost limit exceeded";
    assert_eq!(selects(wide), Err(told.into()));
}

#[test]
fn texts_and_maps_answer_at_their_edges() {
    check(&[
        ("''.indexOf('', 2)", "2", 0),
        ("'abc'.indexOf('', -5)", "-5", 0),
        ("'abc'.lastIndexOf('')", "3", 0),
        ("'abc'.lastIndexOf('', 5)", "5", 0),
        ("'abc'.lastIndexOf('c', -1)", "index out of range: -1", 0),
        (
            "'a'.substring(2, 1)",
            "invalid substring range. start: 2, end: 1",
            1,
        ),
        ("{'a': 1, 'a': 2}.size()", "1", 1),
        ("{'a': 1, 'a': 2}['a']", "2", 2),
        ("{device.driver: 1, device.driver: 2}.size()", "1", 35),
    ]);
}

#[test]
fn errors_of_conversions_have_the_words_of_kubernetes() {
    for (text, why) in [
        (
            "bool(device.driver)",
            "type conversion error from 'string' to 'bool'",
        ),
        (
            "int(device.driver)",
            "type conversion error from 'string' to 'int'",
        ),
        (
            "uint('+' + '5')",
            "type conversion error from 'string' to 'uint'",
        ),
        ("uint(-(1))", "unsigned integer overflow"),
        ("int(dyn(1 == 1))", "no such overload: int(bool)"),
        ("string([device])", "no such overload: string(list)"),
        (
            "timestamp(dyn(1 == 1))",
            "no such overload: timestamp(bool)",
        ),
        ("duration(dyn(1 == 1))", "no such overload: duration(bool)"),
        ("cidr('10.0.0.0/8').containsIP('x')", "no such overload"),
        (
            "ip('fe80::1%eth0')",
            "IP address \"fe80::1%eth0\" with zone value is not allowed",
        ),
        (
            "ip('::ffff:1.2.3.4')",
            "IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed",
        ),
        (
            "cidr('::ffff:1.2.3.4/96')",
            "network address parse error during conversion from string: IPv4-mapped IPv6 address \"::ffff:1.2.3.4/96\" is not allowed",
        ),
    ] {
        assert_eq!(costs(text).0, why, "{text}");
    }
}

#[test]
fn errors_of_addresses_have_the_words_of_kubernetes() {
    for (text, why) in [
        ("", "unable to parse IP"),
        (
            "gpu.example.com",
            "unexpected character (at \"gpu.example.com\")",
        ),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.400", "IPv4 field has value >255"),
        ("1.2.3.04", "IPv4 field has octet with leading zero"),
        (
            "1..2",
            "IPv4 field must have at least one digit (at \".2\")",
        ),
        (
            "1.2.3.",
            "IPv4 field must have at least one digit (at \".\")",
        ),
        ("1.2.3.é", "unexpected character (at \"é\")"),
        (
            "::g",
            "each colon-separated field must have at least one digit (at \"g\")",
        ),
        ("1::2::3", "multiple :: in address (at \":3\")"),
        (
            "12345::",
            "each group must have 4 or less digits (at \"12345::\")",
        ),
        ("1:2:3", "address string too short"),
        (
            "1:2:3:4:5:6:7:8:9",
            "trailing garbage after address (at \"9\")",
        ),
        (
            "::1:",
            "colon must be followed by more characters (at \":\")",
        ),
        ("::1.2.3", "IPv4 address too short"),
        ("fe80::1%", "zone must be a non-empty string"),
        ("%a", "missing IPv6 address"),
    ] {
        let told = format!(
            "IP Address \"{text}\" parse error during conversion from string: ParseAddr(\"{text}\"): {why}"
        );
        let asked = format!("ip('{text}')");
        assert_eq!(costs(&asked).0, told, "{asked}");
    }
    for (text, why) in [
        ("gpu.example.com", "no '/'"),
        ("x/8", "ParseAddr(\"x\"): unable to parse IP"),
        ("10.0.0.0/33", "prefix length out of range"),
        ("10.0.0.0/1234", "prefix length out of range"),
        ("10.0.0.0/033", "bad bits after slash: \"033\""),
        ("10.0.0.0/", "bad bits after slash: \"\""),
        ("fe80::1%a/64", "IPv6 zones cannot be present in a prefix"),
    ] {
        let told = "network address parse error during conversion from string";
        let told = format!("{told}: {told}: netip.ParsePrefix(\"{text}\"): {why}");
        let asked = format!("cidr('{text}')");
        assert_eq!(costs(&asked).0, told, "{asked}");
    }
}
