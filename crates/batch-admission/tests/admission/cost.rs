//! What the policies cost at most.

use crate::rules::environment;
use cel::common::ast::{Expr, IdedExpr};
use evictd_batch_admission::rules::policies;
use evictd_batch_admission::{MOST_AMOUNTS, MOST_PARTS, MOST_POLICIES, MOST_TASKS, MOST_VOLUMES};

/// How much of each list and map the webhook lets in at most.
fn most(range: &str) -> u64 {
    let counted = |count: usize| u64::try_from(count).unwrap();
    match range {
        "variables.tasks" | "object.spec.tasks" => counted(MOST_TASKS),
        // That of the job, and one of each task.
        "variables.policyLists" => counted(MOST_TASKS + 1),
        // All lists together have no more than is counted: this is how many each has of them.
        "policies" => counted(MOST_POLICIES.div_ceil(MOST_TASKS)),
        "policy.events" => 1,
        // Each has a name of at least one byte and its braces; an object has at most 1.5 MB, most of which are targets.
        "variables.flows" | "object.spec.flows" => 10_000,
        "variables.volumes" => counted(MOST_VOLUMES),
        "variables.events" | "object.spec.plugins" => 8,
        "variables.guarantee" | "variables.deserved" | "amounts" => counted(MOST_AMOUNTS),
        "[]" => 3,
        // Parts of a pod group, and of the path of a queue with its weights.
        "object.spec.subGroupPolicy" | "split" => counted(MOST_PARTS),
        other => panic!("how long can {other} be?"),
    }
}

/// A path of fields as text; a function by its name.
fn named(expression: &Expr) -> String {
    match expression {
        Expr::Ident(name) => name.clone(),
        Expr::Select(select) => format!("{}.{}", named(&select.operand.expr), select.field),
        Expr::List(_) => "[]".to_owned(),
        Expr::Call(call) => call.func_name.clone(),
        // What is filtered or mapped is as long as it was.
        Expr::Comprehension(walk) => named(&walk.iter_range.expr),
        _ => String::new(),
    }
}

/// What an expression costs at most, in the units of the API server: one for each step, more where texts are looked through.
fn cost(expression: &Expr) -> u64 {
    let all = |parts: &[IdedExpr]| parts.iter().map(|part| cost(&part.expr)).sum::<u64>();
    match expression {
        Expr::Call(call) => {
            let target = call.target.as_ref().map_or(0, |target| cost(&target.expr));
            let own = match call.func_name.as_str() {
                // A name of 63 characters by an expression of 60.
                "matches" => 7 * 15,
                // Each of the lists here has up to 8 texts.
                "@in" => 9,
                "quantity" | "compareTo" | "double" | "string" | "split" => 10,
                _ => 1,
            };
            target + own + all(&call.args)
        }
        Expr::Comprehension(walk) => {
            let times = most(&named(&walk.iter_range.expr));
            let each = cost(&walk.loop_cond.expr) + cost(&walk.loop_step.expr) + 1;
            cost(&walk.iter_range.expr)
                + cost(&walk.accu_init.expr)
                + times * each
                + cost(&walk.result.expr)
        }
        Expr::List(list) => 10 + all(&list.elements),
        Expr::Map(_) => 30,
        Expr::Select(select) => 1 + cost(&select.operand.expr),
        Expr::Ident(_) => 1,
        _ => 0,
    }
}

/// The API server evaluates an expression for at most 1 000 000 units, and a policy for 10 000 000.
#[test]
fn no_policy_costs_too_much_for_the_largest_object_that_the_webhook_lets_in() {
    let env = environment();
    let of = |expression: &str| cost(&env.compile(expression).unwrap().expression().expr);
    for policy in policies() {
        let mut all = 0;
        let variables = policy.variables.iter().map(|(_, expression)| expression);
        let rules = policy.rules.iter().map(|rule| &rule.expression);
        for expression in variables.chain(rules) {
            let own = of(expression);
            assert!(own < 500_000, "{}: {own} for {expression}", policy.name);
            all += own;
        }
        assert!(all < 5_000_000, "{}: {all}", policy.name);
    }
    // What it was refused for.
    let each_with_each =
        "variables.tasks.all(task, variables.tasks.exists_one(other, other.name == task.name))";
    assert!(of(each_with_each) > 1_000_000);
}
