//! The macros beyond those of the standard library: `cel.bind`, and comprehensions with two variables. They expand to
//! the same comprehensions as in cel-go, because each step of those has its cost.

use cel::Env;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};
use cel::parser::{Macro, MacroExprHelper, ParseError};

/// The accumulator variable of macros. No expression can contain this name.
pub(super) const RESULT: &str = "@result";
/// The function that adds an entry to a map, or the entries of another map. No expression can call it.
pub(super) const INSERT: &str = "cel.@mapInsert";

/// The function that sorts a list by a list of keys. No expression can call it.
pub(super) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";
/// The variable of the list that `sortBy` sorts. No expression can contain this name.
const SORTED: &str = "@__sortBy_input__";

type Expanded = Result<Option<IdedExpr>, ParseError>;

/// The environment in which selectors are parsed.
pub(super) fn environment() -> Result<Env, String> {
    let mut env = Env::stdlib();
    let bind = Macro::receiver("bind", 3, |helper, target, args| {
        Ok(bind(helper, target.as_ref(), args))
    });
    add(&mut env, bind)?;
    add(&mut env, Macro::receiver("sortBy", 2, sort_by))?;
    for (name, most, body) in TWO_VARIABLES {
        for count in 3..=most {
            let expand = move |helper: &mut MacroExprHelper<'_>,
                               target: &mut Option<IdedExpr>,
                               args: &mut Vec<IdedExpr>| {
                two_variables(helper, target, args, body)
            };
            add(&mut env, Macro::receiver(name, count, expand))?;
        }
    }
    Ok(env)
}

fn add(env: &mut Env, added: Macro) -> Result<(), String> {
    env.add_macro(added).map_err(|error| error.to_string())
}

/// `cel.bind(name, value, expression)` evaluates the expression with a local variable.
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
    Some(bound(helper, name, value, result))
}

/// A comprehension over an empty list: its accumulator is the variable that the result sees.
fn bound(
    helper: &mut MacroExprHelper<'_>,
    name: String,
    value: IdedExpr,
    result: IdedExpr,
) -> IdedExpr {
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
    helper.next_expr(Expr::Comprehension(Box::new(walk)))
}

