//! What the floor does about failures: what a controller does at least, by the example itself.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::Pin;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Semaphore;

use crate::failure::Failure;
use crate::objects::{self, Life, number};
use crate::observe::{Seen, Watch};
use crate::site::{NAMESPACE, Site};
use crate::stats::SECOND;

/// How many requests are made at the same time.
const AT_A_TIME: usize = 8;

type Work<'a> = FuturesUnordered<Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>>;

/// Deletes each pod that fails and creates it again 1 s after it is gone, as an AppWrapper with that pause
/// would have it. It ends only where that cannot be done.
pub async fn failed_pods(site: &Site, pods: &Watch, life: Life) -> Result<Infallible, Failure> {
    let (mut next, mut deleted) = (0, BTreeSet::new());
    let room = Semaphore::new(AT_A_TIME);
    let mut work: Work<'_> = FuturesUnordered::new();
    loop {
        tokio::select! {
            new = pods.after(next) => {
                let new = new?;
                next += new.len();
                for seen in new {
                    if seen.deleted {
                        work.push(Box::pin(create(site, &room, seen, life)));
                    } else if seen.phase == "Failed" && deleted.insert(seen.uid.clone()) {
                        work.push(Box::pin(delete(site, &room, seen)));
                    }
                }
            }
            Some(done) = work.next() => done?,
        }
    }
}

async fn delete(site: &Site, room: &Semaphore, seen: Seen) -> Result<(), Failure> {
    let _turn = room.acquire().await;
    let path = format!("{}/{}", objects::pods(NAMESPACE), seen.name);
    site.delete(number(&seen.name).unwrap_or_default(), &path).await
}

async fn create(site: &Site, room: &Semaphore, seen: Seen, life: Life) -> Result<(), Failure> {
    tokio::time::sleep(SECOND).await;
    let _turn = room.acquire().await;
    let pod = objects::pod(&seen.name, life);
    site.create(&objects::pods(NAMESPACE), &pod).await.map(drop)
}
