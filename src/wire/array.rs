//! Arrays of messages. A decoded one borrows its bytes, which were validated when the message was read, and decodes its
//! elements again as they are walked; one to be written is a slice, or a function that hands out the elements one by one.

use std::fmt;

use zerocopy::FromBytes;
use zerocopy::byteorder::big_endian::I32;

use super::schema::Nullable;
use super::{Cursor, Malformed, Version, Wire, Writer};

/// The elements of an array field.
pub enum Array<'a, T> {
    /// As they came.
    Encoded(Encoded<'a>),
    /// To be written: these.
    Items(&'a [T]),
    /// To be written without a list in between: `each` pushes exactly `len` elements. Best given as a closure in place,
    /// `&|rows| ...`.
    Each {
        /// How many elements.
        len: usize,
        /// Pushes the elements in order.
        each: &'a Each<'a>,
    },
    /// To be written as they are: see [`Array::written`].
    Written(Encoded<'a>),
}

/// Pushes each element in order.
pub type Each<'a> = dyn Fn(&mut Rows<'_, '_>) + 'a;

/// Where the elements of an [`Array::Each`] go. An element may borrow what lives no longer than the push.
pub struct Rows<'w, 'b> {
    writer: &'w mut Writer<'b>,
    version: Version,
    pushed: usize,
    element: fn() -> &'static str,
}

impl Rows<'_, '_> {
    /// Writes the next element, which must be of the array's element type.
    #[inline]
    pub fn push<'e, R: Wire<'e>>(&mut self, row: R) {
        debug_assert_eq!((self.element)(), std::any::type_name::<R>(), "the array's own element type");
        if !self.is_full() {
            row.write(self.writer, self.version);
        }
        self.pushed += 1;
    }

    /// Whether the frame is too large already. The rest of it is not written, and need not be pushed: it will be thrown away.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.writer.is_full()
    }
}

/// Validated elements in the bytes of the message.
#[derive(Clone, Copy)]
pub struct Encoded<'a> {
    bytes: &'a [u8],
    len: usize,
    version: Version,
}

impl<T> Array<'_, T> {
    /// No elements.
    pub const EMPTY: Self = Array::Items(&[]);

    /// Elements whose bytes are there already: `bytes` are `len` of them, written in `version` or in one with the same
    /// layout. They are copied as they are when the array is written in that version.
    #[inline]
    pub const fn written<'a>(bytes: &'a [u8], len: usize, version: Version) -> Array<'a, T> {
        Array::Written(Encoded { bytes, len, version })
    }

    /// How many elements.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Array::Encoded(encoded) | Array::Written(encoded) => encoded.len,
            Array::Items(items) => items.len(),
            Array::Each { len, .. } => *len,
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, T: Wire<'a> + Clone> Array<'a, T> {
    /// The elements by value, in order.
    ///
    /// # Panics
    /// On [`Array::Each`] with elements, which is for writing only.
    #[inline]
    pub fn iter(&self) -> Iter<'a, T> {
        Iter(match *self {
            Array::Encoded(Encoded { bytes, len, version }) | Array::Written(Encoded { bytes, len, version }) => {
                Elements::Encoded { cursor: Cursor::new(bytes), left: len, version }
            }
            Array::Items(items) => Elements::Items(items.iter()),
            Array::Each { len: 0, .. } => Elements::Items([].iter()),
            Array::Each { .. } => panic!("these elements can only be written"),
        })
    }
}

impl<'a> Array<'a, i32> {
    /// A decoded run of int32 as it lies in the message; None for one to be written.
    #[inline]
    pub fn as_big_endian(&self) -> Option<&'a [I32]> {
        match self {
            Array::Encoded(encoded) => <[I32]>::ref_from_bytes(encoded.bytes).ok(),
            _ => None,
        }
    }
}

/// Walks over an [`Array`].
#[derive(Clone)]
pub struct Iter<'a, T>(Elements<'a, T>);

