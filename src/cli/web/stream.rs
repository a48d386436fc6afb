//! The changes of the list as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use super::rows::{RowChange, Rows};

/// Rows of one message: the page draws the first before the last is sent.
const ROWS_OF_A_MESSAGE: usize = 500;
/// A comment after so long shows whether somebody still looks on.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Somebody who looks on.
struct Reader {
    rows: Arc<Rows>,
    changes: broadcast::Receiver<Arc<RowChange>>,
    /// What is sent next.
    pending: Vec<String>,
}

/// The rows as they are, and their changes, for as long as the reader stays.
pub(super) fn events(rows: &Arc<Rows>) -> Response {
    let reader = Reader::new(rows.clone());
    let messages = stream::unfold(reader, |mut reader| async move {
        let message = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(message), reader))
    });
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(messages)).into_response()
}

impl Reader {
    fn new(rows: Arc<Rows>) -> Self {
        let (now, changes) = rows.follow();
        let pending = beginning(now);
        Self { rows, changes, pending }
    }

    /// The next message; none where there will be no more.
    async fn next(&mut self) -> Option<String> {
        if let Some(message) = self.pending.pop() {
            return Some(message);
        }
        match timeout(SILENCE_MAX, self.changes.recv()).await {
            Ok(Ok(change)) => Some(message("change", &change)),
            // it is too far behind: it starts again
            Ok(Err(RecvError::Lagged(_))) => {
                let (now, changes) = self.rows.follow();
                (self.changes, self.pending) = (changes, beginning(now));
                self.pending.pop()
            }
            Ok(Err(RecvError::Closed)) => None,
            Err(_) => Some(": \n\n".to_owned()),
        }
    }
}

/// The messages of all rows, the first last.
fn beginning(now: RowChange) -> Vec<String> {
    let RowChange { set, complete, problem, .. } = now;
    let mut messages = vec![message("reset", &RowChange::default())];
    let chunks = set.chunks(ROWS_OF_A_MESSAGE);
    messages
        .extend(chunks.map(|set| {
            message("change", &RowChange { set: set.to_vec(), ..RowChange::default() })
        }));
    messages.push(message("change", &RowChange { complete, problem, ..RowChange::default() }));
    messages.reverse();
    messages
}

/// One message. JSON has no line breaks of its own.
fn message(event: &str, change: &RowChange) -> String {
    let data = serde_json::to_string(change).unwrap_or_default();
    format!("event: {event}\ndata: {data}\n\n")
}
