//! Which versions of Kubernetes and Kueue a control plane is made of.
//!
//! [`Versions::chosen`] reads the environment; the rest is pure.

use crate::env;
use crate::error::Error;
use crate::modules::{CONTROL_PLANE, GoModule, KUBERNETES_1_34, KUBERNETES_1_37, KUEUE_0_19};

/// The variable that chooses Kubernetes.
pub const KUBERNETES_VARIABLE: &str = "CONTROLPLANE_KUBERNETES";
/// The variable that chooses Kueue.
pub const KUEUE_VARIABLE: &str = "CONTROLPLANE_KUEUE";

/// A version of kube-apiserver, kube-controller-manager and kube-scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kubernetes {
    /// 1.34
    V1_34,
    /// 1.36
    #[default]
    V1_36,
    /// 1.37
    V1_37,
}

/// A version of Kueue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kueue {
    /// 0.18
    #[default]
    V0_18,
    /// 0.19
    V0_19,
}

/// The versions of one control plane. The other components have one version each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// That of Kubernetes.
    pub kubernetes: Kubernetes,
    /// That of Kueue.
    pub kueue: Kueue,
}

impl Kubernetes {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V1_34, Self::V1_36, Self::V1_37];

    /// Its name, major and minor.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1_34 => "1.34",
            Self::V1_36 => "1.36",
            Self::V1_37 => "1.37",
        }
    }

    /// The module that pins it.
    pub(crate) const fn go_module(self) -> GoModule {
        match self {
            Self::V1_34 => KUBERNETES_1_34,
            Self::V1_36 => CONTROL_PLANE,
            Self::V1_37 => KUBERNETES_1_37,
        }
    }
}

impl Kueue {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::V0_18, Self::V0_19];

    /// Its name, major and minor.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V0_18 => "0.18",
            Self::V0_19 => "0.19",
        }
    }

    /// The module that pins it.
    pub(crate) const fn go_module(self) -> GoModule {
        match self {
            Self::V0_18 => CONTROL_PLANE,
            Self::V0_19 => KUEUE_0_19,
        }
    }
}

impl Versions {
    /// Those that the environment chooses, by [`KUBERNETES_VARIABLE`] and [`KUEUE_VARIABLE`].
    ///
    /// # Errors
    ///
    /// [`Error::Version`] for a version that there is not.
    pub fn chosen() -> Result<Self, Error> {
        let of = |variable| env::variable(variable);
        Self::of(of(KUBERNETES_VARIABLE).as_deref(), of(KUEUE_VARIABLE).as_deref())
    }

    fn of(kubernetes: Option<&str>, kueue: Option<&str>) -> Result<Self, Error> {
        Ok(Self {
            kubernetes: find(KUBERNETES_VARIABLE, kubernetes, &Kubernetes::ALL, Kubernetes::name)?,
            kueue: find(KUEUE_VARIABLE, kueue, &Kueue::ALL, Kueue::name)?,
        })
    }
}

/// The version of a name; the default where none is chosen.
fn find<T: Copy + Default>(
    variable: &'static str,
    chosen: Option<&str>,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, Error> {
    let Some(chosen) = chosen else { return Ok(T::default()) };
    all.iter().copied().find(|version| name(*version) == chosen).ok_or_else(|| Error::Version {
        variable,
        chosen: chosen.to_owned(),
        known: all.iter().map(|version| name(*version)).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_the_one_of_its_module() {
        for version in Kubernetes::ALL {
            let pinned = version.go_module().version("k8s.io/kubernetes").expect("it is pinned");
            assert!(pinned.starts_with(&format!("v{}.", version.name())), "{version:?}: {pinned}");
        }
        for version in Kueue::ALL {
            let pinned = version.go_module().version("sigs.k8s.io/kueue").expect("it is pinned");
            assert!(pinned.starts_with(&format!("v{}.", version.name())), "{version:?}: {pinned}");
        }
    }

    #[test]
    fn the_environment_chooses_versions() {
        assert_eq!(Versions::of(None, None).expect("the defaults"), Versions::default());
        let chosen = Versions::of(Some("1.37"), Some("0.19")).expect("there are such versions");
        assert_eq!(chosen, Versions { kubernetes: Kubernetes::V1_37, kueue: Kueue::V0_19 });
        let error = Versions::of(Some("1.35"), None).expect_err("there is no such version");
        let want = "CONTROLPLANE_KUBERNETES=1.35: the test control plane has only 1.34, 1.36, 1.37";
        assert_eq!(error.to_string(), want);
    }
}
