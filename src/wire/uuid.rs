//! Topic ids and their text form, as Kafka's tools print it: URL-safe base64 of the 16 bytes, without padding, 22
//! characters.

use std::fmt;
use std::str::FromStr;

/// 16 bytes, the most significant first. All zero means none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// No id.
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// Whether this is [`Uuid::ZERO`].
    pub fn is_zero(&self) -> bool {
        *self == Uuid::ZERO
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const TEXT_LEN: usize = 22;
/// 22 characters carry 132 bits, 4 more than the id has.
const SURPLUS_BITS: usize = 4;

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        let mut text = [0; TEXT_LEN];
        for (index, character) in text.iter_mut().enumerate() {
            let sextet = match TEXT_LEN - 1 - index {
                0 => bits << SURPLUS_BITS,
                from_the_right => bits >> (6 * from_the_right - SURPLUS_BITS),
            };
            *character = ALPHABET[(sextet & 0x3f) as usize];
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not the 22 characters of an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidUuid;

impl fmt::Display for InvalidUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an id: 22 characters of URL-safe base64 are wanted")
    }
}

impl std::error::Error for InvalidUuid {}

impl FromStr for Uuid {
    type Err = InvalidUuid;

    fn from_str(text: &str) -> Result<Self, InvalidUuid> {
        if text.len() != TEXT_LEN {
            return Err(InvalidUuid);
        }
        let mut bits = 0u128;
        let mut surplus = 0;
        for (index, character) in text.bytes().enumerate() {
            let sextet = ALPHABET.iter().position(|&known| known == character).ok_or(InvalidUuid)? as u128;
            if index + 1 < TEXT_LEN {
                bits = bits << 6 | sextet;
            } else {
                bits = bits << (6 - SURPLUS_BITS) | sextet >> SURPLUS_BITS;
                surplus = sextet & 0xf;
            }
        }
        if surplus == 0 { Ok(Uuid(bits.to_be_bytes())) } else { Err(InvalidUuid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    #[test]
    fn text_both_ways_as_base64_has_it() {
        let mut bytes = [0u8; 16];
        for round in 0..200u8 {
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = byte.wrapping_mul(31).wrapping_add(round ^ (index as u8 * 7));
            }
            let text = URL_SAFE_NO_PAD.encode(bytes);
            assert_eq!(Uuid(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(Uuid(bytes)));
        }
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(Uuid([0xff; 16]).to_string(), "_____________________w");
    }

    #[test]
    fn other_text_is_refused() {
        for text in
            ["", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAB"]
        {
            assert_eq!(text.parse::<Uuid>(), Err(InvalidUuid), "{text}");
        }
    }
}
