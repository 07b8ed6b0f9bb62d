//! Codecs: how the types of a typed table are stored as bytes.
//!
//! ```text
//! u8 to u128, i8 to i128   little-endian, as many bytes as the type has
//! bool, [u8; N]            one byte, 0 or 1; the N bytes
//! str, String              UTF-8          [u8], Vec<u8>   the bytes
//! Json<T>                  JSON, with the feature `serde`
//! (A, B), (A, B, C)        one after another; before each but the last, if its length varies, its length as u32
//! ```
//!
//! The names are stored in the table (docs/format.md, "Root"), so they and the bytes never change.
//! Not here: the typed table (`typed.rs`).

use super::handle::Table;
use crate::error::Result;
#[cfg(feature = "serde")]
use serde_json::value::RawValue;
use std::borrow::{Borrow, Cow};
#[cfg(feature = "serde")]
use std::collections::BTreeMap;

/// A type that a [`TypedTable`](crate::TypedTable) can store. Implement it for your own types:
///
/// ```
/// use splitpoint::{Codec, Table};
/// use std::borrow::Cow;
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Point { x: u32, y: u32 }
///
/// impl Codec for Point {
///     type Owned = Point;
///     type View<'a> = Point;
///     type Encoded<'a> = [u8; 8];
///     fn name() -> Cow<'static, str> {
///         "my-program/Point".into()
///     }
///     fn encode(&self) -> [u8; 8] {
///         (u64::from(self.x) | u64::from(self.y) << 32).to_le_bytes()
///     }
///     fn decode(bytes: &[u8]) -> Option<Point> {
///         let both = u64::from_le_bytes(bytes.try_into().ok()?);
///         Some(Point { x: both as u32, y: (both >> 32) as u32 })
///     }
///     fn to_owned(view: Point) -> Point {
///         view
///     }
/// }
///
/// let table = Table::in_memory()?;
/// let places = table.typed::<str, Point>()?;
/// places.put("home", &Point { x: 3, y: 4 })?;
/// assert_eq!(places.get("home")?, Some(Point { x: 3, y: 4 }));
/// # Ok::<(), splitpoint::Error>(())
/// ```
pub trait Codec {
    /// The return type of [`TypedTable::get`](crate::TypedTable::get): the type itself, or `String` for `str`.
    type Owned: Borrow<Self>;
    /// The value, borrowed from its bytes where the type allows.
    type View<'a>;
    /// The bytes of a value.
    type Encoded<'a>: AsRef<[u8]>
    where
        Self: 'a;

    /// The number of bytes of all values, if they have one length.
    const BYTES: Option<usize> = None;

    /// The name of the encoding, which a table records: the same for ever, and of no other encoding.
    fn name() -> Cow<'static, str>;

    /// The bytes of this value.
    fn encode(&self) -> Self::Encoded<'_>;

    /// [`encode`](Self::encode) of a type of which some values have no encoding. Typed tables call this.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
    #[inline]
    fn try_encode(&self) -> Result<Self::Encoded<'_>> {
        Ok(self.encode())
    }

    /// The value of these bytes; `None` if there is none.
    fn decode(bytes: &[u8]) -> Option<Self::View<'_>>;

    /// Makes a view independent of the bytes.
    fn to_owned(view: Self::View<'_>) -> Self::Owned;

    /// [`decode`](Self::decode) of bytes that may be kept.
    #[doc(hidden)] // an allocation less for strings
    fn decode_vec(bytes: Vec<u8>) -> Option<Self::Owned> {
        Self::decode(&bytes).map(Self::to_owned)
    }

    /// The value under `key`, with the number of its bytes if they do not decode.
    #[doc(hidden)] // no allocation for numbers
    fn read(table: &Table, key: &[u8]) -> Result<Option<std::result::Result<Self::Owned, usize>>> {
        let mut bytes = Vec::new();
        if !table.get_into(key, &mut bytes)? {
            return Ok(None);
        }
        let len = bytes.len();
        Ok(Some(Self::decode_vec(bytes).ok_or(len)))
    }
}

/// A codec of values of `$bytes` bytes, which are read to the stack.
macro_rules! fixed {
    ($bytes:expr) => {
        const BYTES: Option<usize> = Some($bytes);

        #[inline]
        fn read(table: &Table, key: &[u8]) -> Result<Option<std::result::Result<Self, usize>>> {
            let mut bytes = [0; $bytes];
            let Some(len) = table.get_to(key, &mut bytes)? else { return Ok(None) };
            Ok(Some(bytes.get(..len).and_then(Self::decode).ok_or(len)))
        }
    };
}

