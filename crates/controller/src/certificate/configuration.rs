//! The webhook configurations: by which names they call, and whom they trust.

use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use serde_json::Value;

use super::name::{Name, Names};

/// The entries of a configuration.
fn entries(configuration: &DynamicObject) -> impl Iterator<Item = &Value> {
    configuration.data.get("webhooks").and_then(Value::as_array).into_iter().flatten()
}

/// The names by which the API server calls a configuration's webhooks: of a service
/// `<name>.<namespace>.svc`, of a URL its host.
#[must_use]
pub fn names(configuration: &DynamicObject) -> Names {
    let mut names = Names::new();
    for entry in entries(configuration) {
        let client = &entry["clientConfig"];
        let text = |pointer: &str| client.pointer(pointer).and_then(Value::as_str);
        if let (Some(name), Some(namespace)) = (text("/service/name"), text("/service/namespace")) {
            names.extend(of_service(name, namespace));
        }
        let uri = text("/url").and_then(|url| url.parse::<http::Uri>().ok());
        names.extend(uri.and_then(|uri| Name::parse(uri.host()?)));
    }
    names
}

/// The names of a service.
#[must_use]
pub fn of_service(name: &str, namespace: &str) -> Names {
    let texts = [format!("{name}.{namespace}.svc"), format!("{name}.{namespace}")];
    texts.iter().filter_map(|text| Name::parse(text)).collect()
}

/// The CA bundle of each entry, PEM; nothing where it has none that is text.
pub fn bundles(configuration: &DynamicObject) -> impl Iterator<Item = Option<String>> {
    entries(configuration).map(|entry| {
        let bundle = entry["clientConfig"].get("caBundle")?.clone();
        let ByteString(bytes) = serde_json::from_value(bundle).ok()?;
        String::from_utf8(bytes).ok()
    })
}

/// Sets the CA bundle of every entry; whether that changed anything.
#[must_use]
pub fn trust(configuration: &mut DynamicObject, bundle: &str) -> bool {
    if bundles(configuration).all(|held| held.as_deref() == Some(bundle)) {
        return false;
    }
    let bytes = ByteString(bundle.as_bytes().to_vec());
    let encoded = serde_json::to_value(bytes).unwrap_or_default();
    let entries = configuration.data.get_mut("webhooks").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        entry["clientConfig"]["caBundle"] = encoded.clone();
    }
    true
}
