use super::meter::MOST_COST;
use super::*;

mod compared;
mod library;

fn gpu() -> Subject {
    let device = serde_json::json!({
        "name": "gpu-0",
        "attributes": {
            "model": { "string": "a100" }, "cores": { "int": 96 }, "nvlink": { "bool": true },
            "driverVersion": { "version": "550.54.15" }, "rack.example.com/row": { "string": "7" },
        },
        "capacity": { "memory": { "value": "40Gi" } },
    });
    Subject::new("gpu.example.com", &serde_json::from_value(device).unwrap()).unwrap()
}

fn compiled(text: &str) -> Expression {
    Expression::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn selects(text: &str) -> Result<bool, Arc<str>> {
    compiled(text).evaluate(&gpu()).selects
}

#[test]
fn selectors_select_the_same_devices_as_in_kubernetes() {
    for (text, selected) in [
        ("device.driver == 'gpu.example.com'", true),
        ("device.attributes['gpu.example.com'].model == 'a100'", true),
        ("device.attributes['gpu.example.com'].cores > 100", false),
        ("device.attributes['gpu.example.com'].nvlink", true),
        (
            "device.attributes['rack.example.com'].row.matches('^[0-9]$')",
            true,
        ),
        (
            "device.attributes['gpu.example.com'].model.startsWith('h')",
            false,
        ),
        (
            "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('550.0.0'))",
            true,
        ),
        (
            "device.attributes['gpu.example.com'].driverVersion.compareTo(semver('550.54.15')) == 0",
            true,
        ),
        (
            "device.attributes['gpu.example.com'].driverVersion.major() == 550",
            true,
        ),
        (
            "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0",
            true,
        ),
        (
            "device.capacity['gpu.example.com'].memory.isLessThan(quantity('40960Mi'))",
            false,
        ),
        (
            "device.capacity['gpu.example.com'].memory == quantity('40960Mi')",
            true,
        ),
        ("quantity('1k').add(1).asInteger() == 1001", true),
        ("isQuantity('10Gx') || isSemver('1.0')", false),
        // A domain without any attribute of the device.
        ("has(device.attributes['other.example.com'].model)", false),
        ("'model' in device.attributes['other.example.com']", false),
        ("'other.example.com' in device.attributes", false),
        ("'model' in device.attributes['gpu.example.com']", true),
        (
            "cel.bind(own, device.attributes['gpu.example.com'], own.nvlink && own.cores == 96)",
            true,
        ),
        ("device.allowMultipleAllocations", false),
        (
            "['a100', 'h100'].exists(model, model == device.attributes['gpu.example.com'].model)",
            true,
        ),
        (
            "device.attributes['gpu.example.com'].?model.orValue('') == 'a100'",
            true,
        ),
        (
            "device.attributes['gpu.example.com'].?none.hasValue()",
            false,
        ),
        (
            "device.attributes.exists(domain, domain == 'rack.example.com')",
            true,
        ),
        // One side decides although the other one fails, whichever comes first.
        ("device.attributes['x'].y == 1 || true", true),
        ("false && device.attributes['x'].y == 1", false),
        ("[1, 2, 0].exists(x, 4 / x == 2)", true),
        ("[0, 3].all(x, 4 / x == 2)", false),
        ("dyn('1.2.3') == semver('1.2.3')", false),
    ] {
        assert_eq!(selects(text), Ok(selected), "{text}");
    }
}

#[test]
fn an_invalid_selector_has_an_error_message() {
    for (text, told) in [
        (
            "device.attributes['other.example.com'].model == 'a100'",
            "no such key: model",
        ),
        (
            "device.driver",
            "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'",
        ),
        (
            "device.attributes['gpu.example.com'].?missing.orValue(1)",
            "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool",
        ),
        ("1 + 'a' == 1", "no such overload"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("1 / 0 == 0", "division by zero"),
        ("[1][1] == 0", "index out of bounds: 1"),
        (
            "device.driver.exists(x, true)",
            "got 'string', expected iterable type",
        ),
        (
            "quantity('many') == quantity('1')",
            "quantities must match the regular expression",
        ),
        (
            "semver('x') == semver('1.0.0')",
            "No Major.Minor.Patch elements found",
        ),
        (
            "semver('1.x.0') == semver('1.0.0')",
            "Invalid character(s) found in minor number \"x\"",
        ),
        (
            "semver('1.2.03') == semver('1.0.0')",
            "Patch number must not contain leading zeroes \"03\"",
        ),
        (
            "string(semver('1.2.3')) == '1.2.3'",
            "no such overload: string(kubernetes.Semver)",
        ),
        // Kubernetes' own types refuse to be compared with others, from the left side only.
        ("semver('1.2.3') == dyn('1.2.3')", "no such overload"),
        (
            "ip('x').family() == 4",
            "IP Address \"x\" parse error during conversion from string: ParseAddr(\"x\"): unable to parse IP",
        ),
    ] {
        let wrong = selects(text).unwrap_err();
        assert!(wrong.starts_with(told), "{text}: {wrong}");
    }
    for (text, told) in [
        ("device.driver ==", ""),
        ("gpu.model == 'a100'", "undeclared reference to 'gpu'"),
        (
            "device.driver.upper() == 'A'",
            "undeclared reference to 'upper'",
        ),
        (
            "device.driver.startsWith() == 'A'",
            "found no matching overload for 'startsWith'",
        ),
        ("'a'.matches('(')", "error parsing regexp: "),
    ] {
        let wrong = Expression::compile(text).unwrap_err();
        assert!(wrong.contains(told), "{text}: {wrong}");
    }
    let long = format!("true || 'a' == '{}'", "a".repeat(LONGEST));
    assert!(
        Expression::compile(&long)
            .unwrap_err()
            .contains("10240 bytes")
    );
    let device = serde_json::json!({ "attributes": { "v": { "version": "1.x" } } });
    let device = serde_json::from_value(device).unwrap();
    let error = Subject::new("d", &device).unwrap_err();
    assert!(
        error.starts_with("attribute v: \"1.x\" is no semantic version"),
        "{error}"
    );
}

/// The result and cost of an expression of any type.
fn costs(text: &str) -> (String, u64) {
    let expression = compiled(text);
    let device = gpu();
    let mut evaluation = Evaluation::of(device.value());
    let value = match evaluation.value(&expression.node) {
        Ok(Value::Text(value)) => value.to_string(),
        Ok(Value::Bool(value)) => value.to_string(),
        Ok(Value::Int(value)) => value.to_string(),
        Ok(Value::UInt(value)) => format!("{value}u"),
        Ok(Value::Double(value)) => format!("{value:?}"),
        Ok(Value::List(list)) => {
            let shown = list.iter().map(|element| match element {
                Value::Text(value) => value.to_string(),
                Value::Int(value) => value.to_string(),
                other => other.type_name().to_owned(),
            });
            format!("[{}]", shown.collect::<Vec<_>>().join(" "))
        }
        Ok(other) => other.type_name().to_owned(),
        Err(fault) => fault.message().to_owned(),
    };
    (value, evaluation.meter.spent())
}

#[test]
fn every_step_has_the_cost_of_kubernetes() {
    for (text, value, cost) in [
        ("'text'", "text", 0),
        ("device.driver", "gpu.example.com", 2),
        ("device.attributes['gpu.example.com'].model", "a100", 4),
        ("device.attributes['gpu.' + 'example.com'].model", "a100", 6),
        ("has(device.attributes['gpu.example.com'].model)", "true", 3),
        ("'a' in device.attributes", "false", 3),
        ("device.driver == 'gpu.example.com'", "true", 4),
        ("device.driver == ''", "false", 2),
        ("device.attributes['gpu.example.com'].cores > 0", "true", 5),
        (
            "device.attributes['gpu.example.com'].cores in [1, 96]",
            "true",
            4,
        ),
        (
            "cel.bind(own, device.attributes['gpu.example.com'], own.nvlink)",
            "true",
            5,
        ),
        (
            "device.capacity['gpu.example.com'].memory.isLessThan(quantity('80Gi'))",
            "true",
            6,
        ),
        // Constants are put together beforehand.
        ("[1, 2, 3]", "[1 2 3]", 0),
        ("[1, 2, 3].all(x, true)", "true", 10),
        ("[1, 2, 3, 4, 5].filter(x, x % 2 == 0)", "[2 4]", 42),
        ("[1, 2, 3, 4, 5].map(x, x)", "[1 2 3 4 5]", 66),
        ("[1, 2, 3].exists(x, x == 3)", "true", 19),
        ("[1, 2, 3].exists_one(x, x == 3)", "true", 10),
        ("[device.driver]", "[gpu.example.com]", 12),
        ("{'a': device.driver}", "map", 32),
        ("true ? device : device", "map", 0),
        ("(true ? device : device).driver", "gpu.example.com", 1),
        ("true || false", "true", 0),
        ("!(1 > 2) && 2 > 1", "true", 3),
        ("-(1) == -1", "true", 2),
    ] {
        assert_eq!(costs(text), (value.to_owned(), cost), "{text}");
    }
}

#[test]
fn every_function_has_the_cost_of_kubernetes() {
    for (text, value, cost) in [
        ("size('123')", "3", 1),
        ("[1, 2].size()", "2", 1),
        ("type(-(1)) == int", "true", 3),
        ("dyn(-(1))", "-1", 2),
        ("bool('tr' + 'ue')", "true", 2),
        ("int('1' + '2')", "12", 2),
        ("uint(-(-12))", "12u", 2),
        ("double('1.' + '5')", "1.5", 2),
        ("string(-(-12))", "12", 2),
        ("string(b'' + b'0123456789012')", "0123456789012", 4),
        ("bytes('' + '0123456789012')", "bytes", 4),
        // Constants are converted beforehand.
        ("type(1) == int", "true", 1),
        ("int('12') + int(duration('12ns'))", "24", 1),
        ("dyn(string(bytes('0123456789012')))", "0123456789012", 0),
        ("1 + 2 * 3 - 4 / 2 % 3", "5", 5),
        ("'0123456789' + '0123456789'", "01234567890123456789", 2),
        ("[1] + [2]", "[1 2]", 1),
        ("'0123456789012'.contains('0123456789012')", "true", 4),
        ("'0123456789012'.startsWith('0')", "true", 2),
        ("'0123456789012'.endsWith('2')", "true", 2),
        ("'012345678901'.matches('[0-9]+')", "true", 4),
        ("matches('a', 'a')", "true", 1),
        ("'012345678901'.find('[3-9]+')", "3456789", 4),
        ("'a1b22'.findAll('[0-9]+')", "[1 22]", 2),
        ("'a1b22'.findAll('[0-9]+', 1)", "[1]", 2),
        ("'äbc'.charAt(1)", "b", 1),
        ("'0123456789012'.indexOf('12')", "1", 1),
        ("'0123456789012'.lastIndexOf('12')", "11", 1),
        ("['a', 'b', 'a'].lastIndexOf('a')", "2", 0),
        ("[4, 5, 4].indexOf(4)", "0", 3),
        ("'ABCDEFGHIJKLM'.lowerAscii()", "abcdefghijklm", 2),
        ("'abcdefghijklm'.upperAscii()", "ABCDEFGHIJKLM", 2),
        ("'  a b '.trim()", "a b", 1),
        ("'0123456789012'.substring(10)", "012", 2),
        ("'0123456789012'.substring(1, 3)", "12", 2),
        (
            "'0123456789012'.replace('1', 'x')",
            "0x23456789 0x2".replace(' ', "").as_str(),
            3,
        ),
        ("'aaa'.replace('a', 'b', 2)", "bba", 1),
        ("'a,b,c'.split(',')", "[a b c]", 1),
        ("'a,b,c'.split(',', 2)", "[a b,c]", 1),
        ("'abc'.split('')", "[a b c]", 1),
        (
            "['0123456789', '0123456789'].join('-')",
            "0123456789-0123456789",
            5,
        ),
        (
            "'%s has %d, %.2f, %x'.format(['a', 2, 1.5, 255])",
            "a has 2, 1.50, ff",
            2,
        ),
        (
            "'%s %x %X %f'.format([[1, {'a': true}], -255, 'az', 2.0])",
            "[1, {\"a\":true}] -ff 617A 2.000000",
            2,
        ),
        ("'abc'.indexOf('c', 5)", "-1", 0),
        ("'abc'.indexOf('', 5)", "5", 0),
        ("'abca'.lastIndexOf('a', 2)", "0", 0),
        ("strings.quote('a\"b')", "\"a\\\"b\"", 1),
    ] {
        assert_eq!(costs(text), (value.to_owned(), cost), "{text}");
    }
}

#[test]
fn functions_of_lists_and_of_kubernetes_have_the_cost_of_kubernetes() {
    for (text, value, cost) in [
        ("[1, 2, 2].isSorted()", "true", 3),
        ("[3, 1, 2].min()", "1", 3),
        ("[3, 1, 2].max()", "3", 3),
        ("[3, 1, 2].sum()", "6", 3),
        ("['012345678901', '012345678901'].max()", "012345678901", 2),
        ("[1, 2, 3].slice(1, 3)", "[2 3]", 13),
        ("[[1], [2, 3]].flatten()", "[1 2 3]", 13),
        ("[1, 2, 1].distinct()", "[1 2]", 29),
        ("[1, 2, 3].reverse()", "[3 2 1]", 14),
        ("[3, 1].sort()", "[1 3]", 19),
        ("lists.range(3)", "[0 1 2]", 14),
        ("sets.contains([1, 2], [2])", "true", 3),
        ("sets.intersects([1, 2], [3])", "false", 3),
        ("sets.equivalent([1, 2], [2, 1])", "true", 9),
        ("optional.of(1).value()", "1", 2),
        ("optional.none().orValue(2)", "2", 1),
        ("optional.of(1).or(optional.of(2)).value()", "1", 2),
        ("optional.ofNonZeroValue(0).hasValue()", "false", 2),
        ("[1, 2].first().value()", "1", 2),
        ("[1, 2].last().value()", "2", 2),
        ("[optional.of(1), optional.none()].unwrapOpt()", "[1]", 13),
        (
            "optional.unwrap([optional.of(1), optional.none()])",
            "[1]",
            13,
        ),
        ("device.?driver.hasValue()", "true", 3),
        ("device.attributes[?'x'].hasValue()", "true", 4),
        ("quantity('1Ki').asInteger()", "1024", 2),
        ("quantity('1.5').isInteger()", "false", 2),
        ("quantity('-1').sign()", "-1", 2),
        ("quantity('1500m').asApproximateFloat()", "1.5", 2),
        (
            "quantity('1Ki').add(quantity('1Ki')).asInteger()",
            "2048",
            4,
        ),
        ("quantity('1Ki').sub(24).asInteger()", "1000", 3),
        ("quantity('1').isGreaterThan(quantity('0'))", "true", 3),
        ("quantity('1').compareTo(quantity('2'))", "-1", 3),
        ("isQuantity('1')", "true", 1),
        ("semver('v01.2', true).compareTo(semver('1.2.0'))", "0", 3),
        ("isSemver('1.2-rc.1', true)", "false", 1),
        ("ip('192.168.0.1').family()", "4", 3),
        (
            "ip('2001:db8:3333:4444:5555:6666:7777:8888').family()",
            "6",
            5,
        ),
        ("ip('192.168.0.1') == ip('192.168.0.1')", "true", 5),
        ("ip('2001:db8::1') == ip('2001:db8::1')", "true", 5),
        ("ip('2001:db8::1') != ip('2001:db8::1')", "false", 6),
        ("string(ip('::1'))", "::1", 2),
        ("isIP('::ffff:1.2.3.4')", "false", 2),
        ("ip.isCanonical('2001:DB8::abcd')", "false", 3),
        ("ip('0.0.0.0').isUnspecified()", "true", 2),
        ("ip('127.0.0.1').isLoopback()", "true", 2),
        ("ip('224.0.0.1').isLinkLocalMulticast()", "true", 2),
        ("ip('fe80::1').isLinkLocalUnicast()", "true", 2),
        ("ip('10.0.0.1').isGlobalUnicast()", "true", 2),
        ("isCIDR('10.0.0.0/33')", "false", 2),
        ("string(cidr('10.1.2.3/9').masked())", "10.0.0.0/9", 3),
        ("cidr('10.1.2.3/8').prefixLength()", "8", 2),
        ("cidr('10.1.2.3/8').ip() == ip('10.1.2.3')", "true", 4),
        (
            "cidr('192.168.0.0/16').containsIP(ip('192.0.0.1'))",
            "false",
            4,
        ),
        (
            "cidr('192.168.0.0/16').containsIP('192.168.7.1')",
            "true",
            5,
        ),
        (
            "cidr('192.168.0.0/16').containsCIDR(cidr('192.168.0.0/30'))",
            "true",
            7,
        ),
        (
            "cidr('192.168.0.0/16').containsCIDR('192.0.0.0/8')",
            "false",
            7,
        ),
        ("isSemver('1.0.0-alpha.1.2')", "true", 2),
        ("semver('1.2.3').minor() + semver('1.2.3').patch()", "5", 5),
    ] {
        assert_eq!(costs(text), (value.to_owned(), cost), "{text}");
    }
}

#[test]
fn every_function_has_a_row_in_the_table_of_costs() {
    let table = [include_str!("tests.rs"), include_str!("tests/library.rs")].concat();
    // Each format has its row in a table of its own.
    let names = functions::names().filter(|name| !name.starts_with("format."));
    for name in names.filter(|name| !name.contains('_') && !name.contains('@')) {
        assert!(table.contains(&format!("{name}(")), "{name}");
    }
}

#[test]
fn an_expensive_expression_is_rejected_or_stopped() {
    let thousand = format!("[{}]", vec!["1"; 1000].join(","));
    let nested = format!("{thousand}.all(x, {thousand}.all(y, {thousand}.all(z, x + y + z == 3)))");
    assert_eq!(
        Expression::compile(&nested).unwrap_err(),
        "too complex, exceeds cost limit"
    );
    // The sizes of these are unknown before the evaluation.
    let ten_times = |name: &str| [name; 10].join(" + ");
    let large_list = format!(
        "cel.bind(a, lists.range(1000), cel.bind(b, {}, cel.bind(c, {}, cel.bind(d, {}, [d, d] == [d, d]))))",
        ten_times("a"),
        ten_times("b"),
        ten_times("c"),
    );
    let large_text = "lists.range(60000).map(x, '0123456789').join('')";
    for text in [
        large_list.clone(),
        large_list.replace("[d, d] == [d, d]", "5 in d"),
        large_list.replace("[d, d] == [d, d]", "d.all(x, true)"),
        large_list.replace("[d, d] == [d, d]", "d.reverse().reverse().size() == 1"),
        format!("{large_text}.replace('1', '{}').size() > 0", "x".repeat(1000)),
        format!("cel.bind(t, {large_text}, ({}).size() > 0)", ten_times("t")),
        format!("{large_text}.split('').size() > 0"),
        format!("{large_text}.matches({large_text})"),
        format!("cel.bind(t, {large_text}, lists.range(9000).all(x, t.charAt(599999) == '9'))"),
        "lists.range(1000000000).size() > 0".to_owned(),
        "lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))".to_owned(),
        "lists.range(2000).distinct().size() > 0".to_owned(),
        "lists.range(1000).all(x, true) && sets.contains(lists.range(2000), lists.range(2000))".to_owned(),
        "'a'.matches('(' + 'a{1000}' + ')*')  && lists.range(300).all(x, !'a'.matches('[a-f0-9]{1000}' + 'a'))".to_owned(),
    ] {
        let verdict = compiled(&text).evaluate(&gpu());
        let told = "operation cancelled: actual cost limit exceeded";
        assert_eq!(verdict.selects, Err(told.into()), "{text}");
        assert!(verdict.cost <= 3 * MOST_COST, "{text}: {}", verdict.cost);
    }
}

#[test]
fn long_results_need_no_pass_for_each_step() {
    let text = "lists.range(20000).map(x, x).filter(x, x % 2 == 0).size() == 10000";
    let verdict = compiled(text).evaluate(&gpu());
    assert_eq!(verdict.selects, Ok(true));
    assert!(verdict.cost < MOST_COST, "{}", verdict.cost);
}

/// An expression in which `big` is a string of a million characters.
fn with_big(part: &str, body: &str) -> String {
    let text = part.repeat(100);
    format!(
        "cel.bind(s, '{text}', cel.bind(m, s.replace('{part}', s), cel.bind(big, m.replace('{part}', s), {body})))"
    )
}

/// Evaluates the same expression ten thousand times.
fn often(asked: &str) -> String {
    let list = format!("[{}]", ["1"; 100].join(","));
    format!("{list}.all(i, {list}.all(j, {asked}))")
}

#[test]
fn long_strings_and_lists_cause_no_uncharged_work() {
    const TOO_MUCH: &str = "operation cancelled: actual cost limit exceeded";
    for asked in [
        "{big: true}[big]",
        "big in {big: 1}",
        "double(big) > 0.0",
        "int('0' + big.replace('1', '0')) == 0",
        "semver('1.0.0-' + big) == semver('1.0.0-' + big)",
    ] {
        let found = selects(&with_big("1", &often(asked)));
        assert_eq!(found, Err(TOO_MUCH.into()), "{asked}");
    }
    // Beside a short text or a number no more of a long one is looked at.
    for asked in ["big != 'a'", "'a' < big", "dyn(big) != 1"] {
        assert_eq!(selects(&with_big("ä", &often(asked))), Ok(true), "{asked}");
    }
    // Compares a version that is built once.
    let compared = often("v.compareTo(v) == 0");
    let versions = format!("cel.bind(v, semver('1.0.0-' + big), {compared})");
    assert_eq!(selects(&with_big("1", &versions)), Err(TOO_MUCH.into()));
    // Each search for the next match reads the string to its end.
    let text = "A".repeat(9000);
    let quadratic = format!("'{text}'.findAll('.*[^A-Z]|[A-Z]').size() == 9000");
    assert_eq!(selects(&quadratic), Err(TOO_MUCH.into()));
    let honest = "'gpu-0, gpu-1'.findAll('gpu-[0-9]').size() == 2";
    assert_eq!(selects(honest), Ok(true));
    // A list of 60^9 elements costs nothing until it is used.
    let mut endless = "sets.intersects(x9, [])".to_owned();
    for level in (1..=9).rev() {
        let sum = vec![format!("x{}", level - 1); 60].join(" + ");
        endless = format!("cel.bind(x{level}, {sum}, {endless})");
    }
    let endless = format!("cel.bind(x0, [1], {endless})");
    assert_eq!(selects(&endless), Ok(false));
    // Stored error messages are short.
    let error = selects(&with_big("1", "{'a': true}[big]")).unwrap_err();
    assert!(error.starts_with("no such key: 111") && error.len() < 300);
}

#[test]
fn last_index_of_finds_the_last_match_before_any_suffix() {
    for (text, found) in [
        ("'bä'.lastIndexOf('b', 1)", 0),
        ("'äöäö'.lastIndexOf('äö', 2)", 2),
        ("'äöäö'.lastIndexOf('äö', 1)", 0),
        ("'abc'.lastIndexOf('bc', 3)", -1),
    ] {
        assert_eq!(selects(&format!("{text} == {found}")), Ok(true), "{text}");
    }
}
