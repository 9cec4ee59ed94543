//! The values that selectors of devices know beside those of the language itself: quantities, versions, and what a device
//! has by domain and name.

use cel::common::traits::{Container, Indexer};
use cel::common::types::{CelBool, CelDouble, CelInt, CelString, MAP_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use evictd_pod::Quantity;
use semver::Version;
use std::any::Any;
use std::cmp::Ordering;
use std::collections::BTreeMap;

static QUANTITY: Type = Type::new_unspecified_type("kubernetes.Quantity");
static SEMVER: Type = Type::new_unspecified_type("kubernetes.Semver");

/// An amount: `quantity("10Gi")`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount(pub(crate) Quantity);

/// A version by semver.org: `semver("1.2.3")`.
#[derive(Debug, Clone)]
pub(crate) struct Release(pub(crate) Version);

macro_rules! plain_value {
    ($name:ident, $type:ident, $equals:expr) => {
        impl Val for $name {
            fn get_type(&self) -> &Type {
                &$type
            }

            fn cel_type() -> &'static Type {
                &$type
            }

            fn equals(&self, other: &dyn Val) -> bool {
                let equals: fn(&Self, &Self) -> bool = $equals;
                other
                    .downcast_ref::<Self>()
                    .is_some_and(|other| equals(self, other))
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn Any> {
                Some(self)
            }
        }

        impl StaticVal for $name {}
    };
}

plain_value!(Amount, QUANTITY, |one, other| one.0 == other.0);
plain_value!(Release, SEMVER, |one, other| one.0.cmp_precedence(&other.0)
    == Ordering::Equal);

/// What a device has by the name within one domain.
pub(crate) type Named = BTreeMap<String, Box<dyn Val>>;

/// What a device has, by domain. A domain that it has nothing of is empty, not an error: only what is asked for in it is.
#[derive(Debug, Default)]
pub(crate) struct Domains(pub(crate) BTreeMap<String, Domain>);

/// What a device has in one domain.
#[derive(Debug, Default)]
pub(crate) struct Domain(pub(crate) Named);

static NOTHING: Domain = Domain(BTreeMap::new());

impl Clone for Domain {
    fn clone(&self) -> Self {
        let items = self.0.iter();
        Self(
            items
                .map(|(name, value)| (name.clone(), value.clone_as_boxed()))
                .collect(),
        )
    }
}

fn text(key: &dyn Val) -> Result<&str, ExecutionError> {
    let text = key.downcast_ref::<CelString<'_>>();
    text.map(CelString::inner)
        .ok_or_else(|| ExecutionError::UnexpectedType {
            got: key.get_type().name().to_owned(),
            want: "string".to_owned(),
        })
}

macro_rules! map_value {
    ($name:ident, $self:ident, $key:ident, $get:expr) => {
        impl Indexer for $name {
            fn get<'b, 'v>(&'b $self, key: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
            where
                Self: 'v,
            {
                let $key = text(key)?;
                $get
            }

            fn steal<'v>(
                self: Box<Self>,
                key: &dyn Val,
            ) -> Result<Box<dyn Val + 'v>, ExecutionError>
            where
                Self: 'v,
            {
                self.get(key).map(CowVal::into_owned)
            }
        }

        impl Container for $name {
            fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
                Ok(self.0.contains_key(text(key)?))
            }
        }

        impl Val for $name {
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

            fn as_container(&self) -> Option<&dyn Container> {
                Some(self)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
                Box::new(self.clone())
            }
        }
    };
}

