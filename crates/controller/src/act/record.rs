//! Keeps records of AppWrappers that are deleted, as ConfigMaps; see [`crate::record`].

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, PartialObjectMeta};
use serde_json::json;

use super::{Error, create_once, delete};
use crate::api::keys;
use crate::observe::assemble::Wrapper;
use crate::record::{Kept, RECORD_KEY, Record, config_map};

/// How many ConfigMaps are read at a time.
const PAGE: u32 = 500;
/// The most ConfigMaps that are read: whoever may create them chooses how many have the label.
const READ_MAX: usize = 100_000;

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

/// The ConfigMaps with the label of records, in all namespaces, without those that are being deleted.
///
/// # Errors
/// They cannot be listed.
pub async fn list(client: &Client) -> Result<Vec<Kept>, Error> {
    let api: Api<ConfigMap> = Api::all(client.clone());
    let mut params = ListParams::default().labels(keys::RECORD).limit(PAGE);
    let (mut all, mut read) = (vec![], 0);
    loop {
        let page = api.list_metadata(&params).await;
        let page = page.map_err(|error| Error::new("list the records", error))?;
        read += page.items.len();
        // a finalizer may hold one that is being deleted for ever
        let stays =
            |object: &PartialObjectMeta<ConfigMap>| object.metadata.deletion_timestamp.is_none();
        all.extend(page.items.into_iter().filter(stays).filter_map(|object| {
            Some(Kept {
                created: object.metadata.creation_timestamp?.0,
                namespace: object.metadata.namespace?,
                name: object.metadata.name?,
                uid: object.metadata.uid?,
            })
        }));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if read < READ_MAX => params = params.continue_token(&token),
            Some(_) | None => return Ok(all),
        }
    }
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
