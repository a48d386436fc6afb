//! Pods in protobuf, which are made JSON of here. The API server encodes a pod in protobuf once for all its clients, while
//! JSON is for this one alone: in JSON, a gang costs it a seventh more CPU time.
//!
//! Only what [`PodRecord`](crate::observe::pod_record::PodRecord) reads of a pod is decoded: a request must ask for
//! protobuf itself, or be a watch of pods.

mod messages;

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue, header};
use http_body::Frame;
use http_body_util::{BodyDataStream, StreamBody};
use prost::Message;
use tower::BoxError;

use messages::{Pod, PodList, Status, TypeMeta, Unknown, WatchEvent};

const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What a request accepts that asks for protobuf; a server without it answers in JSON.
pub const ACCEPT: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");
/// What a document begins with.
const MAGIC: &[u8] = b"k8s\0";
/// The most bytes of an event: more than etcd stores in an object.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// An answer in protobuf that is not one.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// It does not begin as one does.
    #[error("the API server sent no protobuf document")]
    NoDocument,
    /// It has a kind that nobody asked for.
    #[error("the API server sent a {0:?} in protobuf")]
    Kind(String),
    /// A message cannot be decoded.
    #[error("the API server sent malformed protobuf")]
    Decode(#[from] prost::DecodeError),
    /// A message cannot be written as JSON.
    #[error("an object cannot be written as JSON")]
    Encode(#[from] serde_json::Error),
    /// An event is too large.
    #[error("an event has {0} bytes; the limit is {EVENT_BYTES_MAX}")]
    TooLarge(usize),
    /// A watch ended within an event.
    #[error("the watch ended within an event")]
    Cut,
}

/// Whether an answer is in protobuf.
pub fn is_it(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|value| value.starts_with(MEDIA_TYPE))
}

/// A document as JSON: a pod, a list of pods, or a `Status`.
pub fn json(document: &Bytes) -> Result<Vec<u8>, Malformed> {
    let Some(message) = document.strip_prefix(MAGIC) else { return Err(Malformed::NoDocument) };
    let Unknown { type_meta, raw } = Unknown::decode(document.slice_ref(message))?;
    let Some(TypeMeta { api_version, kind }) = type_meta else { return Err(Malformed::NoDocument) };
    let mut text = serde_json::to_vec(&TypeMeta { api_version, kind: kind.clone() })?;
    text.pop();
    let at = text.len();
    match kind.as_str() {
        "Pod" => {
            let mut pod = Pod::decode(raw)?;
            pod.drop_unread();
            serde_json::to_writer(&mut text, &pod)?;
        }
        "PodList" => {
            let mut list = PodList::decode(raw)?;
            list.items.iter_mut().for_each(Pod::drop_unread);
            serde_json::to_writer(&mut text, &list)?;
        }
        "Status" => serde_json::to_writer(&mut text, &Status::decode(raw)?)?,
        _ => return Err(Malformed::Kind(kind)),
    }
    text[at] = b','; // each of the three has metadata, so that neither object is empty
    Ok(text)
}

/// The events of a watch as lines of JSON.
pub fn lines<B>(body: B) -> StreamBody<impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let state = (Box::pin(BodyDataStream::new(body)), BytesMut::new());
    StreamBody::new(futures::stream::try_unfold(state, |(mut body, mut read)| async move {
        loop {
            if let Some(event) = next(&mut read)? {
                return Ok(Some((Frame::data(line(event)?), (body, read))));
            }
            match body.next().await {
                Some(more) => read.extend_from_slice(&more.map_err(Into::into)?),
                None if read.is_empty() => return Ok(None),
                None => return Err(Malformed::Cut.into()),
            }
        }
    }))
}

/// The first event of what was read, where it is complete: four bytes say how long it is.
fn next(read: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
    let Some(mut length) = read.get(..4) else { return Ok(None) };
    let length = usize::try_from(length.get_u32()).unwrap_or(usize::MAX);
    if length > EVENT_BYTES_MAX {
        return Err(Malformed::TooLarge(length));
    }
    if read.len() < 4 + length {
        return Ok(None);
    }
    read.advance(4);
    Ok(Some(read.split_to(length).freeze()))
}

fn line(event: Bytes) -> Result<Bytes, Malformed> {
    let WatchEvent { kind, object } = WatchEvent::decode(event)?;
    let object = json(&object.unwrap_or_default().raw)?;
    let kind = serde_json::to_string(&kind)?;
    Ok([b"{\"type\":", kind.as_bytes(), b",\"object\":", &object, b"}\n"].concat().into())
}

#[cfg(test)]
mod tests;
