//! What a template may hold, and which kinds: rows 52 to 67.

#![expect(clippy::too_many_lines, reason = "a row has a few lines")]

use super::*;

pub(super) fn templates() -> Vec<Row> {
    let metadata = |field: &str, value: Value| beside(&format!("/metadata/{field}"), value);
    let queue = "kueue.x-k8s.io/queue-name";
    let label = "workload.codeflare.dev/appwrapper";
    let mut queued = good();
    queued["metadata"]["labels"] = json!({ queue: "main" });
    queued["spec"]["components"][0]["template"]["metadata"]["labels"] = json!({ queue: "other" });
    let mut child = good();
    child["spec"]["components"][0]["template"]["metadata"]["labels"] = json!({ queue: "other" });
    let pod_labels = format!("{FIRST}/template/spec/template/metadata/labels");
    let pod = |field: &str, value: Value| {
        Object(with(&good(), &format!("{FIRST}/template/spec/template/spec/{field}"), value))
    };
    vec![
        row(
            "52",
            "owners",
            metadata(
                "ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]),
            ),
            denied("spec.components[0].template.metadata.ownerReferences", "must be left out"),
        ),
        row(
            "52",
            "finalizers",
            metadata("finalizers", json!(["a/b"])),
            denied("spec.components[0].template.metadata.finalizers", "must be left out"),
        ),
        row(
            "53",
            "uid",
            metadata("uid", json!("u")),
            denied("spec.components[0].template.metadata.uid", "must be left out"),
        ),
        row(
            "53",
            "version",
            metadata("resourceVersion", json!("1")),
            denied("spec.components[0].template.metadata.resourceVersion", "must be left out"),
        ),
        row(
            "53",
            "fields",
            metadata("managedFields", json!([{"manager": "m"}])),
            denied("spec.components[0].template.metadata.managedFields", "must be left out"),
        )
        .server("managedFields[0].operation"),
        row(
            "53",
            "generation",
            metadata("generation", json!(7)),
            denied("spec.components[0].template.metadata.generation", "must be left out"),
        ),
        row(
            "53",
            "creation",
            metadata("creationTimestamp", json!("2026-01-01T00:00:00Z")),
            denied("spec.components[0].template.metadata.creationTimestamp", "must be left out"),
        ),
        row("53", "no creation", metadata("creationTimestamp", json!(null)), Accepted),
        row(
            "53",
            "deletion",
            metadata("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            denied("spec.components[0].template.metadata.deletionTimestamp", "must be left out"),
        ),
        row(
            "53",
            "deletion period",
            metadata("deletionGracePeriodSeconds", json!(5)),
            denied(
                "spec.components[0].template.metadata.deletionGracePeriodSeconds",
                "must be left out",
            ),
        ),
        row(
            "53",
            "link",
            metadata("selfLink", json!("/api/v1/pods/x")),
            denied("spec.components[0].template.metadata.selfLink", "must be left out"),
        ),
        row(
            "53",
            "status",
            beside("/status", json!({"a": 1})),
            denied("spec.components[0].template.status", "must be left out"),
        ),
        row(
            "54",
            "our label",
            metadata("labels", json!({ label: "victim" })),
            denied(
                "spec.components[0].template.metadata.labels[workload.codeflare.dev/appwrapper]",
                "the controller sets it",
            ),
        ),
        row(
            "54",
            "our label on pods",
            Object(with(&good(), &pod_labels, json!({ label: "victim" }))),
            denied(
                "spec.components[0].template.spec.template.metadata.labels[workload.codeflare.dev/appwrapper]",
                "must be left out",
            ),
        ),
        row(
            "55",
            "another queue",
            Object(queued),
            denied(
                "spec.components[0].template.metadata.labels[kueue.x-k8s.io/queue-name]",
                "own queue \"main\"",
            ),
        ),
        row(
            "56",
            "a queue of its own",
            Object(child),
            Warned { says: "Kueue would admit this component" },
        ),
        row(
            "57",
            "another namespace",
            metadata("namespace", json!("other")),
            denied(
                "spec.components[0].template.metadata.namespace",
                "the AppWrapper's own namespace",
            ),
        ),
        // the right to create the pod decides, and the admission of pods
        row(
            "67",
            "privileged",
            pod("containers/0/securityContext", json!({"privileged": true})),
            Accepted,
        ),
        row(
            "67",
            "host path",
            pod("volumes", json!([{"name": "v", "hostPath": {"path": "/"}}])),
            Accepted,
        ),
        row(
            "67",
            "negative amount",
            pod("containers/0/resources", json!({"requests": {"nvidia.com/gpu": "-100"}})),
            denied(
                "spec.components[0].template.spec.template.spec.containers[0].resources.requests[nvidia.com/gpu]",
                "must be 0 or more",
            ),
        ),
        row("67", "account", pod("serviceAccountName", json!("other")), Accepted),
        row(
            "67",
            "node",
            pod("nodeName", json!("node-0")),
            denied(
                "spec.components[0].template.spec.template.spec.nodeName",
                "bypasses the scheduler",
            ),
        ),
    ]
}

pub(super) fn kinds() -> Vec<Row> {
    const KIND: &str = "spec.components[0].template.kind";
    let wrapping = |object: Value| Object(wrap(&[object, job("a")]));
    let inner = |version: &str| {
        let mut inner = object_of(&format!("workload.codeflare.dev/{version}"), "AppWrapper");
        inner["spec"] = json!({"components": []});
        inner
    };
    let mut list = object_of("v1", "List");
    list["items"] = json!([inner("v1beta2")]);
    let mut hidden = object_of("example.com/v1", "Template");
    hidden["spec"] = json!({"template": inner("v1beta1")});
    let mut rows = vec![
        row(
            "59",
            "unknown",
            wrapping(object_of("nowhere.example.com/v1", "Nothing")),
            denied("spec.components[0].template", "Nothing"),
        )
        .cluster(),
        row("60", "nested", wrapping(inner("v1beta2")), denied(KIND, "of any version")),
        row(
            "61",
            "nested in another version",
            wrapping(inner("v1beta1")),
            denied(KIND, "of any version"),
        ),
        row("62", "in a list", wrapping(list), denied(KIND, "must not be a list")),
        row(
            "62",
            "in a template",
            wrapping(hidden),
            denied("spec.components[0].template.spec.template.kind", "of any version"),
        ),
        // by the contract every namespaced kind is allowed that the user may create, unless the
        // configuration has a list
        // a kind with a namespace: by the list of kinds that the controller may create
        row(
            "63",
            "role",
            wrapping(object_of("rbac.authorization.k8s.io/v1", "Role")),
            denied(KIND, "the controller must be allowed to"),
        )
        .cluster(),
        row(
            "66",
            "subresource",
            wrapping(object_of("v1", "pods/exec")),
            denied(KIND, "must be a kind"),
        )
        .server("a DNS-1035 label must consist of"),
        row(
            "66",
            "token",
            wrapping(object_of("authentication.k8s.io/v1", "TokenRequest")),
            denied("spec.components[0].template", "TokenRequest"),
        )
        .cluster(),
    ];
    for (number, api_version, kind) in [
        ("58", "rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("58", "v1", "Namespace"),
        ("58", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("58", "v1", "Node"),
        ("63", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        ("64", "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        ("64", "apiregistration.k8s.io/v1", "APIService"),
        ("65", "certificates.k8s.io/v1", "CertificateSigningRequest"),
        ("65", "v1", "PersistentVolume"),
    ] {
        let given = wrapping(object_of(api_version, kind));
        rows.push(row(number, kind, given, denied("spec.components[0].template", kind)).cluster());
    }
    rows
}
