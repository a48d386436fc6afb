#![allow(
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a table has a line for each case, and `json!` makes values"
)]

mod carried;
mod default;
mod delete;
mod judge;
mod refill;
mod response;
mod review;
mod server;

use serde_json::Value;

use super::testing::with;

/// A copy without the field at a JSON pointer.
fn without(object: &Value, pointer: &str) -> Value {
    let mut copy = object.clone();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = copy.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
    parent.remove(&name.replace("~1", "/")).expect("it was there");
    copy
}