macro_rules! numbers {
    ($($number:ident),*) => {$(
        impl Codec for $number {
            type Owned = $number;
            type View<'a> = $number;
            type Encoded<'a> = [u8; size_of::<$number>()];
            fixed!(size_of::<$number>());

            fn name() -> Cow<'static, str> {
                stringify!($number).into()
            }

            #[inline]
            fn encode(&self) -> [u8; size_of::<$number>()] {
                self.to_le_bytes()
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Option<$number> {
                bytes.try_into().ok().map($number::from_le_bytes)
            }

            fn to_owned(view: $number) -> $number {
                view
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

impl Codec for bool {
    type Owned = bool;
    type View<'a> = bool;
    type Encoded<'a> = [u8; 1];
    fixed!(1);

    fn name() -> Cow<'static, str> {
        "bool".into()
    }

    fn encode(&self) -> [u8; 1] {
        [(*self).into()]
    }

    fn decode(bytes: &[u8]) -> Option<bool> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn to_owned(view: bool) -> bool {
        view
    }
}

impl<const N: usize> Codec for [u8; N] {
    type Owned = [u8; N];
    type View<'a> = &'a [u8; N];
    type Encoded<'a> = &'a [u8; N];

    const BYTES: Option<usize> = Some(N);

    fn name() -> Cow<'static, str> {
        format!("[u8; {N}]").into()
    }

    fn encode(&self) -> &[u8; N] {
        self
    }

    fn decode(bytes: &[u8]) -> Option<&[u8; N]> {
        bytes.try_into().ok()
    }

    fn to_owned(view: &[u8; N]) -> [u8; N] {
        *view
    }
}

/// A type encoded as its raw bytes, and the owned type with the same encoding.
macro_rules! borrowed {
    ($borrowed:ty, $owned:ty, $name:literal, $decode:expr, $decode_vec:expr) => {
        impl Codec for $borrowed {
            type Owned = $owned;
            type View<'a> = &'a $borrowed;
            type Encoded<'a> = &'a $borrowed;

            fn name() -> Cow<'static, str> {
                $name.into()
            }

            fn encode(&self) -> &$borrowed {
                self
            }

            fn decode(bytes: &[u8]) -> Option<&$borrowed> {
                $decode(bytes)
            }

            fn to_owned(view: &$borrowed) -> $owned {
                view.into()
            }

            fn decode_vec(bytes: Vec<u8>) -> Option<$owned> {
                $decode_vec(bytes)
            }
        }

        impl Codec for $owned {
            type Owned = $owned;
            type View<'a> = &'a $borrowed;
            type Encoded<'a> = &'a $borrowed;

            fn name() -> Cow<'static, str> {
                $name.into()
            }

            fn encode(&self) -> &$borrowed {
                self
            }

            fn decode(bytes: &[u8]) -> Option<&$borrowed> {
                $decode(bytes)
            }

            fn to_owned(view: &$borrowed) -> $owned {
                view.into()
            }

            fn decode_vec(bytes: Vec<u8>) -> Option<$owned> {
                $decode_vec(bytes)
            }
        }
    };
}

borrowed!(str, String, "str", |bytes| std::str::from_utf8(bytes).ok(), |bytes| String::from_utf8(bytes).ok());
borrowed!([u8], Vec<u8>, "bytes", Some, Some);

/// Appends one element of a tuple that is not the last.
fn encode_element<T: Codec>(element: &T, out: &mut Vec<u8>) -> Result<()> {
    let bytes = element.try_encode()?;
    let bytes = bytes.as_ref();
    if T::BYTES.is_none() {
        // A longer element makes the whole too long for a table, which refuses it.
        out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// Takes one element of a tuple that is not the last from the front of `bytes`.
fn decode_element<'a, T: Codec>(bytes: &mut &'a [u8]) -> Option<T::View<'a>> {
    let len = match T::BYTES {
        Some(len) => len,
        None => {
            let (len, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            u32::from_le_bytes(*len) as usize
        }
    };
    let (element, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    T::decode(element)
}

/// A value that is stored as JSON: any type that serde serializes. With the feature `serde`.
///
/// Python's `"json"` is the same encoding. Keys are compared by their bytes, so the members of each object are sorted
/// by name: equal maps are one key, in whatever order they were filled.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use splitpoint::{Json, Table};
///
/// #[derive(Serialize, Deserialize)]
/// struct User { name: String, age: u32 }
///
/// let table = Table::in_memory()?;
/// let users = table.typed::<u64, Json<User>>()?;
/// users.put(&7, &Json(User { name: "Alice".to_owned(), age: 30 }))?;
/// assert_eq!(users.get(&7)?.map(|user| user.0.age), Some(30));
/// assert_eq!(table.types(), "u64 -> json");
/// # Ok::<(), splitpoint::Error>(())
/// ```
#[cfg(feature = "serde")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Codec for Json<T> {
    type Owned = Json<T>;
    type View<'a> = Json<T>;
    type Encoded<'a>
        = Vec<u8>
    where
        Self: 'a;

    fn name() -> Cow<'static, str> {
        "json".into()
    }

    fn encode(&self) -> Vec<u8> {
        self.try_encode().unwrap_or_default() // no value decodes from nothing
    }

    fn try_encode(&self) -> Result<Vec<u8>> {
        let written = serde_json::to_string(&self.0);
        written.and_then(|text| if text.contains('{') { sorted(&text) } else { Ok(text.into_bytes()) }).map_err(
            |error| {
                let what = format!("a value that is not JSON: {error}");
                crate::Error::new(crate::ErrorKind::InvalidArgument, what)
            },
        )
    }

    fn decode(bytes: &[u8]) -> Option<Json<T>> {
        serde_json::from_slice(bytes).ok().map(Json)
    }

    fn to_owned(view: Json<T>) -> Json<T> {
        view
    }
}

/// JSON with the members of each object sorted by name.
#[cfg(feature = "serde")]
fn sorted(text: &str) -> serde_json::Result<Vec<u8>> {
    fn write(text: &str, sorted: &mut Vec<u8>) -> serde_json::Result<()> {
        match text.as_bytes().first() {
            Some(b'{') => {
                let members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
                sorted.push(b'{');
                for (index, (name, value)) in members.iter().enumerate() {
                    sorted.extend_from_slice(if index == 0 { b"" } else { b"," });
                    serde_json::to_writer(&mut *sorted, name)?;
                    sorted.push(b':');
                    write(value.get(), sorted)?;
                }
                sorted.push(b'}');
            }
            Some(b'[') => {
                let elements: Vec<&RawValue> = serde_json::from_str(text)?;
                sorted.push(b'[');
                for (index, element) in elements.iter().enumerate() {
                    sorted.extend_from_slice(if index == 0 { b"" } else { b"," });
                    write(element.get(), sorted)?;
                }
                sorted.push(b']');
            }
            _ => sorted.extend_from_slice(text.as_bytes()),
        }
        Ok(())
    }
    let mut out = Vec::with_capacity(text.len());
    write(text, &mut out)?;
    Ok(out)
}

macro_rules! tuples {
    ($(($($first:ident $at:tt),*; $last:ident $last_at:tt))*) => {$(
        impl<$($first: Codec<Owned = $first>,)* $last: Codec<Owned = $last>> Codec for ($($first,)* $last) {
            type Owned = Self;
            type View<'a> = ($($first::View<'a>,)* $last::View<'a>);
            type Encoded<'a> = Vec<u8> where Self: 'a;

            const BYTES: Option<usize> = {
                let mut sum = $last::BYTES;
                $(sum = match (sum, $first::BYTES) {
                    (Some(sum), Some(bytes)) => Some(sum + bytes),
                    _ => None,
                };)*
                sum
            };

            fn name() -> Cow<'static, str> {
                let names = [$($first::name(),)* $last::name()];
                format!("({})", names.join(", ")).into()
            }

            fn encode(&self) -> Vec<u8> {
                self.try_encode().unwrap_or_default() // no value decodes from nothing if an element can fail
            }

            fn try_encode(&self) -> Result<Vec<u8>> {
                let mut out = Vec::new();
                $(encode_element(&self.$at, &mut out)?;)*
                out.extend_from_slice(self.$last_at.try_encode()?.as_ref());
                Ok(out)
            }

            fn decode(mut bytes: &[u8]) -> Option<Self::View<'_>> {
                Some(($(decode_element::<$first>(&mut bytes)?,)* $last::decode(bytes)?))
            }

            fn to_owned(view: Self::View<'_>) -> Self {
                ($($first::to_owned(view.$at),)* $last::to_owned(view.$last_at))
            }
        }
    )*};
}