impl Clone for Domains {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

map_value!(
    Domains,
    self,
    key,
    Ok(CowVal::Borrowed(self.0.get(key).unwrap_or(&NOTHING)))
);
map_value!(Domain, self, key, {
    let found = self
        .0
        .get(key)
        .ok_or_else(|| ExecutionError::no_such_key(key))?;
    Ok(CowVal::Borrowed(&**found))
});

/// Whether an expression may say `quantity(text)`, and what comes of it.
fn quantity(text: &CelString<'_>) -> Result<Amount, ExecutionError> {
    let parsed = text.inner().parse().map(Amount);
    parsed.map_err(|error| failed("quantity", format!("{:?}: {error}", text.inner())))
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    text.inner().parse::<Quantity>().is_ok().into()
}

fn semver(text: &CelString<'_>) -> Result<Release, ExecutionError> {
    let parsed = Version::parse(text.inner()).map(Release);
    parsed.map_err(|error| failed("semver", format!("{:?}: {error}", text.inner())))
}

fn is_semver(text: &CelString<'_>) -> CelBool {
    Version::parse(text.inner()).is_ok().into()
}

fn failed(function: &str, message: String) -> ExecutionError {
    ExecutionError::function_error(function, message)
}

/// Values in an order, the same functions for each kind.
trait Compared {
    fn order(&self, other: &Self) -> Ordering;
}

impl Compared for Amount {
    fn order(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Compared for Release {
    fn order(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }
}

fn is_greater_than<T: Compared>(one: &T, other: &T) -> CelBool {
    one.order(other).is_gt().into()
}

fn is_less_than<T: Compared>(one: &T, other: &T) -> CelBool {
    one.order(other).is_lt().into()
}

fn compare_to<T: Compared>(one: &T, other: &T) -> CelInt {
    CelInt::from(one.order(other) as i64)
}

fn sign(own: &Amount) -> CelInt {
    CelInt::from(own.0.cmp(&Quantity::count(0)) as i64)
}

/// The amount as a whole number, if it is one.
fn whole(own: &Amount) -> Option<i64> {
    let value = own.0.value();
    (Quantity::count(value) == own.0).then_some(value)
}

fn is_integer(own: &Amount) -> CelBool {
    whole(own).is_some().into()
}

fn as_integer(own: &Amount) -> Result<CelInt, ExecutionError> {
    let whole = whole(own).map(CelInt::from);
    whole.ok_or_else(|| failed("asInteger", format!("{} is no integer", own.0)))
}

#[allow(
    clippy::cast_precision_loss,
    reason = "it is asked for an approximation"
)]
fn as_approximate_float(own: &Amount) -> CelDouble {
    CelDouble::from(own.0.nano_value() as f64 / 1e9)
}

fn add(own: &Amount, other: &Amount) -> Amount {
    Amount(own.0 + other.0)
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the environment hands references over"
)]
fn add_int(own: &Amount, other: &CelInt) -> Amount {
    Amount(own.0 + Quantity::count(*other.inner()))
}

fn sub(own: &Amount, other: &Amount) -> Amount {
    Amount(own.0 - other.0)
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the environment hands references over"
)]
fn sub_int(own: &Amount, other: &CelInt) -> Amount {
    Amount(own.0 - Quantity::count(*other.inner()))
}

fn part(number: u64) -> CelInt {
    CelInt::from(i64::try_from(number).unwrap_or(i64::MAX))
}

fn major(own: &Release) -> CelInt {
    part(own.0.major)
}

fn minor(own: &Release) -> CelInt {
    part(own.0.minor)
}

fn patch(own: &Release) -> CelInt {
    part(own.0.patch)
}

/// Declares the functions of quantities and versions as Kubernetes has them.
pub(crate) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(QUANTITY.to_owned())?;
    env.add_type(SEMVER.to_owned())?;
    cel::add_overload!(env, fn quantity: (CelString<'_>) -> Result<Amount>)?;
    cel::add_overload!(env, fn is_quantity: (CelString<'_>) -> CelBool)?;
    cel::add_overload!(env, fn semver: (CelString<'_>) -> Result<Release>)?;
    cel::add_overload!(env, fn is_semver: (CelString<'_>) -> CelBool)?;
    cel::add_member_overload!(env, fn is_greater_than: (Amount, Amount) -> CelBool)?;
    cel::add_member_overload!(env, fn is_less_than: (Amount, Amount) -> CelBool)?;
    cel::add_member_overload!(env, fn compare_to: (Amount, Amount) -> CelInt)?;
    cel::add_member_overload!(env, fn is_greater_than: (Release, Release) -> CelBool)?;
    cel::add_member_overload!(env, fn is_less_than: (Release, Release) -> CelBool)?;
    cel::add_member_overload!(env, fn compare_to: (Release, Release) -> CelInt)?;
    cel::add_member_overload!(env, fn sign: (Amount) -> CelInt)?;
    cel::add_member_overload!(env, fn is_integer: (Amount) -> CelBool)?;
    cel::add_member_overload!(env, fn as_integer: (Amount) -> Result<CelInt>)?;
    cel::add_member_overload!(env, fn as_approximate_float: (Amount) -> CelDouble)?;
    cel::add_member_overload!(env, fn add: (Amount, Amount) -> Amount)?;
    cel::add_member_overload!(env, fn add_int: (Amount, CelInt) -> Amount, name = "add")?;
    cel::add_member_overload!(env, fn sub: (Amount, Amount) -> Amount)?;
    cel::add_member_overload!(env, fn sub_int: (Amount, CelInt) -> Amount, name = "sub")?;
    cel::add_member_overload!(env, fn major: (Release) -> CelInt)?;
    cel::add_member_overload!(env, fn minor: (Release) -> CelInt)?;
    cel::add_member_overload!(env, fn patch: (Release) -> CelInt)
}