#[derive(Clone)]
enum Elements<'a, T> {
    Encoded { cursor: Cursor<'a>, left: usize, version: Version },
    Items(std::slice::Iter<'a, T>),
}

impl<'a, T> Iter<'a, T> {
    /// The bytes of the elements that are to come, as they came; none if the array was not decoded.
    pub fn rest(&self) -> &'a [u8] {
        match &self.0 {
            Elements::Encoded { cursor, .. } => cursor.rest(),
            Elements::Items(_) => &[],
        }
    }
}

impl<'a, T: Wire<'a> + Clone> Iterator for Iter<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Elements::Encoded { cursor, left, version } => {
                *left = left.checked_sub(1)?;
                // Cannot fail, the bytes were validated; if it did, the array would end here.
                T::read(cursor, *version).ok()
            }
            Elements::Items(items) => items.next().cloned(),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = match &self.0 {
            Elements::Encoded { left, .. } => *left,
            Elements::Items(items) => items.len(),
        };
        (len, Some(len))
    }
}

impl<'a, T: Wire<'a> + Clone> ExactSizeIterator for Iter<'a, T> {}

impl<'a, T: Wire<'a> + Clone> IntoIterator for &Array<'a, T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    #[inline]
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Array<'a, T> {
    #[inline]
    fn read(cursor: &mut Cursor<'a>, version: Version) -> Result<Self, Malformed> {
        match Self::read_nullable(cursor, version)? {
            Some(array) => Ok(array),
            None => Err(cursor.malformed("array is null", 0)),
        }
    }

    fn write(&self, writer: &mut Writer<'_>, version: Version) {
        writer.count(self.len(), version.flexible);
        match self {
            // A fixed size means an encoding that no version changes.
            Array::Encoded(encoded) if T::FIXED_SIZE.is_some() => writer.raw(encoded.bytes),
            Array::Written(encoded) => {
                assert_eq!(encoded.version, version, "elements were written in the version of the message");
                writer.raw(encoded.bytes);
            }
            Array::Encoded(encoded) => {
                let mut cursor = Cursor::new(encoded.bytes);
                for _ in 0..encoded.len {
                    let element = T::read(&mut cursor, encoded.version).expect("validated when the array was read");
                    element.write(writer, version);
                }
            }
            Array::Items(items) => items.iter().for_each(|element| element.write(writer, version)),
            Array::Each { len, each } => {
                let mut rows = Rows { writer, version, pushed: 0, element: std::any::type_name::<T> };
                each(&mut rows);
                assert!(rows.pushed == *len || rows.is_full(), "an array hands out as many elements as it says");
            }
        }
    }
}

impl<'a, T: Wire<'a>> Nullable<'a> for Array<'a, T> {
    #[inline]
    fn read_nullable(cursor: &mut Cursor<'a>, version: Version) -> Result<Option<Self>, Malformed> {
        let Some(len) = cursor.nullable_count(version.flexible)? else { return Ok(None) };
        let bytes = match T::FIXED_SIZE {
            Some(size) => cursor.take(len.saturating_mul(size), "array is cut short")?,
            None => {
                let start = cursor.rest();
                for _ in 0..len {
                    T::skip(cursor, version)?;
                }
                &start[..start.len() - cursor.remaining()]
            }
        };
        Ok(Some(Array::Encoded(Encoded { bytes, len, version })))
    }

    fn write_null(writer: &mut Writer<'_>, version: Version) {
        writer.null_count(version.flexible);
    }
}

impl<T> Clone for Array<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<'_, T> {}

impl<T> Default for Array<'_, T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<'a, T: Wire<'a> + Clone + PartialEq> PartialEq for Array<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && (self.is_empty() || self.iter().eq(other.iter()))
    }
}