tuples! {
    (A 0; B 1)
    (A 0, B 1; C 2)
    (A 0, B 1, C 2; D 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Debug;

    fn comes_back<T: Codec<Owned = T> + Debug + PartialEq>(value: T) {
        let encoded = value.encode();
        let bytes = encoded.as_ref();
        assert!(T::BYTES.is_none_or(|len| len == bytes.len()));
        let decoded = T::decode_vec(bytes.to_vec());
        drop(encoded);
        assert_eq!(decoded, Some(value));
    }

    proptest! {
        #[test]
        fn every_value_comes_back(
            numbers: (u64, i128, u8, i16),
            flags: (bool, bool),
            bytes: [u8; 7],
            texts: (String, Vec<u8>, String),
        ) {
            comes_back(numbers);
            comes_back(flags);
            comes_back((bytes, numbers.0));
            comes_back((texts.0.clone(), bytes, texts.1.clone()));
            comes_back(((texts.0.clone(), numbers.2), (texts.1, flags.1), texts.2));
            comes_back(texts.0);
        }

        #[test]
        fn any_bytes_decode_to_what_encodes_to_them_or_to_nothing(bytes: Vec<u8>) {
            if let Some(value) = <(String, u16, Vec<u8>)>::decode_vec(bytes.clone()) {
                prop_assert_eq!(value.encode(), bytes.clone());
            }
            if let Some(value) = <(u8, bool)>::decode_vec(bytes.clone()) {
                prop_assert_eq!(value.encode(), bytes);
            }
        }
    }

    #[test]
    fn bytes_and_names_never_change() {
        assert_eq!(7u32.encode(), [7, 0, 0, 0]);
        assert_eq!((-2i16, "ab".to_owned(), true).encode(), [0xFE, 0xFF, 2, 0, 0, 0, b'a', b'b', 1]);
        assert_eq!(<((u8, String), [u8; 3], Vec<u8>)>::name(), "((u8, str), [u8; 3], bytes)");
    }
}
