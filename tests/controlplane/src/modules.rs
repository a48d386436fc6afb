//! The Go modules under `go/`. There are several because what they pin does not go together. Pure.

/// A directory under `go/`, with what it pins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoModule {
    /// Its name, below `go/`.
    pub(crate) dir: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
}

/// The module of a directory.
macro_rules! go_module {
    ($dir:literal) => {
        GoModule {
            dir: $dir,
            go_mod: include_str!(concat!("../go/", $dir, "/go.mod")),
            go_sum: include_str!(concat!("../go/", $dir, "/go.sum")),
        }
    };
}

/// All but the operators that have a module of their own.
pub(crate) const CONTROL_PLANE: GoModule = go_module!("control-plane");
/// Another Kubernetes in the place of the one of [`CONTROL_PLANE`].
pub(crate) const KUBERNETES_1_34: GoModule = go_module!("kubernetes-1.34");
/// The same.
pub(crate) const KUBERNETES_1_37: GoModule = go_module!("kubernetes-1.37");
/// Another Kueue in the place of the one of [`CONTROL_PLANE`].
pub(crate) const KUEUE_0_19: GoModule = go_module!("kueue-0.19");
pub(crate) const TRAINING: GoModule = go_module!("training");
pub(crate) const RAY: GoModule = go_module!("ray");
pub(crate) const TRAINER: GoModule = go_module!("trainer");
pub(crate) const LWS: GoModule = go_module!("lws");
pub(crate) const KUBECTL: GoModule = go_module!("kubectl");
pub(crate) const APPWRAPPER: GoModule = go_module!("appwrapper");
pub(crate) const KUBELET: GoModule = go_module!("kubelet");

impl GoModule {
    /// The version of a module that it pins, as in `v1.36.0`.
    pub(crate) fn version(self, module: &str) -> Option<&'static str> {
        pinned(self.go_mod, module)
    }

    /// The link flags: without them kube-apiserver says that it is v0.0.0, and clients that ask for
    /// its version refuse to work with it.
    pub(crate) fn ldflags(self) -> String {
        const VERSION: &str = "k8s.io/component-base/version";
        let own = self.version("k8s.io/kubernetes");
        let version = own.or_else(|| CONTROL_PLANE.version("k8s.io/kubernetes"));
        let version = version.unwrap_or("v0.0.0");
        let minor = version.split('.').nth(1).unwrap_or_default();
        format!(
            "-s -w -X {VERSION}.gitVersion={version} -X {VERSION}.gitMajor=1 \
             -X {VERSION}.gitMinor={minor}"
        )
    }

    /// What its binaries depend on, as a directory's name: FNV-1a, since it must be the same in each
    /// process and Rust release, and nobody attacks it.
    pub(crate) fn fingerprint(self) -> String {
        let ldflags = self.ldflags();
        let texts = [self.go_mod, self.go_sum, &ldflags];
        let hash = texts.into_iter().flat_map(str::bytes);
        let hash = hash.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

/// The version of a module in a `go.mod`.
fn pinned<'text>(go_mod: &'text str, module: &str) -> Option<&'text str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(module)).then(|| words.next()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_go_mod() {
        let go_mod = "require (\n\tk8s.io/kubernetes/x v1.2.3\n\tk8s.io/kubernetes v1.36.0 // y\n)";
        assert_eq!(pinned(go_mod, "k8s.io/kubernetes"), Some("v1.36.0"));
        assert!(CONTROL_PLANE.ldflags().contains("gitVersion=v1.36."));
        assert!(KUBERNETES_1_34.ldflags().contains("gitVersion=v1.34."));
    }

    #[test]
    fn kubectl_and_kubelet_are_of_the_version_of_the_server() {
        let version = |module: GoModule| module.version("k8s.io/kubernetes");
        let server = version(CONTROL_PLANE);
        assert!(server.is_some());
        assert_eq!([KUBECTL, KUBELET].map(version), [server; 2]);
    }
}
