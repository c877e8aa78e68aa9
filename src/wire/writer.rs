//! Writing: appends to a byte vector, as a rule the output buffer of a connection. Sizes that are known only afterwards
//! are patched, so a reply is encoded once and in place.

use super::cursor::STRING_MAX_BYTES;
use super::text;
use crate::limits::RESPONSE_MAX_BYTES;

/// Appends the protocol's primitives to a vector.
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut Vec<u8>,
    /// Above this length of the buffer no more elements of arrays are written.
    full_at: usize,
    first_error: i16,
}

/// Where a frame begins; [`Writer::end_frame`] wants it back.
#[derive(Clone, Copy, Debug)]
#[must_use = "the frame's size is written by end_frame"]
pub struct FrameStart(usize);

impl<'b> Writer<'b> {
    /// Appends behind what the vector holds.
    #[inline]
    pub fn new(buffer: &'b mut Vec<u8>) -> Self {
        Writer { buffer, full_at: usize::MAX, first_error: 0 }
    }

    /// The first error code other than 0 in what was written by this writer, at the top or in a row; 0 if there is none.
    #[inline]
    pub fn first_error(&self) -> i16 {
        self.first_error
    }

    /// Takes note of a code that is written.
    #[inline]
    pub fn note_error(&mut self, code: i16) {
        if self.first_error == 0 {
            self.first_error = code;
        }
    }

    /// Bytes in the buffer, with those that were there before.
    #[inline]
    pub fn position(&self) -> usize {
        self.buffer.len()
    }

    /// Leaves room for the int32 size. From here on the writer is full once the frame is larger than any reply may be.
    #[inline]
    pub fn begin_frame(&mut self) -> FrameStart {
        let start = FrameStart(self.buffer.len());
        self.full_at = start.0 + RESPONSE_MAX_BYTES;
        self.i32(0);
        start
    }

    /// Writes the size of all that came since `start`.
    #[inline]
    pub fn end_frame(&mut self, start: FrameStart) {
        let (_, frame) = self.buffer.split_at_mut(start.0);
        let (size, body) = frame.split_first_chunk_mut::<4>().expect("begin_frame left room for the size");
        *size = i32::try_from(body.len()).expect("a frame is smaller than 2 GiB").to_be_bytes();
    }

