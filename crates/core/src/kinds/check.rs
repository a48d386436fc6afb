//! Checks of pod sets: what they point at, whether they agree with the template, how many pods.

use serde_json::Value;

use super::node::Node;
use super::{Error, Path};
use crate::api::PodSet;

/// The most pods of one AppWrapper.
pub const POD_TOTAL_MAX: i64 = 1_000_000;

/// The pod template that a path leads to: an object that everything we write fits into.
///
/// # Errors
/// Where the path leads nowhere, `spec` or a container is missing, or a field that we read or
/// write (`metadata`, labels, annotations, `nodeSelector`, …) is of another type than Kubernetes'.
pub fn pod_template<'a>(template: &'a Value, path: &Path) -> Result<&'a Value, Error> {
    let node = Node::at(path.to_string(), path.get(template)?);
    node.object()?;
    let metadata = node.field("metadata")?;
    metadata.field("labels")?.string_map()?;
    metadata.field("annotations")?.string_map()?;
    let spec = node.field("spec")?;
    spec.object()?;
    let containers = spec.field("containers")?;
    let items = containers.items()?;
    if items.is_empty() {
        return Err(containers.error("at least one container"));
    }
    for container in items {
        container.object()?;
    }
    spec.field("nodeSelector")?.string_map()?;
    spec.field("tolerations")?.items()?;
    spec.field("schedulingGates")?.items()?;
    spec.field("schedulerName")?.text()?;
    Ok(node.value())
}

/// Checks declared pod sets against each other and against those that the template implies.
///
/// Nothing declared, or nothing inferred, is in agreement; order does not matter.
/// Go: `ValidatePodSets`.
///
/// # Errors
/// The first declared pod set that names a path twice, has less than 0 pods, names a path that is
/// not inferred, or another number of pods; or that an inferred one is missing.
pub fn check_declared(declared: &[PodSet], inferred: &[PodSet]) -> Result<(), Error> {
    for (index, set) in declared.iter().enumerate() {
        if set.count() < 0 {
            let field = format!("podSets[{index}].replicas");
            return Err(Error::new(field, &set.count().to_string(), "0 or more"));
        }
        if let Some(earlier) = declared[..index].iter().position(|other| other.path == set.path) {
            let field = format!("podSets[{index}].path");
            let expected = format!("a path other than that of podSets[{earlier}]");
            return Err(Error::new(field, &set.path, expected));
        }
    }
    if declared.is_empty() || inferred.is_empty() {
        return Ok(());
    }
    for (index, set) in declared.iter().enumerate() {
        let Some(made) = inferred.iter().find(|made| made.path == set.path) else {
            let paths: Vec<&str> = inferred.iter().map(|made| made.path.as_str()).collect();
            let expected = format!("one of {}", paths.join(", "));
            return Err(Error::new(format!("podSets[{index}].path"), &set.path, expected));
        };
        if made.count() != set.count() {
            let field = format!("podSets[{index}].replicas");
            let expected = format!("{}, the number of pods in the template", made.count());
            return Err(Error::new(field, &set.count().to_string(), expected));
        }
    }
    let is_declared = |made: &&PodSet| declared.iter().any(|set| set.path == made.path);
    match inferred.iter().find(|made| !is_declared(made)) {
        Some(missing) => {
            let expected = format!("an additional pod set with the path {}", missing.path);
            Err(Error::new("podSets", &declared.len().to_string(), expected))
        }
        None => Ok(()),
    }
}