/// `list.sortBy(element, key)` binds the list to a variable, and sorts it by the keys that a `map` makes from it.
fn sort_by(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> Expanded {
    let iter_var = variable(helper, args.first())?;
    let (Some(key), Some(list)) = (args.pop(), target.take()) else {
        return Ok(None);
    };
    if matches!(
        list.expr,
        Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified
    ) {
        let why = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(helper.new_error(list.id, why));
    }
    let mut parts = Parts(helper);
    let (accu_init, loop_cond, result) = parts.frame(Body::List);
    let keys = ComprehensionExpr {
        iter_range: parts.0.next_expr(Expr::Ident(SORTED.to_owned())),
        loop_step: parts.step(Body::List, &iter_var, None, key),
        iter_var,
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init,
        loop_cond,
        result,
    };
    let keys = helper.next_expr(Expr::Comprehension(Box::new(keys)));
    let target = helper.next_expr(Expr::Ident(SORTED.to_owned()));
    let sorted = helper.next_expr(Expr::Call(CallExpr {
        func_name: SORT_BY_KEYS.to_owned(),
        target: Some(Box::new(target)),
        args: vec![keys],
    }));
    Ok(Some(bound(helper, SORTED.to_owned(), list, sorted)))
}

/// The operation of a macro on each element.
#[derive(Debug, Clone, Copy)]
enum Body {
    All,
    Exists,
    ExistsOne,
    /// Appends to a list.
    List,
    /// Adds an entry with the key of the element to a map.
    Map,
    /// Adds the entries of a map to a map.
    Entries,
}

/// The macros with two variables, with their largest number of arguments. The fourth argument is a filter.
const TWO_VARIABLES: [(&str, usize, Body); 7] = [
    (operators::ALL, 3, Body::All),
    (operators::EXISTS, 3, Body::Exists),
    (operators::EXISTS_ONE, 3, Body::ExistsOne),
    ("existsOne", 3, Body::ExistsOne),
    ("transformList", 4, Body::List),
    ("transformMap", 4, Body::Map),
    ("transformMapEntry", 4, Body::Entries),
];

fn two_variables(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    body: Body,
) -> Expanded {
    let [first, second] = [
        variable(helper, args.first())?,
        variable(helper, args.get(1))?,
    ];
    if first == second {
        let id = args.get(1).map_or(0, |name| name.id);
        return Err(helper.new_error(id, format!("duplicate variable name: {first}")));
    }
    let Some(iter_range) = target.take() else {
        return Ok(None);
    };
    let mut rest = args.drain(2..);
    let (filter, value) = match (rest.next(), rest.next()) {
        (Some(filter), Some(value)) => (Some(filter), value),
        (Some(value), None) => (None, value),
        (None, _) => return Ok(None),
    };
    drop(rest);
    let mut parts = Parts(helper);
    let (accu_init, loop_cond, result) = parts.frame(body);
    let loop_step = parts.step(body, &first, filter, value);
    let walk = ComprehensionExpr {
        iter_range,
        iter_var: first,
        iter_var2: Some(second),
        accu_var: RESULT.to_owned(),
        accu_init,
        loop_cond,
        loop_step,
        result,
    };
    Ok(Some(parts.0.next_expr(Expr::Comprehension(Box::new(walk)))))
}

fn variable(
    helper: &MacroExprHelper<'_>,
    argument: Option<&IdedExpr>,
) -> Result<String, ParseError> {
    if let Some(Expr::Ident(name)) = argument.map(|argument| &argument.expr) {
        return Ok(name.clone());
    }
    let id = argument.map_or(0, |argument| argument.id);
    Err(helper.new_error(id, "argument must be a simple name"))
}

/// Makes the parts of a comprehension.
struct Parts<'h, 'p>(&'h mut MacroExprHelper<'p>);

impl Parts<'_, '_> {
    fn literal(&mut self, value: LiteralValue) -> IdedExpr {
        self.0.next_expr(Expr::Literal(value))
    }

    fn result(&mut self) -> IdedExpr {
        self.0.next_expr(Expr::Ident(RESULT.to_owned()))
    }

    fn call(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.0.next_expr(Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args,
        }))
    }

    /// The first value of the accumulator, the condition of the walk, and its result.
    fn frame(&mut self, body: Body) -> (IdedExpr, IdedExpr, IdedExpr) {
        let init = match body {
            Body::All => self.literal(LiteralValue::Boolean(true.into())),
            Body::Exists => self.literal(LiteralValue::Boolean(false.into())),
            Body::ExistsOne => self.literal(LiteralValue::Int(0.into())),
            Body::List => self.0.next_expr(Expr::List(ListExpr::new(Vec::new()))),
            Body::Map | Body::Entries => self.0.next_expr(Expr::Map(MapExpr::default())),
        };
        let decided = self.result();
        let condition = match body {
            Body::All => self.call(operators::NOT_STRICTLY_FALSE, vec![decided]),
            Body::Exists => {
                let not = self.call(operators::LOGICAL_NOT, vec![decided]);
                self.call(operators::NOT_STRICTLY_FALSE, vec![not])
            }
            _ => self.literal(LiteralValue::Boolean(true.into())),
        };
        let result = self.result();
        let result = match body {
            Body::ExistsOne => {
                let one = self.literal(LiteralValue::Int(1.into()));
                self.call(operators::EQUALS, vec![result, one])
            }
            _ => result,
        };
        (init, condition, result)
    }

    fn step(
        &mut self,
        body: Body,
        key: &str,
        filter: Option<IdedExpr>,
        value: IdedExpr,
    ) -> IdedExpr {
        let result = self.result();
        let (filter, step) = match body {
            Body::All => return self.call(operators::LOGICAL_AND, vec![result, value]),
            Body::Exists => return self.call(operators::LOGICAL_OR, vec![result, value]),
            Body::ExistsOne => {
                let one = self.literal(LiteralValue::Int(1.into()));
                (Some(value), self.call(operators::ADD, vec![result, one]))
            }
            Body::List => {
                let value = self.0.next_expr(Expr::List(ListExpr::new(vec![value])));
                (filter, self.call(operators::ADD, vec![result, value]))
            }
            Body::Map => {
                let key = self.0.next_expr(Expr::Ident(key.to_owned()));
                (filter, self.call(INSERT, vec![result, key, value]))
            }
            Body::Entries => (filter, self.call(INSERT, vec![result, value])),
        };
        let Some(filter) = filter else {
            return step;
        };
        let unchanged = self.result();
        self.call(operators::CONDITIONAL, vec![filter, step, unchanged])
    }
}
