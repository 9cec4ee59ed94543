//! Points in time, durations, URLs, named formats, and comprehensions with two variables.

use super::*;

#[test]
fn parts_of_times_have_the_values_and_the_cost_of_kubernetes() {
    const TIME: &str = "timestamp('2026-11-29T06:30:05.25+01:00')";
    for (call, value) in [
        ("getFullYear()", "2026"),
        ("getMonth()", "10"),
        ("getDate()", "29"),
        ("getDayOfMonth()", "28"),
        ("getDayOfWeek()", "0"),
        ("getDayOfYear()", "332"),
        ("getHours()", "5"),
        ("getMinutes()", "30"),
        ("getSeconds()", "5"),
        ("getMilliseconds()", "250"),
        ("getHours('-08:30')", "21"),
        ("getDate('-08:30')", "28"),
        ("getMinutes('00:45')", "15"),
        ("getHours('UTC')", "5"),
        (
            "getHours('Europe/Berlin')",
            "the time zone \"Europe/Berlin\" is not supported, only UTC and offsets such as '+01:00'",
        ),
        ("getHours('+25:00')", "invalid time zone offset \"+25:00\""),
        ("getHours('+01:60')", "invalid time zone offset \"+01:60\""),
    ] {
        assert_eq!(
            costs(&format!("{TIME}.{call}")),
            (value.to_owned(), 1),
            "{call}"
        );
    }
}

#[test]
fn times_and_durations_are_values_that_are_added_and_compared() {
    for (text, value, cost) in [
        ("duration('90m').getHours()", "1", 1),
        ("duration('-90m').getMinutes()", "-90", 1),
        ("duration('1m1.5s').getSeconds()", "61", 1),
        ("duration('1.5s').getMilliseconds()", "1500", 1),
        ("duration('1h').getDate()", "no such overload", 1),
        ("duration('1h').getHours('UTC')", "no such overload", 1),
        ("string(duration('1h30m0.5s'))", "5400.5s", 0),
        (
            "string(timestamp('2026-11-29T06:30:00+01:00') + duration('30m'))",
            "2026-11-29T07:00:00+01:00",
            2,
        ),
        (
            "string(duration('1s') + timestamp(0))",
            "1970-01-01T00:00:01Z",
            2,
        ),
        (
            "string(timestamp(60) - duration('1m'))",
            "1970-01-01T00:00:00Z",
            2,
        ),
        (
            "string(timestamp(90) - timestamp('1970-01-01T00:00:00Z'))",
            "90s",
            2,
        ),
        (
            "string(-duration('1m') - duration('1s') + duration('2s'))",
            "-59s",
            4,
        ),
        ("int(timestamp('1969-12-31T23:59:59.5Z'))", "-1", 0),
        (
            "timestamp(timestamp('1969-12-31T23:59:59Z')) < timestamp(0)",
            "true",
            1,
        ),
        ("duration(duration('60s')) >= duration('1m')", "true", 1),
        (
            "timestamp('2026-11-29T06:30:00+01:00') == timestamp('2026-11-29T05:30:00Z')",
            "true",
            1,
        ),
        ("timestamp(0) == dyn(duration('0'))", "false", 1),
        (
            "type(timestamp(0)) == google.protobuf.Timestamp && type(duration('1s')) == google.protobuf.Duration",
            "true",
            2,
        ),
        (
            "[duration('1s'), duration('3s'), duration('2s')].max() == duration('3s')",
            "true",
            4,
        ),
        ("string([duration('1s'), duration('3s')].sum())", "4s", 3),
        ("[timestamp(1), timestamp(2)].isSorted()", "true", 2),
        (
            "'%s %s'.format([timestamp(0), duration('1ms')])",
            "1970-01-01T00:00:00Z 0.001s",
            1,
        ),
        (
            "optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')).hasValue()",
            "false",
            2,
        ),
        (
            "optional.ofNonZeroValue(duration('0')).hasValue()",
            "false",
            2,
        ),
    ] {
        assert_eq!(costs(text), (value.to_owned(), cost), "{text}");
    }
}

