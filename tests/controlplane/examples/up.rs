//! Starts a control plane with the operators of most tests, to look at by hand, until Ctrl-C.
//!
//! ```text
//! cargo run -p controlplane --example up
//! kubectl --kubeconfig <the path it prints> get nodes
//! ```

use std::io::Write;

use controlplane::{ControlPlane, Options};
use tokio::time::Instant;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let options = Options {
        jobset: true,
        training: true,
        ray: true,
        kueue: true,
        audit: true,
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await?;
    let path = plane.kubeconfig().display();
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ready after {:.1} s; Ctrl-C ends it", start.elapsed().as_secs_f32())?;
    writeln!(stdout, "export KUBECONFIG={path}")?;
    tokio::signal::ctrl_c().await?;
    plane.stop().await;
    Ok(())
}
