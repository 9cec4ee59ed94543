//! Selectors of devices in the Common Expression Language, with the variable `device` as Kubernetes defines it.

use crate::depth::excess;
use crate::values::{Amount, Domain, Domains, Release, declare};
use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue};
use cel::common::traits::Indexer;
use cel::common::types::{CelBool, CelInt, CelString, MAP_TYPE, Type};
use cel::common::value::{CowVal, Val};
use cel::parser::{Macro, MacroExprHelper};
use cel::{Context, DeclarationError, Env, ExecutionError, Value, extensions};
use evictd_pod::wire::{Device, DeviceAttribute};
use semver::Version;
use std::sync::{Arc, LazyLock};

static ENVIRONMENT: LazyLock<Result<Arc<Env>, String>> = LazyLock::new(|| {
    let env = environment().map(Arc::new);
    env.map_err(|error| error.to_string())
});

fn environment() -> Result<Env, DeclarationError> {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings)?;
    env.add_extension(extensions::lists)?;
    env.add_extension(declare)?;
    env.add_macro(Macro::receiver("bind", 3, |helper, target, args| {
        Ok(bind(helper, target.as_ref(), args))
    }))?;
    Ok(env)
}

/// `cel.bind(name, value, expression)`: the expression with that value under that name. As the language's own library does
/// it, it is a walk over nothing that begins with the value.
fn bind(
    helper: &mut MacroExprHelper<'_>,
    target: Option<&IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> Option<IdedExpr> {
    let of_cel =
        target.is_some_and(|target| matches!(&target.expr, Expr::Ident(name) if name == "cel"));
    let name = match args.first().map(|name| &name.expr) {
        Some(Expr::Ident(name)) if of_cel => name.clone(),
        _ => return None,
    };
    let (result, value) = (args.pop()?, args.pop()?);
    let never = LiteralValue::Boolean(false.into());
    let walk = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: value,
        loop_cond: helper.next_expr(Expr::Literal(never)),
        loop_step: helper.next_expr(Expr::Ident(name)),
        result,
    };
    Some(helper.next_expr(Expr::Comprehension(Box::new(walk))))
}

/// A selector, ready to be asked about devices.
pub(crate) struct Expression(IdedExpr);

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Expression")
    }
}

impl Expression {
    /// # Errors
    /// Why it cannot be read, in one line.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let env = ENVIRONMENT.as_ref().map_err(Clone::clone)?;
        if let Some(excess) = excess(text) {
            return Err(excess);
        }
        env.parser().parse(text).map(Self).map_err(|errors| {
            let errors = errors.errors.iter().map(|error| error.msg.trim());
            errors.collect::<Vec<_>>().join("; ")
        })
    }

    /// Whether it selects the device.
    ///
    /// # Errors
    /// What fails while it is evaluated, as where it asks for an attribute that the device does not have.
    pub(crate) fn matches(&self, device: &Subject) -> Result<bool, String> {
        let env = ENVIRONMENT.as_ref().map_err(Clone::clone)?;
        let mut context = Context::with_env(Arc::clone(env));
        context.add_variable_as_val("device", device.clone_as_boxed());
        match Value::resolve(&self.0, &context) {
            Ok(Value::Bool(selected)) => Ok(selected),
            Ok(other) => Err(format!("it is {other:?}, neither true nor false")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A device as an expression sees it.
#[derive(Debug, Clone)]
pub(crate) struct Subject(Arc<Fields>);

#[derive(Debug)]
struct Fields {
    driver: CelString<'static>,
    /// Never: a device is one claim's alone.
    shared: CelBool,
    attributes: Domains,
    capacity: Domains,
}

impl Subject {
    /// # Errors
    /// An attribute without a value that is understood.
    pub(crate) fn new(driver: &str, device: &Device) -> Result<Self, String> {
        let mut attributes = Domains::default();
        for (name, attribute) in &device.attributes {
            let value = value(attribute).map_err(|error| format!("attribute {name}: {error}"))?;
            put(&mut attributes, driver, name, value);
        }
        let mut capacity = Domains::default();
        for (name, amount) in &device.capacity {
            put(&mut capacity, driver, name, Box::new(Amount(amount.value)));
        }
        Ok(Self(Arc::new(Fields {
            driver: CelString::from(driver.to_owned()),
            shared: CelBool::from(false),
            attributes,
            capacity,
        })))
    }
}

/// A name without a domain is in the driver's.
fn put(domains: &mut Domains, driver: &str, name: &str, value: Box<dyn Val>) {
    let (domain, name) = name.split_once('/').unwrap_or((driver, name));
    let Domain(named) = domains.0.entry(domain.to_owned()).or_default();
    named.insert(name.to_owned(), value);
}

fn value(attribute: &DeviceAttribute) -> Result<Box<dyn Val>, String> {
    Ok(match attribute {
        DeviceAttribute {
            int: Some(number), ..
        } => Box::new(CelInt::from(*number)),
        DeviceAttribute {
            bool: Some(answer), ..
        } => Box::new(CelBool::from(*answer)),
        DeviceAttribute {
            string: Some(text), ..
        } => Box::new(CelString::from(text.clone())),
        DeviceAttribute {
            version: Some(version),
            ..
        } => Box::new(Release(Version::parse(version).map_err(|error| {
            format!("{version:?} is no semantic version: {error}")
        })?)),
        _ => return Err("unsupported attribute value".to_owned()),
    })
}

impl Indexer for Subject {
    fn get<'b, 'v>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let fields = &self.0;
        match key.downcast_ref::<CelString<'_>>().map(CelString::inner) {
            Some("driver") => Ok(CowVal::Borrowed(&fields.driver)),
            Some("attributes") => Ok(CowVal::Borrowed(&fields.attributes)),
            Some("capacity") => Ok(CowVal::Borrowed(&fields.capacity)),
            Some("allowMultipleAllocations") => Ok(CowVal::Borrowed(&fields.shared)),
            Some(other) => Err(ExecutionError::no_such_key(other)),
            None => Err(ExecutionError::no_such_key("device")),
        }
    }

    fn steal<'v>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.get(key).map(CowVal::into_owned)
    }
}

impl Val for Subject {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn selectors_say_of_a_device_what_they_say_in_kubernetes() {
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
            // Of a domain that it has nothing of.
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
        ] {
            let expression =
                Expression::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(expression.matches(&gpu()), Ok(selected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_selector_is_told() {
        let wrong = |text: &str| {
            Expression::compile(text)
                .unwrap()
                .matches(&gpu())
                .unwrap_err()
        };
        assert_eq!(
            wrong("device.attributes['other.example.com'].model == 'a100'"),
            "No such key: model"
        );
        assert!(wrong("device.driver").contains("neither true nor false"));
        assert!(Expression::compile("device.driver ==").is_err());
        let device = serde_json::json!({ "attributes": { "v": { "version": "1.x" } } });
        let device = serde_json::from_value(device).unwrap();
        let error = Subject::new("d", &device).unwrap_err();
        assert!(
            error.starts_with("attribute v: \"1.x\" is no semantic version"),
            "{error}"
        );
    }
}