#[test]
fn times_outside_of_their_range_are_errors() {
    for (text, value, cost) in [
        (
            "timestamp(253402300799) + duration('1s')",
            "timestamp overflow",
            1,
        ),
        (
            "duration('-2562047h') - duration('1h')",
            "duration overflow",
            1,
        ),
        (
            "timestamp(253402300799) - timestamp(-62135596800)",
            "duration overflow",
            1,
        ),
        ("timestamp(0) + timestamp(0)", "no such overload", 1),
        (
            "timestamp('' + '1970')",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
            2,
        ),
        (
            "duration('1' + 'd')",
            "type conversion error from 'string' to 'google.protobuf.Duration'",
            2,
        ),
        ("timestamp(-(62135596801))", "timestamp overflow", 2),
    ] {
        assert_eq!(costs(text), (value.to_owned(), cost), "{text}");
    }
}

#[test]
fn invalid_times_are_found_when_a_selector_is_compiled() {
    for (text, why) in [
        (
            "timestamp('2026-02-30T00:00:00Z') == timestamp(0)",
            "google.protobuf.Timestamp",
        ),
        (
            "duration('1 hour') == duration('1h')",
            "google.protobuf.Duration",
        ),
        (
            "timestamp(253402300800) == timestamp(0)",
            "timestamp overflow",
        ),
        (
            "int('a') == 1",
            "type conversion error from 'string' to 'int'",
        ),
    ] {
        assert!(
            Expression::compile(text).unwrap_err().contains(why),
            "{text}"
        );
    }
    let verdict = selects("timestamp(0)").unwrap_err();
    assert!(
        verdict.ends_with("type conversion error from 'Timestamp' to 'bool'"),
        "{verdict}"
    );
}

#[test]
fn urls_have_the_values_and_the_cost_of_kubernetes() {
    for (text, value, cost) in [
        ("url('https:://kubernetes.io/').getScheme()", "https", 4),
        ("url('https://[::1]:80/').getHost()", "[::1]:80", 3),
        ("url('https://[::1]:80/').getHostname()", "::1", 3),
        ("url('https://[::1]:80/').getPort()", "80", 3),
        (
            "url('/path with space').getEscapedPath()",
            "/path%20with%20space",
            3,
        ),
        ("url('/p?k=a&k=b&l').getQuery()['k']", "[a b]", 5),
        ("url('/p?k=a&k=b&l').getQuery().size()", "2", 4),
        (
            "url('https:://kubernetes.io/') == url('https:://kubernetes.io/')",
            "true",
            7,
        ),
        (
            "url('https:://kubernetes.io/') == url('http://x.b')",
            "false",
            5,
        ),
        ("url('/a') == 'a'", "no such overload", 2),
        (
            "isURL('https://user:pass@example.com:80/path?query=val#fragment')",
            "true",
            1,
        ),
        ("isURL('../relative-path')", "false", 1),
        (
            "url('https://a:b:c/')",
            "URL parse error during conversion from string: parse \"https://a:b:c/\": invalid port \":c\" after host",
            2,
        ),
        ("url(1)", "no such overload", 0),
        (
            "string(url('/a'))",
            "no such overload: string(kubernetes.URL)",
            2,
        ),
        ("url('/a')", "kubernetes.URL", 1),
    ] {
        assert_eq!(costs(text), (value.to_owned(), cost), "{text}");
    }
}

#[test]
fn named_formats_have_the_values_and_the_cost_of_kubernetes() {
    for (text, value, cost) in [
        ("format.named('dns1123subdomain').hasValue()", "false", 2),
        (
            "format.named('dns1123Subdomain').value().validate('my-name').hasValue()",
            "false",
            18,
        ),
        (
            "format.named('dns1123Label').value().validate('my-name').hasValue()",
            "false",
            11,
        ),
        (
            "format.named('dns1123Label').value() == format.dns1123Label()",
            "true",
            4,
        ),
        (
            "format.dns1123Label() == format.dns1123Subdomain()",
            "false",
            3,
        ),
        ("format.date() == 'date'", "no such overload", 2),
        (
            "format.byte().validate('aGVsbG8').value()",
            "[invalid base64]",
            23,
        ),
        ("format.date().validate(1)", "no such overload", 1),
        ("'a'.validate('b')", "no such overload", 0),
    ] {
        assert_eq!(costs(text), (value.to_owned(), cost), "{text}");
    }
}

