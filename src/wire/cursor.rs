//! Reading: a slice and how far into it. Every read checks what remains and borrows; only text that is not UTF-8
//! allocates. What a message consists of is the business of [`super::schema`].

use std::borrow::Cow;

use super::Malformed;
use super::text;

/// The longest string that the protocol can carry, in bytes, in either encoding.
pub const STRING_MAX_BYTES: usize = i16::MAX as usize;

/// A position in borrowed bytes.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte; offsets in errors count from there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes, total: bytes.len() }
    }

    /// How many bytes were read.
    #[inline]
    pub fn position(&self) -> usize {
        self.total - self.rest.len()
    }

    /// How many bytes are left. Behind a complete body these are ignored, as in Kafka, but worth counting.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// What is left, without moving.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes; `what` says in an error what they were to be.
    #[inline]
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.malformed(what, count));
        };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn take_array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.malformed(what, N));
        };
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte; anything but 0 is true.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        Ok(self.take_array::<1>("bool is cut short")?[0] != 0)
    }

    /// An int8.
    #[inline]
    pub fn i8(&mut self) -> Result<i8, Malformed> {
        self.take_array("int8 is cut short").map(i8::from_be_bytes)
    }

    /// An int16.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, Malformed> {
        self.take_array("int16 is cut short").map(i16::from_be_bytes)
    }

    /// An int32.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.take_array("int32 is cut short").map(i32::from_be_bytes)
    }

    /// An int64.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.take_array("int64 is cut short").map(i64::from_be_bytes)
    }

    /// 16 bytes.
    #[inline]
    pub fn uuid(&mut self) -> Result<[u8; 16], Malformed> {
        self.take_array("uuid is cut short")
    }

    /// At most 5 bytes of 7 bits, lowest first. As in Kafka, bits above the 32nd are dropped.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32, Malformed> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(u32::from(byte))
            }
            _ => self.uvarint_of_many_bytes(),
        }
    }

    fn uvarint_of_many_bytes(&mut self) -> Result<u32, Malformed> {
        let mut value = 0;
        for (index, &byte) in self.rest.iter().take(5).enumerate() {
            value |= u32::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        if self.rest.len() < 5 {
            return Err(self.malformed("uvarint is cut short", self.rest.len() + 1));
        }
        Err(self.malformed("uvarint is longer than 5 bytes", 6))
    }

    /// A length or count: int16 or int32 by `classic`, or the compact form (plus one). Negative is null, as in Kafka,
    /// which takes a compact length of 2^31 or more for a negative one.
    #[inline]
    fn length(
        &mut self,
        flexible: bool,
        classic: fn(&mut Self) -> Result<i32, Malformed>,
    ) -> Result<Option<usize>, Malformed> {
        let length = if flexible { self.uvarint()?.cast_signed().wrapping_sub(1) } else { classic(self)? };
        Ok(usize::try_from(length).ok())
    }

    /// A string or null, not decoded.
    #[inline]
    pub fn nullable_string_bytes(&mut self, flexible: bool) -> Result<Option<&'a [u8]>, Malformed> {
        let Some(length) = self.length(flexible, |cursor| cursor.i16().map(i32::from))? else {
            return Ok(None);
        };
        if length > STRING_MAX_BYTES {
            return Err(self.malformed_of("string is longer than 32767 bytes", length, STRING_MAX_BYTES));
        }
        self.take(length, "string is cut short").map(Some)
    }

    /// A string or null. Invalid UTF-8 reads as U+FFFD where Java would put it.
    #[inline]
    pub fn nullable_string(&mut self, flexible: bool) -> Result<Option<Cow<'a, str>>, Malformed> {
        Ok(self.nullable_string_bytes(flexible)?.map(text::decode))
    }

    /// Steps over a string; false if it was null.
    #[inline]
    pub fn skip_nullable_string(&mut self, flexible: bool) -> Result<bool, Malformed> {
        Ok(self.nullable_string_bytes(flexible)?.is_some())
    }

    /// Bytes (or records) or null.
    #[inline]
    pub fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<&'a [u8]>, Malformed> {
        match self.length(flexible, Self::i32)? {
            Some(length) => self.take(length, "bytes are cut short").map(Some),
            None => Ok(None),
        }
    }

    /// The count of an array or null. An element has at least one byte, so a count above what remains is refused here:
    /// nothing is ever allocated or looped for a count that the bytes cannot hold.
    #[inline]
    pub fn nullable_count(&mut self, flexible: bool) -> Result<Option<usize>, Malformed> {
        match self.length(flexible, Self::i32)? {
            Some(count) if count > self.remaining() => {
                Err(self.malformed("array has more elements than bytes remain", count))
            }
            count => Ok(count),
        }
    }

    /// The tag section at the end of a struct of a flexible version. `known` is called with each tag and reads its
    /// value, or returns false to have it skipped. As in Kafka the order of tags is not checked, a doubled one
    /// overwrites, and the size of a known one is not compared with what its value takes.
    #[inline]
    pub fn tags(&mut self, mut known: impl FnMut(&mut Self, u32) -> Result<bool, Malformed>) -> Result<(), Malformed> {
        let count = self.uvarint()?;
        if count > i32::MAX.cast_unsigned() {
            return Err(self.malformed("tag section has a negative count", count as usize));
        }
        for _ in 0..count {
            let tag = self.uvarint()?;
            let size = self.uvarint()?;
            if !known(self, tag)? {
                self.take(size as usize, "tagged field is cut short")?;
            }
        }
        Ok(())
    }

    /// An error here, with what remains as `have`.
    #[cold]
    #[inline(never)]
    pub fn malformed(&self, what: &'static str, need: usize) -> Malformed {
        self.malformed_of(what, need, self.remaining())
    }

    #[cold]
    #[inline(never)]
    fn malformed_of(&self, what: &'static str, need: usize, have: usize) -> Malformed {
        Malformed { what, field: "", offset: self.position(), need, have }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn uvarint(bytes: &[u8]) -> Result<(u32, usize), Malformed> {
        let mut cursor = Cursor::new(bytes);
        cursor.uvarint().map(|value| (value, cursor.position()))
    }

    #[test]
    fn uvarints() {
        assert_eq!(uvarint(&[0]), Ok((0, 1)));
        assert_eq!(uvarint(&[0x7f, 1]), Ok((127, 1)));
        assert_eq!(uvarint(&[0x80, 1]), Ok((128, 2)));
        assert_eq!(uvarint(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok((u32::MAX, 5)));
        // Kafka shifts the surplus bits of the fifth byte away.
        assert_eq!(uvarint(&[0x80, 0x80, 0x80, 0x80, 0x7f]), Ok((0xf000_0000, 5)));
        assert_eq!(uvarint(&[]).unwrap_err().need, 1);
        assert_eq!(uvarint(&[0x80, 0x80]).unwrap_err().what, "uvarint is cut short");
        assert_eq!(uvarint(&[0x80; 6]).unwrap_err().what, "uvarint is longer than 5 bytes");
    }

    #[test]
    fn a_negative_length_is_null_whatever_its_value() {
        for length in [-1i16, -2, i16::MIN] {
            assert_eq!(Cursor::new(&length.to_be_bytes()).nullable_string(false), Ok(None));
        }
        assert_eq!(Cursor::new(&i32::MIN.to_be_bytes()).nullable_bytes(false), Ok(None));
        assert_eq!(Cursor::new(&[0]).nullable_count(true), Ok(None));
        assert_eq!(Cursor::new(&[0x81, 0x80, 0x80, 0x80, 0x08]).nullable_count(true), Ok(None));
    }

    #[test]
    fn a_string_may_have_32767_bytes_and_no_more() {
        let mut bytes = vec![0x80, 0x80, 0x02];
        bytes.resize(3 + STRING_MAX_BYTES, b'x');
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(cursor.nullable_string(true).unwrap().unwrap().len(), STRING_MAX_BYTES);
        assert_eq!(cursor.remaining(), 0);
        bytes[0] = 0x81;
        bytes.push(b'x');
        assert_eq!(Cursor::new(&bytes).nullable_string(true).unwrap_err().need, STRING_MAX_BYTES + 1);
    }

    #[test]
    fn a_count_is_held_against_the_bytes_that_remain() {
        assert_eq!(Cursor::new(&[0, 0, 0, 2, 9, 9]).nullable_count(false), Ok(Some(2)));
        let malformed = Cursor::new(&[0, 0, 0, 3, 9, 9]).nullable_count(false).unwrap_err();
        assert_eq!((malformed.offset, malformed.need, malformed.have), (4, 3, 2));
    }

    #[test]
    fn unknown_tags_are_skipped_and_cut_ones_refused() {
        let mut cursor = Cursor::new(&[2, 9, 3, 1, 2, 3, 0x80, 1, 0, 7]);
        assert_eq!(cursor.tags(|_, _| Ok(false)), Ok(()));
        assert_eq!(cursor.remaining(), 1);
        assert_eq!(Cursor::new(&[1, 9, 3, 1, 2]).tags(|_, _| Ok(false)).unwrap_err().have, 2);
        let malformed = Cursor::new(&[0xff, 0xff, 0xff, 0xff, 7]).tags(|_, _| Ok(false)).unwrap_err();
        assert_eq!(malformed.what, "uvarint is cut short");
        let malformed = Cursor::new(&[0x80, 0x80, 0x80, 0x80, 8]).tags(|_, _| Ok(false)).unwrap_err();
        assert_eq!(malformed.what, "tag section has a negative count");
    }
}
