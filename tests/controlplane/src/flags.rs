//! The command line of each component. Pure.

use std::path::PathBuf;

use crate::site::Site;
use crate::{Component, Options};

/// The arguments of a component; `config` is its configuration file, if it has one.
pub(crate) fn arguments(
    component: Component,
    site: &Site,
    options: &Options,
    config: Option<&PathBuf>,
) -> Vec<String> {
    let mut arguments = match component {
        Component::Etcd => etcd(site),
        Component::ApiServer => api_server(site, options),
        Component::ControllerManager => controller_manager(site),
        Component::Scheduler => scheduler(site),
        Component::Kwok => vec![
            "--manage-all-nodes=true".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
            format!("--server-address=127.0.0.1:{}", site.ports.kwok),
            // there the API server finds the logs of pods
            "--node-ip=127.0.0.1".to_owned(),
            format!("--node-port={}", site.ports.kwok),
        ],
        Component::JobSet | Component::Trainer | Component::LeaderWorkerSet => Vec::new(),
        Component::Kueue => vec!["--zap-log-level=2".to_owned()],
        Component::Training => vec![
            "--metrics-bind-address=0".to_owned(),
            format!("--health-probe-bind-address=127.0.0.1:{}", site.ports.training.health),
            format!("--webhook-server-port={}", site.ports.training.webhook),
        ],
        Component::Ray => vec![
            "--enable-leader-election=false".to_owned(),
            "--metrics-addr=0".to_owned(),
            format!("--health-probe-bind-address=127.0.0.1:{}", site.ports.ray.health),
        ],
    };
    let kubeconfig = match component {
        Component::Etcd | Component::ApiServer => None,
        Component::Kueue => Some(site.kueue_kubeconfig()),
        Component::ControllerManager
        | Component::Scheduler
        | Component::Kwok
        | Component::JobSet
        | Component::Training
        | Component::Ray
        | Component::Trainer
        | Component::LeaderWorkerSet => Some(site.kubeconfig()),
    };
    arguments.extend(kubeconfig.map(|path| format!("--kubeconfig={}", path.display())));
    arguments.extend(config.map(|path| format!("--config={}", path.display())));
    arguments
}

fn etcd(site: &Site) -> Vec<String> {
    let url = format!("http://127.0.0.1:{}", site.ports.etcd);
    vec![
        format!("--data-dir={}", site.dir.join("etcd").display()),
        // The data need not survive a crash of the machine.
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls=http://127.0.0.1:{}", site.ports.etcd_peer),
        "--log-level=warn".to_owned(),
    ]
}

fn api_server(site: &Site, options: &Options) -> Vec<String> {
    let files = &site.files;
    let mut arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", site.ports.etcd),
        format!("--secure-port={}", site.ports.api),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--tls-cert-file={}", files.certificate().display()),
        format!("--tls-private-key-file={}", files.key().display()),
        format!("--client-ca-file={}", files.ca().display()),
        format!("--service-account-key-file={}", files.token_certificate().display()),
        format!("--service-account-signing-key-file={}", files.token_key().display()),
        "--service-account-issuer=https://kubernetes.default".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--allow-privileged".to_owned(),
        // names of KWOK's nodes lead nowhere
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--max-requests-inflight=2000".to_owned(),
        "--max-mutating-requests-inflight=1000".to_owned(),
    ];
    if !options.service_accounts {
        // Pods need no tokens here, and must not wait for the account of a new namespace.
        arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    if options.audit {
        arguments.push(format!("--audit-policy-file={}", site.audit_policy().display()));
        arguments.push(format!("--audit-log-path={}", site.audit_log().display()));
    }
    arguments
}

fn controller_manager(site: &Site) -> Vec<String> {
    let mut arguments = built_in_controller(site.ports.controller_manager);
    arguments.extend([
        format!("--service-account-private-key-file={}", site.files.token_key().display()),
        format!("--root-ca-file={}", site.files.ca().display()),
        "--use-service-account-credentials=false".to_owned(),
        "--node-monitor-grace-period=20s".to_owned(),
    ]);
    arguments
}

fn scheduler(site: &Site) -> Vec<String> {
    built_in_controller(site.ports.scheduler)
}

fn built_in_controller(port: u16) -> Vec<String> {
    vec![
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ]
}
