//! This controller's webhooks, as `config/webhook` has them, on loopback: there are no services here.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::run::PATIENCE;
use crate::site::Site;

/// The manifests, below the root of the repository.
const MANIFESTS: &str = "config/webhook/configurations.yaml";
/// How often it is asked whether the webhooks answer: nobody tells when they do.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Registers them at a port. The controller puts its certificate into them.
pub async fn install(site: &Site, port: u16) -> Result<(), Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(MANIFESTS);
    let text = fs::read_to_string(&path).map_err(Failure::io("read", &path))?;
    let yaml = serde_saphyr::options! { strict_booleans: true };
    let configurations: Vec<Value> =
        serde_saphyr::from_multiple_with_options(&text, yaml).map_err(|error| {
            Failure::Document { what: path.display().to_string(), problem: error.to_string() }
        })?;
    for mut configuration in configurations {
        let webhooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten() {
            let client = &mut webhook["clientConfig"];
            let path = client["service"]["path"].as_str().unwrap_or_default();
            *client = json!({"url": format!("https://127.0.0.1:{port}{path}")});
        }
        let kind = configuration["kind"].as_str().unwrap_or_default().to_lowercase();
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}s");
        site.create(&path, &configuration).await?;
    }
    Ok(())
}

/// Waits until the webhooks let an object in, which is not stored.
pub async fn until_it_answers(site: &Site, path: &str, object: &Value) -> Result<(), Failure> {
    let trial = format!("{path}?dryRun=All");
    let asked = async {
        while let Err(failure) = site.create(&trial, object).await {
            match &failure {
                Failure::Api { source: kube::Error::Api(status), .. }
                    if status.message.contains("failed calling webhook") =>
                {
                    tokio::time::sleep(ASK_EVERY).await;
                }
                _ => return Err(failure),
            }
        }
        Ok(())
    };
    let late = |_| Failure::Late {
        what: "an answer of the webhooks".to_owned(),
        seconds: PATIENCE.as_secs(),
    };
    tokio::time::timeout(PATIENCE, asked).await.map_err(late)?
}
