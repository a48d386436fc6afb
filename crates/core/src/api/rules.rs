//! Rules that the API server itself evaluates (CEL), so that they hold without a webhook.
//!
//! An object that is older than a rule and breaks it must not keep the controller from finishing that
//! object. The API server ignores violations in parts of the object that an update leaves unchanged; rules
//! about the whole object or the whole `spec` therefore only compare with the previous version.

use kube::core::{Message, Rule};

use super::NEW_COMPONENTS_MAX;

/// Why a policy cannot be changed, and what to do first: with and without a queue it is the same command.
pub const UNLESS_SUSPENDED: &str = "must not be changed while spec.suspend is false; to suspend the \
    AppWrapper first: kubectl aw suspend NAME";

/// The name is a label, and Kueue and pods need room for a suffix. Names never change, so that an
/// object which is there is not asked.
pub(super) fn name_rule() -> Rule {
    Rule::new(
        "oldSelf.hasValue() || !has(self.metadata.name) || \
         (self.metadata.name.size() <= 61 && !self.metadata.name.contains('.'))",
    )
    .message("metadata.name must be 1 to 61 lower-case letters, digits or '-', without dots")
    .optional_old_self(true)
}

/// A new AppWrapper has fewer components than one that is stored already may have.
pub(super) fn few_components() -> Rule {
    Rule::new(format!(
        "oldSelf.hasValue() || !has(self.spec) || self.spec.components.size() <= {NEW_COMPONENTS_MAX}"
    ))
    .message(format!("spec.components must have at most {NEW_COMPONENTS_MAX} components").as_str())
    .optional_old_self(true)
}

/// `spec` cannot be removed and added again.
pub(super) fn spec_stays() -> Rule {
    Rule::new("has(self.spec) || !has(oldSelf.spec)")
        .message("must not be removed")
        .field_path(".spec")
}

/// Components are neither added nor removed, and their pod sets and templates stay as they are. One rule with
/// three messages: an update that leaves the components alone, as each write of the status does, pays for one
/// comparison.
pub(super) fn components_stay() -> Rule {
    let count = format!("{NEW}.size() == {OLD}.size()");
    Rule::new(format!(
        "{SAME_COMPONENTS} || !has(self.spec) || !has(oldSelf.spec) || \
         ({count} && {} && ({MEMORY_IS_PENDING} || ({})))",
        pod_sets_stay(),
        both_ways(".map(c, c.template)"),
    ))
    .message(Message::Expression(format!(
        "!({count}) ? 'must not be changed: no component can be added or removed' : \
         {} ? 'templates must not be changed' : 'podSets must not be changed'",
        pod_sets_stay()
    )))
    .field_path(".spec.components")
}

const NEW: &str = "self.spec.components";
const OLD: &str = "oldSelf.spec.components";

/// The components are equal, compared as elements of lists: then the API server compares plain values, and does not
/// build the schema of each object for each of its fields, which costs it ten times as much. (What follows in the rule
/// cannot be written so: the estimate of its cost, which takes each list to be as long as can be, would exceed the
/// limit.) Both ways, as [`both_ways`].
const SAME_COMPONENTS: &str =
    "[self.?spec.?components].all(n, [oldSelf.?spec.?components].all(o, n == o && o == n))";

/// While a RetryPolicy has memory pending, the controller writes it into the templates.
const MEMORY_IS_PENDING: &str = "(has(self.status) && has(self.status.pendingMemory) && \
     self.status.pendingMemory.size() > 0)";

/// Something of the components stays. Compared both ways, since a field that only the left side has and no schema
/// names counts as equal. In the metadata of a template no field but the name is known, so that labels can be
/// exchanged for annotations; only the webhook sees that.
fn both_ways(what: &str) -> String {
    format!("{NEW}{what} == {OLD}{what} && {OLD}{what} == {NEW}{what}")
}

/// Pod sets stay. Compared by meaning, since Kueue writes the whole list through types of its own: no pod sets
/// are the same as an empty list of them.
fn pod_sets_stay() -> String {
    let of = |components: &str, what: &str| {
        format!("{components}.map(c, has(c.podSets) ? c.podSets.map(p, {what}) : [])")
    };
    let stays = |what: &str| format!("{} == {}", of(NEW, what), of(OLD, what));
    [
        stays("p.path"),
        stays("has(p.replicas) ? p.replicas : 1"),
        stays("has(p.annotations) ? p.annotations : {}"),
    ]
    .join(" && ")
}

/// A field of `spec` is neither changed, nor added, nor removed. Rules on a field itself are not asked where it is added or
/// removed. The API server pays for each access to a field by the number of fields that its parent has, so that a field
/// which is not set is asked for once on each side.
pub(super) fn immutable(field: &str) -> Rule {
    Rule::new(format!(
        "has(self.{field}) ? has(oldSelf.{field}) && self.{field} == oldSelf.{field} : !has(oldSelf.{field})"
    ))
    .message("must not be changed")
    .field_path(format!(".{field}"))
}

/// The same as [`never_set_later`], unless the AppWrapper was suspended before.
pub(super) fn never_set_unless_suspended(field: &str) -> Rule {
    Rule::new(format!("{} || (has(oldSelf.suspend) && oldSelf.suspend)", same_or_removed(field)))
        .message(UNLESS_SUSPENDED)
        .field_path(format!(".{field}"))
}

/// A field of `spec` is neither changed nor added later. The Go controller removes what it does not know, and must be able
/// to: otherwise its finalizer would stay forever. Who else may is said by a `ValidatingAdmissionPolicy`.
pub(super) fn never_set_later(field: &str) -> Rule {
    Rule::new(same_or_removed(field)).message("must not be changed").field_path(format!(".{field}"))
}

fn same_or_removed(field: &str) -> String {
    format!("!has(self.{field}) || (has(oldSelf.{field}) && self.{field} == oldSelf.{field})")
}
