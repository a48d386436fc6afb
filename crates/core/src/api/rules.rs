//! Rules that the API server itself evaluates (CEL), so that they hold without a webhook.
//!
//! An object that is older than a rule and breaks it must not keep the controller from finishing that
//! object. The API server ignores violations in parts of the object that an update leaves unchanged; rules
//! about the whole object or the whole `spec` therefore only compare with the previous version.

use kube::core::Rule;

use super::NEW_COMPONENTS_MAX;

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

/// Templates stay as they are, but while a retry policy has memory pending, which the controller
/// writes into them. Compared both ways, since a field that only the left side has and no schema names
/// counts as equal. In their metadata no field but the name is known, so that labels can be exchanged
/// for annotations; only the webhook sees that. A spec that is unchanged, as in each write of the status, costs
/// less to compare than lists of templates.
pub(super) fn templates_stay() -> Rule {
    let (new, old) = ("self.spec.components", "oldSelf.spec.components");
    let same = |left: &str, right: &str| {
        format!("{left}.map(c, c.template) == {right}.map(c, c.template)")
    };
    Rule::new(format!(
        "!has(self.spec) || !has(oldSelf.spec) || \
         (self.spec == oldSelf.spec && oldSelf.spec == self.spec) || \
         (has(self.status) && has(self.status.pendingMemory) && \
         self.status.pendingMemory.size() > 0) || ({} && {})",
        same(new, old),
        same(old, new)
    ))
    .message("templates must not be changed")
    .field_path(".spec.components")
}

/// Components are neither added nor removed.
pub(super) fn components_stay() -> Rule {
    Rule::new("self.components.size() == oldSelf.components.size()")
        .message("must not be changed: no component can be added or removed")
        .field_path(".components")
}

/// Something of each pod set, `p`, stays. Compared by meaning, since Kueue writes the whole list
/// through types of its own: no pod sets are the same as an empty list of them.
pub(super) fn pod_sets_stay(what: &str) -> Rule {
    let of = |spec: &str| {
        format!("{spec}.components.map(c, has(c.podSets) ? c.podSets.map(p, {what}) : [])")
    };
    Rule::new(format!("{} == {}", of("self"), of("oldSelf")))
        .message("podSets must not be changed")
        .field_path(".components")
}

/// A field of `spec` is neither changed, nor added, nor removed.
pub(super) fn immutable(field: &str) -> Rule {
    Rule::new(same(field)).message("must not be changed").field_path(format!(".{field}"))
}

/// The same, unless the AppWrapper was suspended before.
pub(super) fn immutable_unless_suspended(field: &str) -> Rule {
    Rule::new(format!("(has(oldSelf.suspend) && oldSelf.suspend) || ({})", same(field)))
        .message("must not be changed while spec.suspend is false")
        .field_path(format!(".{field}"))
}

/// A field of `spec` is neither changed nor added later. The Go controller removes what it does not know,
/// and must be able to; who else may is said by a `ValidatingAdmissionPolicy`.
pub(super) fn never_set_later(field: &str) -> Rule {
    Rule::new(format!(
        "!has(self.{field}) || (has(oldSelf.{field}) && self.{field} == oldSelf.{field})"
    ))
    .message("must not be changed")
    .field_path(format!(".{field}"))
}

/// Rules on a field itself are not asked where it is added or removed.
fn same(field: &str) -> String {
    format!(
        "has(self.{field}) == has(oldSelf.{field}) && \
         (!has(self.{field}) || self.{field} == oldSelf.{field})"
    )
}
