//! Text as Kafka reads it: bytes that are not UTF-8 become U+FFFD in the places where Java's decoder puts it. That
//! matters, because the text of a group id decides its partition.

use std::borrow::Cow;

use ascii::AsciiStr;

/// Borrows valid UTF-8; builds a String only for the rest.
#[inline]
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    // Most text is ASCII, and that is found out in a quarter of the time.
    match AsciiStr::from_ascii(bytes) {
        Ok(text) => Cow::Borrowed(text.as_str()),
        Err(_) => decode_utf8(bytes),
    }
}

fn decode_utf8(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(decode_lossy(bytes)),
    }
}

#[cold]
fn decode_lossy(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    while let Some(chunk) = bytes.utf8_chunks().next() {
        text.push_str(chunk.valid());
        bytes = &bytes[chunk.valid().len()..];
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            bytes = &bytes[surrogate_len(bytes).unwrap_or(chunk.invalid().len())..];
        }
    }
    text
}

/// The three-byte form of a surrogate, whole or without its third byte, is one U+FFFD in Java and one per byte in Rust.
fn surrogate_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => Some(3),
        [0xed, 0xa0..=0xbf, ..] => Some(2),
        _ => None,
    }
}

/// The longest prefix of at most `max` bytes that ends between two characters.
pub fn truncated(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_text_is_borrowed() {
        assert!(matches!(decode("日本 a".as_bytes()), Cow::Borrowed("日本 a")));
        assert!(matches!(decode(b""), Cow::Borrowed("")));
    }

    #[test]
    fn invalid_text_is_replaced_as_java_does() {
        assert_eq!(decode(b"a\xffb"), "a\u{fffd}b");
        assert_eq!(decode(b"\xff\xfe"), "\u{fffd}\u{fffd}");
        assert_eq!(decode(b"x\xe6\x97"), "x\u{fffd}");
        assert_eq!(decode(b"\xed\xa0\x80y"), "\u{fffd}y");
        assert_eq!(decode(b"\xed\xbfy"), "\u{fffd}y");
        assert_eq!(decode(b"\xed\xa0\x80\xed\xb0\x80"), "\u{fffd}\u{fffd}");
        assert_eq!(decode(b"\xed\x9f\xbf"), "\u{d7ff}");
        assert_eq!(decode(b"\xed"), "\u{fffd}");
    }

    #[test]
    fn truncation_keeps_characters_whole() {
        assert_eq!(truncated("aé", 2), "a");
        assert_eq!(truncated("aé", 3), "aé");
        assert_eq!(truncated("aé", 9), "aé");
    }
}
