//! Reads a text: its requests, each as it stands there.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Malformed;

/// A call of a method.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Name of the method.
    pub method: Cow<'a, str>,
    /// Its parameters as they stand in the text.
    pub params: Option<&'a RawValue>,
}

/// A request, or why it is invalid.
pub(super) struct Request<'a> {
    /// The id of the answer; `None` if none is wanted.
    pub id: Option<&'a str>,
    pub call: Result<Call<'a>, Malformed<'a>>,
}

impl<'a> Request<'a> {
    fn of(fields: &Fields<'a>, boolean_ids: bool) -> Self {
        let is_id = |id: &str| !id.starts_with(['{', '[']) && (boolean_ids || !matches!(id, "true" | "false"));
        let id = fields.id.map(RawValue::get).filter(|id| is_id(id));
        let method = fields.method.and_then(|method| string(method.get()));
        let call = match method {
            _ if fields.jsonrpc.map(RawValue::get) != Some("\"2.0\"") => Err(Malformed::Version),
            _ if fields.id.is_some() && id.is_none() => Err(Malformed::Id),
            Some(method) => Ok(Call { method, params: fields.params }),
            None => Err(Malformed::Method),
        };
        // An invalid request always gets an answer: whether it wanted one is unknown.
        Self { id: id.or(call.is_err().then_some("null")), call }
    }

    fn of_text(text: &'a RawValue, boolean_ids: bool) -> Self {
        match serde_json::from_str::<Fields<'_>>(text.get()) {
            Ok(fields) => Self::of(&fields, boolean_ids),
            Err(_) => Self { id: Some("null"), call: Err(Malformed::NotAnObject(text.get())) },
        }
    }
}

/// The text of a JSON string.
fn string(json: &str) -> Option<Cow<'_, str>> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    match text.contains('\\') {
        true => serde_json::from_str(json).ok().map(Cow::Owned),
        false => Some(Cow::Borrowed(text)),
    }
}

/// Reads the one request of a text.
pub(super) fn read_one(text: &[u8], boolean_ids: bool) -> Result<Request<'_>, serde_json::Error> {
    serde_json::from_slice::<&RawValue>(text).map(|text| Request::of_text(text, boolean_ids))
}

/// Reads the requests of a batch: the first `most`, and one more where there are more.
pub(super) fn read_batch(text: &[u8], most: usize, boolean_ids: bool) -> Result<Vec<Request<'_>>, serde_json::Error> {
    // In one pass if all are objects; otherwise one by one.
    read_with::<Fields<'_>>(text, most, |fields| Request::of(&fields, boolean_ids))
        .or_else(|_| read_with::<&RawValue>(text, most, |text| Request::of_text(text, boolean_ids)))
}

fn read_with<'a, T: Deserialize<'a>>(
    text: &'a [u8],
    most: usize,
    request: impl Fn(T) -> Request<'a>,
) -> Result<Vec<Request<'a>>, serde_json::Error> {
    let mut requests = Vec::new();
    let push = |item: T| {
        requests.push(request(item));
        requests.len() <= most
    };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let batch = Batch { push, item: std::marker::PhantomData };
    match batch.deserialize(&mut deserializer).and_then(|()| deserializer.end()) {
        // Later requests are not even parsed.
        Err(_) if requests.len() > most => Ok(requests),
        result => result.map(|()| requests),
    }
}

/// Reads a batch until `push` returns false.
struct Batch<F, T> {
    push: F,
    item: std::marker::PhantomData<T>,
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> bool> DeserializeSeed<'de> for Batch<F, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> bool> Visitor<'de> for Batch<F, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            if !(self.push)(item) {
                return Err(A::Error::custom("too many"));
            }
        }
        Ok(())
    }
}

/// Fields of a request object; of duplicate names the last counts.
#[derive(Default)]
struct Fields<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
}

/// The name of a field.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Name {
    Jsonrpc,
    Id,
    Method,
    Params,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<Name>()? {
            let value: &'de RawValue = map.next_value()?;
            match name {
                Name::Jsonrpc => fields.jsonrpc = Some(value),
                Name::Id => fields.id = Some(value),
                Name::Method => fields.method = Some(value),
                Name::Params => fields.params = Some(value),
                Name::Other => {}
            }
        }
        Ok(fields)
    }
}