#[test]
fn each_named_format_takes_good_texts_and_refuses_bad_ones() {
    for format in value::Format::ALL.map(value::Format::name) {
        let asked = format!("format.named('{format}').value() == format.{format}()");
        assert_eq!(selects(&asked), Ok(true), "{asked}");
    }
    let invalid = |format: &str, text: &str| {
        let asked = format!("format.{format}().validate('{text}').hasValue()");
        selects(&asked).unwrap_or_else(|error| panic!("{asked}: {error}"))
    };
    for (format, good, bad) in [
        (
            "dns1123Label",
            vec!["my-label-name"],
            vec!["a b", "a.b", ""],
        ),
        (
            "dns1123Subdomain",
            vec!["apiextensions.k8s.io"],
            vec!["a..b"],
        ),
        ("dns1035Label", vec!["my-label-name"], vec!["1-a", "a b"]),
        (
            "qualifiedName",
            vec!["apiextensions.k8s.io/v1beta1", "my.name"],
            vec!["a/b/c"],
        ),
        (
            "dns1123LabelPrefix",
            vec!["my-label-prefix-", "1-"],
            vec!["a b-", "-", "-a-"],
        ),
        (
            "dns1123SubdomainPrefix",
            vec!["mysubdomain.prefix.-"],
            vec!["a b-"],
        ),
        ("dns1035LabelPrefix", vec!["my-label-prefix-"], vec!["1a-"]),
        ("labelValue", vec!["my-cool-label-Value", ""], vec!["a!!b"]),
        (
            "uri",
            vec!["http://example.com", "/a"],
            vec!["a", "http://a:b"],
        ),
        (
            "uuid",
            vec![
                "123e4567-e89b-12d3-a456-426614174000",
                "123E4567e89b12d3a456-426614174000",
            ],
            vec![
                "123e4567-e89b-12d3-a456-42661417400",
                "123e4567--e89b-12d3-a456-426614174000",
                "123g4567-e89b-12d3-a456-426614174000",
                "123e4567-e89b-12d3-a456-4266141740000",
            ],
        ),
        (
            "byte",
            vec!["aGVsbG8=", "aA==", "aGVs"],
            vec!["aGVsbG8", "", "a===", "a=b="],
        ),
        (
            "date",
            vec!["2020-02-29"],
            vec!["2020-01-32", "2019-02-29", "2020-1-01"],
        ),
        (
            "datetime",
            vec![
                "2020-01-01T00:00:00Z",
                "2020-01-01t23:59:59.5+99:99",
                "2020-01-01T00:00:00,5z",
            ],
            vec![
                "2020-01-32T00:00:00Z",
                "2020-01-01T24:00:00Z",
                "2020-01-01T00:60:00Z",
                "2020-01-01T00:00:00",
                "2020-01-01",
                "2020-01-01T00:00:00.Z",
            ],
        ),
    ] {
        for text in good {
            assert!(!invalid(format, text), "{format} {text}");
        }
        for text in bad {
            assert!(invalid(format, text), "{format} {text}");
        }
    }
    let message = "format.labelValue().validate('!').value()[0].startsWith('a valid label must be an empty string or')";
    assert_eq!(selects(message), Ok(true));
    assert_eq!(
        Expression::compile("format.email().validate('a') == optional.none()").unwrap_err(),
        "undeclared reference to 'format'"
    );
}

