//! What is known to differ, and stays so.

/// Something that differs.
#[derive(Debug)]
pub struct Kept {
    pub what: What,
    pub why: &'static str,
}

/// What it is.
#[derive(Debug)]
pub enum What {
    /// A field of the metadata of an object.
    Metadata(&'static str),
    /// A field of a `Status`.
    Status(&'static str),
    /// A field of a `Status` that tells a failure.
    Failure(&'static str),
    /// A request that is answered differently.
    Request(Probe),
}

/// A request, and how both sides answer it.
#[derive(Debug)]
pub struct Probe {
    pub method: &'static str,
    /// Below `/api/v1` and a namespace.
    pub path: &'static str,
    pub content_type: &'static str,
    pub body: &'static str,
    /// The code of the simulated and of the real server.
    pub codes: (u16, u16),
}

const JSON: &str = "application/json";

/// All of it. The comparison drops these fields and no others; the requests are sent, and it is checked
/// that they still differ.
///
/// Besides, of built-in kinds only metadata and what `kinds.rs` names is compared, since their defaults
/// are not known. Not compared, because a comparison of moments would be needed: bookmarks of a watch,
/// and when a list's `continue` expires.
pub const KEPT: &[Kept] = &[
    Kept {
        what: What::Metadata("managedFields"),
        why: "nobody applies on the server's side, so nobody asks who owns a field",
    },
    Kept { what: What::Metadata("selfLink"), why: "no server sets it any more" },
    Kept { what: What::Status("message"), why: "texts are for people" },
    Kept { what: What::Status("metadata"), why: "it is empty" },
    Kept {
        what: What::Failure("details"),
        why: "values are not validated, so there are no causes; the message names the object",
    },
    Kept {
        what: What::Request(Probe {
            method: "POST",
            path: "configmaps",
            content_type: JSON,
            body: r#"{"metadata": {"name": "x", "labels": {"team": "not valid!"}}}"#,
            codes: (201, 422),
        }),
        why: "values are not validated",
    },
    Kept {
        what: What::Request(Probe {
            method: "POST",
            path: "configmaps",
            content_type: JSON,
            body: r#"{"metadata": {"name": "y", "labels": {"team": 5}}}"#,
            codes: (201, 400),
        }),
        why: "types of values are not validated",
    },
    Kept {
        what: What::Request(Probe {
            method: "POST",
            path: "configmaps",
            content_type: "application/yaml",
            body: "metadata: {name: z}",
            codes: (400, 201),
        }),
        why: "clients of this project speak JSON",
    },
    Kept {
        what: What::Request(Probe {
            method: "PATCH",
            path: "configmaps/z?fieldManager=test&force=true",
            content_type: "application/apply-patch+yaml",
            body: r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z"}}"#,
            codes: (415, 200),
        }),
        why: "nobody applies on the server's side",
    },
    Kept {
        what: What::Request(Probe {
            method: "PATCH",
            path: "configmaps/z",
            content_type: "application/strategic-merge-patch+json",
            body: "{}",
            codes: (415, 200),
        }),
        why: "strategic merge patches need to know each list of each kind; nobody sends them",
    },
    Kept {
        what: What::Request(Probe {
            method: "DELETE",
            path: "configmaps",
            content_type: JSON,
            body: "",
            codes: (405, 200),
        }),
        why: "nobody deletes collections",
    },
    Kept {
        what: What::Request(Probe {
            method: "GET",
            path: "configmaps?resourceVersionMatch=Exact",
            content_type: JSON,
            body: "",
            codes: (200, 422),
        }),
        why: "a list is always the newest, or the rest of one that was begun",
    },
    Kept {
        what: What::Request(Probe {
            method: "POST",
            path: "pods",
            content_type: JSON,
            body: r#"{"metadata": {"name": "p"}, "spec": {"schedulerName": "none"}}"#,
            codes: (201, 422),
        }),
        why: "specs of built-in kinds are not validated",
    },
    Kept {
        what: What::Request(Probe {
            method: "GET",
            path: "endpoints",
            content_type: JSON,
            body: "",
            codes: (404, 200),
        }),
        why: "only the kinds that somebody here uses, and no subresources but the status",
    },
];
