//! The error of bytes that do not parse. Not a protocol answer: the connection closes, and this goes into the log line.

use std::fmt;

/// Where and why a message does not parse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// What is wrong, for example `string is cut short`.
    pub what: &'static str,
    /// Struct and field, for example `JoinGroupRequest.group_id`; empty outside of a message.
    pub field: &'static str,
    /// Where, in bytes from the start of what the cursor was made of (a frame without its size prefix, as a rule).
    pub offset: usize,
    /// How many bytes (or, for a count or a length, how much) the message claims at `offset`; 0 where it is not a
    /// matter of how many.
    pub need: usize,
    /// How many there are.
    pub have: usize,
}

impl Malformed {
    /// Names the field, unless an inner struct has named it already. Cold: only errors come here.
    #[cold]
    pub fn in_field(mut self, field: &'static str) -> Self {
        if self.field.is_empty() {
            self.field = field;
        }
        self
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{} at byte {}", self.what, self.offset)?;
        if self.need > 0 {
            write!(f, ": need {}, have {}", self.need, self.have)?;
        }
        Ok(())
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_field_is_named() {
        let bare = Malformed { what: "string is cut short", field: "", offset: 7, need: 12, have: 3 };
        assert_eq!(bare.to_string(), "string is cut short at byte 7: need 12, have 3");
        let named = bare.in_field("Inner.name").in_field("Outer.list");
        assert_eq!(named.to_string(), "Inner.name: string is cut short at byte 7: need 12, have 3");
        let null = Malformed { what: "string is null", need: 0, ..named };
        assert_eq!(null.to_string(), "Inner.name: string is null at byte 7");
    }
}