/// The costs are those of Kubernetes' table, without the 10 or 30 units of a constant list or map.
#[test]
fn macros_with_two_variables_have_the_values_and_the_cost_of_kubernetes() {
    for (text, value, cost) in [
        ("{'a': 1, 'b': 2}.all(k, v, v > 0)", "true", 11),
        ("{'a': 1, 'b': 2}.exists(k, v, v > 0)", "true", 10),
        ("{'a': 1, 'b': 2}.existsOne(k, v, v > 0)", "false", 10),
        ("{'a': 1, 'b': 2}.exists_one(k, v, k == 'a')", "true", 8),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v + 1)['b']", "3", 13),
        (
            "{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)",
            "map",
            75 - 60,
        ),
        (
            "{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})",
            "map",
            131 - 60,
        ),
        (
            "{'a': 1, 'b': 2}.transformMapEntry(k, v, v < 5, {k: v + 1})",
            "map",
            135 - 60,
        ),
        ("[1, 2].all(i, v, v > 0)", "true", 11),
        ("[1, 2].exists(i, v, v > 0)", "true", 10),
        ("[1, 2].existsOne(i, v, v > 0)", "false", 10),
        ("[1, 2].transformList(i, v, i * 10 + v)", "[1 12]", 33),
        ("[1, 2, 3].transformList(i, v, i % 2 == 0, v)", "[1 3]", 36),
        ("[7, 8].transformMap(i, v, v)[1]", "8", 11),
        ("['x', 'y'].transformMapEntry(i, v, {v: i})['y']", "1", 71),
        (
            "{'h': ['hello', 'hi'], 'j': ['joke']}.all(k, all, all.all(v, v.startsWith(k)))",
            "true",
            29,
        ),
        (
            "['a', 'a'].transformMapEntry(i, v, {v: i}).size()",
            "insert failed: key a already exists",
            68,
        ),
        ("[1, 2].exists(i, v, 1 / i == 1)", "true", 13),
        ("[0, 1].all(i, v, 1 / v == 1 || i == 0)", "true", 14),
    ] {
        assert_eq!(costs(text), (value.to_owned(), cost), "{text}");
    }
    for (text, selected) in [
        (
            "device.attributes['gpu.example.com'].exists(name, value, name == 'model' && value == 'a100')",
            true,
        ),
        (
            "device.attributes.exists(domain, named, domain == 'rack.example.com' && named.row == '8')",
            false,
        ),
        (
            "device.attributes['none.example.com'].all(name, value, false)",
            true,
        ),
        (
            "device.attributes.transformList(domain, named, domain).size() == 2",
            true,
        ),
    ] {
        assert_eq!(selects(text), Ok(selected), "{text}");
    }
    for (text, why) in [
        ("[1].all(v, v, true)", "duplicate variable name: v"),
        ("[1].all(v, 1, true)", "argument must be a simple name"),
        ("[1].all(v.a, v, true)", "argument must be a simple name"),
        (
            "[1].transformMap(1, 2) == {}",
            "undeclared reference to 'transformMap'",
        ),
    ] {
        let error = Expression::compile(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    let error = selects("device.driver.all(i, v, true)").unwrap_err();
    assert!(
        error.starts_with("got 'string', expected iterable type"),
        "{error}"
    );
    let error = selects("[1].transformMapEntry(i, v, 1) == {}").unwrap_err();
    assert_eq!(&*error, "no such overload");
}

#[test]
fn a_value_or_a_list_includes_what_is_equal_to_it() {
    for (text, value, cost) in [
        ("[1, 2].includes(2)", "true", 1),
        ("[1, 2].includes(3)", "false", 1),
        ("device.driver.includes('gpu.example.com')", "true", 3),
        ("device.driver.includes(1)", "false", 3),
    ] {
        assert_eq!(costs(text), (value.to_owned(), cost), "{text}");
    }
}

#[test]
fn long_texts_and_maps_of_the_libraries_are_paid_for() {
    const TOO_MUCH: &str = "operation cancelled: actual cost limit exceeded";
    for asked in [
        "isURL('/' + big)",
        "url('/' + big) == url('/' + big)",
        "url('/?' + big.replace('1', '&a=b')).getQuery().size() == 1",
        "format.uri().validate('/' + big).hasValue()",
        "!format.named(big).hasValue()",
        "[1].includes(big)",
    ] {
        let found = selects(&with_big("1", &often(asked)));
        // A value of another type costs nothing.
        let expected = match asked {
            "[1].includes(big)" => Ok(false),
            _ => Err(TOO_MUCH.into()),
        };
        assert_eq!(found, expected, "{asked}");
    }
    // A map that grows is not copied for each entry.
    let grown = "lists.range(5000).transformMap(i, v, v).size() == 5000";
    assert_eq!(selects(grown), Ok(true));
    for text in [
        "lists.range(1000000).transformMap(i, v, v).size() > 0",
        "lists.range(2000).all(i, x, lists.range(2000).all(j, y, x + y >= 0))",
        "cel.bind(m, lists.range(5000).transformMap(i, v, v), lists.range(5000).transformMap(i, v, m == m).size() > 0)",
    ] {
        let verdict = compiled(text).evaluate(&gpu());
        assert_eq!(verdict.selects, Err(TOO_MUCH.into()), "{text}");
        assert!(verdict.cost <= 3 * MOST_COST, "{text}: {}", verdict.cost);
    }
    // Nested loops over constants are refused before anything is evaluated.
    let thousand = format!("[{}]", vec!["1"; 1000].join(","));
    let nested = format!("{thousand}.all(i, x, {thousand}.all(j, y, x + y + i + j >= 0))");
    assert_eq!(
        Expression::compile(&nested).unwrap_err(),
        "too complex, exceeds cost limit"
    );
}
