//! Merge patches (RFC 7396) and JSON patches (RFC 6902).

use serde_json::Value;

use super::refusal::Refusal;

/// How a patch is to be read, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Merge,
    Json,
}

impl Form {
    pub(super) fn of(content_type: &str) -> Result<Self, Refusal> {
        match content_type.split(';').next().unwrap_or_default() {
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/json-patch+json" => Ok(Self::Json),
            other => Err(Refusal::new(
                415,
                "UnsupportedMediaType",
                format!("the body of the request was in an unknown format: {other}"),
            )),
        }
    }
}

/// The object after a patch.
pub(super) fn apply(form: Form, object: &Value, patch: Value) -> Result<Value, Refusal> {
    let mut patched = object.clone();
    match form {
        Form::Merge if patch.is_object() => merge(&mut patched, patch),
        Form::Merge => return Err(Refusal::bad_request("a merge patch is an object")),
        Form::Json => {
            if !patch.as_array().is_some_and(|all| all.iter().all(Value::is_object)) {
                return Err(Refusal::bad_request("a JSON patch is a list of operations"));
            }
            let mut patch: json_patch::Patch = serde_json::from_value(patch)
                .map_err(|error| Refusal::invalid(error.to_string()))?;
            // a test that a field is null also holds where there is none
            patch.0.retain(|operation| !is_test_of_nothing(operation, object));
            json_patch::patch(&mut patched, &patch)
                .map_err(|error| Refusal::invalid(format!("the patch does not apply: {error}")))?;
        }
    }
    Ok(patched)
}

fn is_test_of_nothing(operation: &json_patch::PatchOperation, object: &Value) -> bool {
    match operation {
        json_patch::PatchOperation::Test(test) => {
            test.value.is_null() && object.pointer(test.path.as_str()).is_none()
        }
        _ => false,
    }
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(changes) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (key, value) in changes {
        if value.is_null() {
            fields.remove(&key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_are_applied() {
        let object = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        for (form, patch, want) in [
            (
                Form::Merge,
                json!({"a": {"b": null, "x": {"y": null, "z": 1}}}),
                Ok(json!({"a": {"c": 2, "x": {"z": 1}}, "d": [1]})),
            ),
            (Form::Merge, json!({"a": 3, "d": {"e": 1}}), Ok(json!({"a": 3, "d": {"e": 1}}))),
            (Form::Merge, json!([1]), Err(400)),
            (
                Form::Json,
                json!([{"op": "add", "path": "/d/-", "value": 2}]),
                Ok(json!({"a": {"b": 1, "c": 2}, "d": [1, 2]})),
            ),
            (Form::Json, json!([{"op": "test", "path": "/x", "value": null}]), Ok(object.clone())),
            (Form::Json, json!([{"op": "test", "path": "/a/b", "value": 2}]), Err(422)),
            (Form::Json, json!([{"op": "remove", "path": "/x"}]), Err(422)),
            (Form::Json, json!({"op": "remove"}), Err(400)),
        ] {
            let got = apply(form, &object, patch.clone()).map_err(|refusal| refusal.code);
            assert_eq!(got, want, "{patch}");
        }
        assert_eq!(Form::of("application/apply-patch+yaml").unwrap_err().code, 415);
    }
}