    /// Whether the frame is larger than any reply may be: it is not complete then, and must be abandoned.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.buffer.len() > self.full_at
    }

    /// Drops all that came since `start`, the size included.
    pub fn abandon_frame(&mut self, start: FrameStart) {
        self.buffer.truncate(start.0);
    }

    /// Bytes as they are, without a length.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// 1 or 0.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.buffer.push(u8::from(value));
    }

    /// An int8.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.buffer.push(value.cast_unsigned());
    }

    /// An int16.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.raw(&value.to_be_bytes());
    }

    /// An int32.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    /// An int64.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.raw(&value.to_be_bytes());
    }

    /// 7 bits a byte, lowest first.
    #[inline]
    pub fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.buffer.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.buffer.push(value as u8);
    }

    /// A length or count in its compact form: one more, so that 0 is null.
    #[inline]
    fn compact_length(&mut self, length: usize) {
        self.uvarint(u32::try_from(length).expect("what is written is smaller than 4 GiB").saturating_add(1));
    }

    /// A string. More than 32767 bytes cannot be expressed: the rest is cut off between two characters. (Such text
    /// comes about when a peer's invalid UTF-8, three times as long once replaced, is sent back.)
    #[inline]
    pub fn string(&mut self, value: &str, flexible: bool) {
        let value = if value.len() > STRING_MAX_BYTES { text::truncated(value, STRING_MAX_BYTES) } else { value };
        if flexible {
            self.compact_length(value.len());
        } else {
            self.i16(value.len() as i16);
        }
        self.raw(value.as_bytes());
    }

    /// A string that is null.
    #[inline]
    pub fn null_string(&mut self, flexible: bool) {
        if flexible { self.uvarint(0) } else { self.i16(-1) }
    }

    /// Bytes or records with their length.
    #[inline]
    pub fn bytes(&mut self, value: &[u8], flexible: bool) {
        self.count(value.len(), flexible);
        self.raw(value);
    }

    /// The count of an array, or the length of bytes.
    #[inline]
    pub fn count(&mut self, count: usize, flexible: bool) {
        if flexible {
            self.compact_length(count);
        } else {
            self.i32(i32::try_from(count).expect("what is written is smaller than 2 GiB"));
        }
    }

    /// The count of an array, or the length of bytes, that is null.
    #[inline]
    pub fn null_count(&mut self, flexible: bool) {
        if flexible { self.uvarint(0) } else { self.i32(-1) }
    }

    /// One field of a tag section: tag, size, value. The size is found afterwards; a value of 128 bytes and more is
    /// moved to make room for it.
    pub fn tagged(&mut self, tag: u32, value: impl FnOnce(&mut Writer<'_>)) {
        self.uvarint(tag);
        let size_at = self.buffer.len();
        self.buffer.push(0);
        let start = self.buffer.len();
        value(self);
        let size = self.buffer.len() - start;
        if size < 0x80 {
            self.buffer[size_at] = size as u8;
            return;
        }
        let end = self.buffer.len();
        self.uvarint(u32::try_from(size).expect("a tagged field is smaller than 4 GiB"));
        // Now placeholder, value, size: the size goes in front of the value, the placeholder away.
        let size_bytes = self.buffer.len() - end;
        self.buffer[start..].rotate_right(size_bytes);
        self.buffer.remove(size_at);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::wire::Cursor;
    use crate::wire::array::Each;
    use crate::wire::{Array, Version, Wire};

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut Writer::new(&mut bytes));
        bytes
    }

    #[test]
    fn a_frame_gets_its_size() {
        let mut bytes = b"before".to_vec();
        let mut writer = Writer::new(&mut bytes);
        let start = writer.begin_frame();
        writer.i64(1);
        writer.end_frame(start);
        assert_eq!(bytes, b"before\0\0\0\x08\0\0\0\0\0\0\0\x01");
        let mut writer = Writer::new(&mut bytes);
        let start = writer.begin_frame();
        writer.i64(1);
        writer.abandon_frame(start);
        assert_eq!(bytes.len(), 18);
    }

    #[test]
    fn a_frame_that_is_too_large_stops_growing_and_is_abandoned() {
        let rows = |rows: usize, left: usize| {
            let mut bytes = b"before".to_vec();
            let mut writer = Writer::new(&mut bytes);
            let start = writer.begin_frame();
            assert_eq!(writer.full_at, "before".len() + RESPONSE_MAX_BYTES);
            writer.full_at = writer.position() + left;
            let each: &Each<'_> = &|into| (0..rows).for_each(|_| into.push(7i32));
            let array: Array<'_, i32> = Array::Each { len: rows, each };
            array.write(&mut writer, Version { number: 0, flexible: false });
            let (is_full, length) = (writer.is_full(), writer.position());
            writer.abandon_frame(start);
            assert_eq!(bytes, b"before");
            (is_full, length)
        };
        assert_eq!(rows(10, 44), (false, 10 + 44), "ten of them and their count fit");
        assert_eq!(rows(11, 44), (true, 10 + 48), "one past the limit");
        assert_eq!(rows(1_000_000, 44), (true, 10 + 48));
    }

    #[test]
    fn uvarints_read_back() {
        for value in [0, 1, 127, 128, 16383, 16384, 1 << 28, u32::MAX] {
            let bytes = written(|writer| writer.uvarint(value));
            assert_eq!(Cursor::new(&bytes).uvarint(), Ok(value));
        }
    }

    #[test]
    fn tagged_fields_of_any_size() {
        for size in [0, 1, 127, 128, 16383, 16384, 70000] {
            let value: Vec<u8> = (0..size).map(|index| index as u8).collect();
            let bytes = written(|writer| {
                writer.uvarint(1);
                writer.tagged(300, |writer| writer.raw(&value));
            });
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.uvarint(), Ok(1));
            assert_eq!(cursor.uvarint(), Ok(300));
            assert_eq!(cursor.uvarint(), Ok(size));
            assert_eq!(cursor.rest(), value);
        }
    }

    #[test]
    fn a_string_too_long_is_cut_between_characters() {
        for (text, length) in
            [("x".repeat(32767), 32767), ("x".repeat(32768), 32767), ("\u{fffd}".repeat(20000), 32766)]
        {
            for flexible in [false, true] {
                let bytes = written(|writer| writer.string(&text, flexible));
                let mut cursor = Cursor::new(&bytes);
                assert_eq!(cursor.nullable_string(flexible).unwrap().unwrap(), text[..length]);
                assert_eq!(cursor.remaining(), 0);
            }
        }
    }
}