impl<'a, T: Wire<'a> + Clone + fmt::Debug> fmt::Debug for Array<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Array::Each { len, .. } => write!(f, "[{len} elements]"),
            _ => f.debug_list().entries(self.iter()).finish(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    const CLASSIC: Version = Version { number: 0, flexible: false };
    const FLEXIBLE: Version = Version { number: 0, flexible: true };

    #[test]
    fn int32_runs_are_cast_in_place() {
        let bytes = [0, 0, 0, 2, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 77];
        let mut cursor = Cursor::new(&bytes);
        let array = Array::<i32>::read(&mut cursor, CLASSIC).unwrap();
        assert_eq!(cursor.remaining(), 1);
        let run = array.as_big_endian().unwrap();
        assert_eq!(run.as_ptr().cast(), bytes[4..].as_ptr());
        assert_eq!(run.iter().map(|value| value.get()).collect::<Vec<_>>(), [5, -1]);
        assert_eq!(array.iter().collect::<Vec<_>>(), [5, -1]);
        assert_eq!(array.iter().len(), 2);
    }

    #[test]
    fn all_ways_to_write_give_the_same_bytes() {
        fn written<'a>(array: Array<'a, Cow<'a, str>>, version: Version) -> Vec<u8> {
            let mut bytes = Vec::new();
            array.write(&mut Writer::new(&mut bytes), version);
            bytes
        }
        let items = ["a".into(), "bc".into()];
        let others = ["a".into(), "b".into()];
        for version in [CLASSIC, FLEXIBLE] {
            let from_items = written(Array::Items(&items), version);
            let none = Array::Each { len: 0, each: &|_| () };
            assert_eq!(none, Array::<Cow<'_, str>>::EMPTY, "as a tagged field is compared with its default");
            let each: &Each<'_> = &|rows| items.iter().for_each(|item: &Cow<'_, str>| rows.push(item.clone()));
            assert_eq!(written(Array::Each { len: 2, each }, version), from_items);
            let count_bytes = if version.flexible { 1 } else { 4 };
            let bytes = Array::written(&from_items[count_bytes..], 2, version);
            assert_eq!(bytes, Array::Items(&items));
            assert_eq!(written(bytes, version), from_items);
            let decoded = Array::read(&mut Cursor::new(&from_items), version).unwrap();
            assert_eq!(written(decoded, version), from_items);
            assert_eq!(decoded, Array::Items(&items));
            assert_ne!(decoded, Array::Items(&others));
            assert_ne!(decoded, Array::EMPTY);
        }
    }

    #[test]
    fn null_is_not_an_array_unless_allowed() {
        for bytes in [&[0xff, 0xff, 0xff, 0xff][..], &[0xff, 0xff, 0xff, 0xf0]] {
            assert!(Array::<i32>::read_nullable(&mut Cursor::new(bytes), CLASSIC).unwrap().is_none());
            assert_eq!(Array::<i32>::read(&mut Cursor::new(bytes), CLASSIC).unwrap_err().what, "array is null");
        }
    }

    #[test]
    fn a_run_that_is_cut_is_refused_before_it_is_walked() {
        let mut bytes = vec![0, 0, 0, 4];
        bytes.resize(4 + 15, 0);
        let malformed = Array::<i32>::read(&mut Cursor::new(&bytes), CLASSIC).unwrap_err();
        assert_eq!((malformed.need, malformed.have), (16, 15));
    }

    #[test]
    fn arrays_that_are_only_written_compare_with_the_empty_default() {
        assert_eq!(Array::Each::<i32> { len: 0, each: &|_| {} }, Array::default());
        assert_ne!(Array::Each::<i32> { len: 1, each: &|rows| rows.push(1) }, Array::default());
    }

    #[test]
    #[should_panic(expected = "as many elements as it says")]
    fn a_wrong_len_is_a_fault_of_ours() {
        Array::Each::<i32> { len: 2, each: &|rows| rows.push(1) }.write(&mut Writer::new(&mut Vec::new()), CLASSIC);
    }
}
