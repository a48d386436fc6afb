//! More memory for a container of a template.

use serde_json::{Map, Value};

use super::Path;

/// Writes the memory that a container requests and its limit into a template; what is not given stays as
/// it is, and so does everything where there is no such container.
pub fn grow(
    template: &mut Value,
    path: &str,
    container: &str,
    request: Option<&str>,
    limit: Option<&str>,
) {
    let Ok(path) = path.parse::<Path>() else { return };
    let Some(spec) = path.get_mut(template).ok().and_then(|pod| pod.get_mut("spec")) else {
        return;
    };
    for field in ["initContainers", "containers"] {
        let all = spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
        let named = |one: &&mut Value| one.get("name").and_then(Value::as_str) == Some(container);
        for one in all.filter(named) {
            write(one, "requests", request);
            write(one, "limits", limit);
        }
    }
}

fn write(container: &mut Value, field: &str, memory: Option<&str>) {
    let Some(memory) = memory else { return };
    let amounts = object_in(container, "resources").and_then(|all| object_in(all, field));
    if let Some(Value::Object(amounts)) = amounts {
        amounts.insert("memory".to_owned(), memory.into());
    }
}

/// The object in a field, made where there is none; nothing where the field is something else.
fn object_in<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    let inside = value.as_object_mut()?.entry(field).or_insert(Value::Null);
    if inside.is_null() {
        *inside = Value::Object(Map::new());
    }
    inside.is_object().then_some(inside)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(containers: &Value) -> Value {
        json!({"kind": "Job", "spec": {"template": {"spec": {
            "initContainers": [{"name": "i"}], "containers": containers, "x": 1,
        }}}})
    }

    const PATH: &str = "template.spec.template";

    #[test]
    fn memory_is_written_and_nothing_else() {
        let resources =
            |value: Value| pod(&json!([{"name": "a", "resources": value}, {"name": "b"}]));
        for (before, request, limit, after) in [
            (
                json!({"requests": {"memory": "1Gi", "cpu": 1}, "limits": {"memory": "1Gi"}}),
                Some("2Gi"),
                Some("3Gi"),
                json!({"requests": {"memory": "2Gi", "cpu": 1}, "limits": {"memory": "3Gi"}}),
            ),
            (json!(null), Some("2Gi"), None, json!({"requests": {"memory": "2Gi"}})),
            (
                json!({"limits": {"memory": "1Gi"}}),
                None,
                Some("2Gi"),
                json!({"limits": {"memory": "2Gi"}}),
            ),
            (json!({"cpu": 1}), None, None, json!({"cpu": 1})),
            (json!("odd"), Some("1"), Some("1"), json!("odd")),
        ] {
            let mut template = resources(before);
            grow(&mut template, PATH, "a", request, limit);
            assert_eq!(template, resources(after));
        }
    }

    #[test]
    fn an_init_container_grows_and_what_is_not_there_does_not() {
        let mut template = pod(&json!([{"name": "a"}]));
        let before = template.clone();
        for (path, container) in [("template.no", "a"), ("no", "a"), (PATH, "c"), ("template", "a")]
        {
            grow(&mut template, path, container, Some("1Gi"), Some("1Gi"));
            assert_eq!(template, before, "{path} {container}");
        }
        grow(&mut template, PATH, "i", Some("1Gi"), None);
        let grown = template.pointer("/spec/template/spec/initContainers/0");
        assert_eq!(
            grown,
            Some(&json!({"name": "i", "resources": {"requests": {"memory": "1Gi"}}}))
        );
    }
}
