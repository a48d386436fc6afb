//! Starts a control plane with one real node, to look at by hand, until Ctrl-C. As root.
//!
//! ```text
//! cargo run -p controlplane --example node
//! ```

use std::io::Write;

use controlplane::{ControlPlane, Image, NodeOptions, Options, RealNode};
use tokio::time::Instant;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut stdout = std::io::stdout();
    if let Some(obstacle) = RealNode::obstacle() {
        writeln!(stdout, "no real node: {obstacle}")?;
        return Ok(());
    }
    let start = Instant::now();
    let options = Options { nodes: 0, service_accounts: true, ..Options::default() };
    let plane = ControlPlane::start(options).await?;
    let options = NodeOptions { name: "real-0".to_owned(), memory_mib: None };
    let node = RealNode::start(&plane, options).await?;
    let busybox = Image::new("test/busybox:1").program("busybox", "/bin/busybox");
    node.load(&busybox.called("/bin/busybox", &["sh", "sleep", "cat"]))?;
    writeln!(stdout, "ready after {:.1} s; Ctrl-C ends it", start.elapsed().as_secs_f32())?;
    writeln!(stdout, "export KUBECONFIG={}", plane.kubeconfig().display())?;
    writeln!(stdout, "logs of {}: {}", node.name(), node.dir().display())?;
    tokio::signal::ctrl_c().await?;
    node.stop().await;
    plane.stop().await;
    Ok(())
}
