//! The manifests that come with the operators. Pure.
//!
//! CRDs are sent as they are, as YAML: some are more than a megabyte, which takes a debug build
//! seconds to parse. What must be known of them stands in the file's name.

use serde_json::{Value, json};

use crate::Component;

/// The kind of resource that a CRD defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) plural: String,
}

impl Definition {
    /// From `<group>_<plural>.yaml`, as generated CRDs are called; `None` for other files.
    pub(crate) fn from_file_name(name: &str) -> Option<Self> {
        let (group, plural) = name.strip_suffix(".yaml")?.split_once('_')?;
        Some(Self { group: group.to_owned(), plural: plural.to_owned() })
    }

    /// The name of the CRD object.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

/// Where a module has its CRDs.
pub(crate) const fn definitions_dir(component: Component) -> Option<&'static str> {
    match component {
        Component::JobSet | Component::Kueue => Some("config/components/crd/bases"),
        Component::Training | Component::Trainer => Some("manifests/base/crds"),
        Component::Ray | Component::LeaderWorkerSet => Some("config/crd/bases"),
        Component::Etcd
        | Component::ApiServer
        | Component::ControllerManager
        | Component::Scheduler
        | Component::Kwok => None,
    }
}

/// Where a module has the webhook configurations that are used here.
pub(crate) const fn webhooks_file(component: Component) -> Option<&'static str> {
    match component {
        Component::JobSet | Component::Kueue => Some("config/components/webhook/manifests.yaml"),
        Component::Trainer => Some("manifests/base/webhook/manifests.yaml"),
        Component::LeaderWorkerSet => Some("config/webhook/manifests.yaml"),
        Component::Etcd
        | Component::ApiServer
        | Component::ControllerManager
        | Component::Scheduler
        | Component::Kwok
        | Component::Training
        | Component::Ray => None,
    }
}

/// Where Kueue says which of its kinds it converts between versions.
pub(crate) const CONVERSIONS: &str = "config/components/crd/kustomization.yaml";

/// Whether a kustomization adds the conversion webhook to a definition. Kueue refuses to convert any
/// other kind, so that nobody could list it in its older version.
pub(crate) fn is_converted(kustomization: &str, definition: &Definition) -> bool {
    let patch = format!("- path: patches/webhook_in_{}.yaml", definition.plural);
    kustomization.lines().any(|line| line.trim_end() == patch)
}

/// Where KWOK has the stages of nodes.
pub(crate) const NODE_STAGES: [&str; 2] = [
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
];

/// Points a webhook configuration, made for a service in the cluster, at an operator that listens
/// on loopback, and leaves out the webhooks whose path `keep` does not want.
pub(crate) fn on_loopback(
    mut configuration: Value,
    operator: &str,
    port: u16,
    ca_bundle: &Value,
    keep: impl Fn(&str) -> bool,
) -> Value {
    let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
    configuration["metadata"]["name"] = json!(format!("{operator}-{name}"));
    if let Some(webhooks) = configuration["webhooks"].as_array_mut() {
        webhooks.retain_mut(|webhook| {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default();
            let wanted = keep(path);
            webhook["clientConfig"] = json!({
                "url": format!("https://127.0.0.1:{port}{path}"),
                "caBundle": ca_bundle,
            });
            wanted
        });
    }
    configuration
}

/// Lets Kueue, on loopback, convert between the versions of what a CRD defines. The CRD is YAML as
/// generated, and of one version or more: with one, nobody asks for a conversion.
pub(crate) fn with_conversion(yaml: &str, port: u16, ca_bundle: &Value) -> String {
    let conversion = json!({ "strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {
            "url": format!("https://127.0.0.1:{port}/convert"),
            "caBundle": ca_bundle,
        },
    }});
    // JSON is YAML.
    yaml.replacen("\nspec:\n", &format!("\nspec:\n  conversion: {conversion}\n"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_named_by_its_file() {
        let want = Definition { group: "ray.io".to_owned(), plural: "rayjobs".to_owned() };
        assert_eq!(want.name(), "rayjobs.ray.io");
        assert_eq!(Definition::from_file_name("ray.io_rayjobs.yaml"), Some(want));
        assert_eq!(Definition::from_file_name("kustomization.yaml"), None);
    }

    #[test]
    fn only_what_the_kustomization_says_is_converted() {
        let kustomization = "patches:\n- path: patches/webhook_in_workloads.yaml\n\
            #- path: patches/webhook_in_resourceflavors.yaml\n";
        let is_converted = |plural: &str| {
            let definition = Definition { group: "x".to_owned(), plural: plural.to_owned() };
            is_converted(kustomization, &definition)
        };
        assert!(is_converted("workloads"));
        assert!(!is_converted("resourceflavors"));
    }

    #[test]
    fn a_conversion_goes_into_the_spec() {
        let yaml = with_conversion("kind: X\nspec:\n  group: x\n", 1, &json!("Q0E="));
        let crd: Value = serde_saphyr::from_str(&yaml).expect("it is YAML");
        assert_eq!(crd["spec"]["group"], "x");
        let client = &crd["spec"]["conversion"]["webhook"]["clientConfig"];
        assert_eq!(client["url"], "https://127.0.0.1:1/convert");
    }

    #[test]
    fn webhooks_move_to_loopback() {
        let service = |path| json!({ "clientConfig": { "service": { "path": path } } });
        let configuration = json!({
            "metadata": { "name": "mutating" },
            "webhooks": [service("/mutate-a"), service("/mutate-b")],
        });
        let ca = json!("Q0E=");
        assert_eq!(
            on_loopback(configuration, "x", 1, &ca, |path| path.ends_with('b')),
            json!({
                "metadata": { "name": "x-mutating" },
                "webhooks": [{ "clientConfig": {
                    "url": "https://127.0.0.1:1/mutate-b",
                    "caBundle": "Q0E=",
                }}],
            })
        );
    }
}
