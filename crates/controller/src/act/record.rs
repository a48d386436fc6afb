//! Keeps records of AppWrappers that are deleted, as ConfigMaps; see [`crate::record`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::core::{ApiResource, ObjectList, Request};
use kube::{Client, Resource};
use serde_json::json;

use super::{Error, create_once, delete};
use crate::api::keys;
use crate::observe::assemble::Wrapper;
use crate::observe::raw_object::RawObject;
use crate::record::{Kept, RECORD_KEY, Record, config_map, is_named_as_record};

/// How many ConfigMaps are read at a time.
const PAGE: u32 = 500;

/// Keeps a record; one that is there already is as good.
///
/// # Errors
/// It cannot be stored.
pub async fn keep(client: &Client, wrapper: &Wrapper, record: &Record) -> Result<(), Error> {
    let text = record.json();
    let (Some(name), false) = (config_map(&wrapper.uid), text.is_empty()) else { return Ok(()) };
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": wrapper.namespace, "labels": {keys::RECORD: wrapper.name},
        },
        "immutable": true,
        "data": {RECORD_KEY: text},
    });
    create_once(client, wrapper, &name, &object).await
}

/// The records of all namespaces, without those that are being deleted; at most so many of a namespace, since whoever may
/// create ConfigMaps there chooses how many have the label.
///
/// # Errors
/// They cannot be listed.
pub async fn list(client: &Client, of_namespace_max: usize) -> Result<Vec<Kept>, Error> {
    let failed = |error: kube::Error| Error::new("list the records", error);
    let maps = Request::new(RawObject::url_path(&ApiResource::erase::<ConfigMap>(&()), None));
    let mut params = ListParams::default().labels(keys::RECORD).limit(PAGE);
    let (mut all, mut counts) = (vec![], BTreeMap::<String, usize>::new());
    loop {
        let request = maps.list_metadata(&params).map_err(kube::Error::BuildRequest);
        let page = client.request::<ObjectList<RawObject>>(request.map_err(failed)?).await;
        let page = page.map_err(failed)?;
        for kept in page.items.into_iter().filter_map(kept) {
            let count = counts.entry(kept.namespace.clone()).or_default();
            *count += 1;
            if *count <= of_namespace_max {
                all.push(kept);
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// What is known of a record. One that is being deleted is none: a finalizer may hold it for ever.
fn kept(object: RawObject) -> Option<Kept> {
    let meta = object.meta;
    let name = meta.name.filter(|name| is_named_as_record(name))?;
    if meta.deletion_timestamp.is_some() {
        return None;
    }
    let (created, namespace, uid) = (meta.creation_timestamp?.0, meta.namespace?, meta.uid?);
    Some(Kept { created, namespace, name, uid })
}

/// Deletes a record.
///
/// # Errors
/// The API server refused or could not be asked.
pub async fn remove(client: &Client, kept: &Kept) -> Result<(), Error> {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let how = delete::How::Graceful;
    delete::delete(client, &resource, &kept.namespace, &kept.name, &kept.uid, how).await?;
    Ok(())
}