/// Number of pods of all pod sets of an AppWrapper together.
///
/// # Errors
/// Where a pod set has less than 0 pods, or all together none or more than [`POD_TOTAL_MAX`].
pub fn expected_total<'a>(pod_sets: impl Iterator<Item = &'a PodSet>) -> Result<i64, Error> {
    let mut total: i64 = 0;
    for set in pod_sets {
        if set.count() < 0 {
            return Err(Error::new("podSets.replicas", &set.count().to_string(), "0 or more"));
        }
        total = total.saturating_add(i64::from(set.count()));
    }
    if (1..=POD_TOTAL_MAX).contains(&total) {
        return Ok(total);
    }
    let expected = format!("1 to {POD_TOTAL_MAX} pods in total");
    Err(Error::new("podSets", &total.to_string(), expected))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(path: &str, replicas: Option<i32>) -> PodSet {
        PodSet { path: path.to_owned(), replicas, ..PodSet::default() }
    }

    #[test]
    fn declared_pod_sets_agree_with_the_inferred() {
        let inferred = [set("template.a", Some(1)), set("template.b", Some(2))];
        let (a, b) = (set("template.a", None), set("template.b", Some(2)));
        let other = set("template.c", None);
        for (declared, want) in [
            (vec![], None),
            (vec![a.clone(), b.clone()], None),
            (vec![b.clone(), a.clone()], None),
            (vec![a.clone()], Some(("podSets", "an additional pod set with the path template.b"))),
            (
                vec![a.clone(), a.clone()],
                Some(("podSets[1].path", "a path other than that of podSets[0]")),
            ),
            (vec![b, other], Some(("podSets[1].path", "one of template.a, template.b"))),
            (
                vec![a, set("template.b", None)],
                Some(("podSets[1].replicas", "2, the number of pods in the template")),
            ),
            (vec![set("template.a", Some(-1))], Some(("podSets[0].replicas", "0 or more"))),
        ] {
            let found = check_declared(&declared, &inferred).err();
            let found = found.as_ref().map(|error| (error.field.as_str(), error.expected.as_str()));
            assert_eq!(found, want);
        }
        assert_eq!(check_declared(&[set("template.x", Some(7))], &[]), Ok(()));
    }

    #[test]
    fn the_total_is_between_one_and_a_million() {
        for (counts, want) in [
            (vec![], None),
            (vec![Some(0)], None),
            (vec![None], Some(1)),
            (vec![Some(999_999), None], Some(1_000_000)),
            (vec![Some(1_000_000), None], None),
            (vec![Some(i32::MAX), Some(i32::MAX)], None),
            (vec![Some(5), Some(-1)], None),
        ] {
            let sets: Vec<PodSet> = counts.iter().map(|count| set("template", *count)).collect();
            assert_eq!(expected_total(sets.iter()).ok(), want, "{counts:?}");
        }
    }

    #[test]
    fn a_pod_template_has_a_spec_with_containers_and_well_formed_metadata() {
        let path: Path = "template".parse().expect("it is a path");
        let good = json!({"spec": {"containers": [{}]}});
        assert_eq!(pod_template(&good, &path), Ok(&good));
        for (pointer, value, field) in [
            ("spec", json!(null), "template.spec"),
            ("metadata", json!("boo"), "template.metadata"),
            ("metadata", json!({"labels": {"a": 1}}), "template.metadata.labels[a]"),
            ("metadata", json!({"annotations": []}), "template.metadata.annotations"),
            ("spec", json!({}), "template.spec.containers"),
            ("spec", json!({"containers": []}), "template.spec.containers"),
            ("spec", json!({"containers": {}}), "template.spec.containers"),
            ("spec", json!({"containers": [1]}), "template.spec.containers[0]"),
            ("spec", json!({"containers": [{}], "nodeSelector": 1}), "template.spec.nodeSelector"),
            ("spec", json!({"containers": [{}], "tolerations": {}}), "template.spec.tolerations"),
            (
                "spec",
                json!({"containers": [{}], "schedulerName": {}}),
                "template.spec.schedulerName",
            ),
        ] {
            let mut bad = good.clone();
            bad[pointer] = value;
            let found = pod_template(&bad, &path).map_err(|error| error.field);
            assert_eq!(found, Err(field.to_owned()), "{bad}");
        }
    }
}
