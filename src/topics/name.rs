//! Which names a topic may have.

use std::borrow::Cow;

/// The longest legal name, in bytes.
pub const NAME_MAX_BYTES: usize = 249;

/// Whether a topic may have this name: 1 to 249 of `[a-zA-Z0-9._-]`, but not `.` or `..`.
pub fn is_legal(name: &str) -> bool {
    (1..=NAME_MAX_BYTES).contains(&name.len())
        && name != "."
        && name != ".."
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Two names collide when they differ only in `.` against `_` (Kafka's metric names would be the same): then these are
/// equal.
pub fn collision_key(name: &str) -> Cow<'_, str> {
    if name.contains('.') { Cow::Owned(name.replace('.', "_")) } else { Cow::Borrowed(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_names_and_others() {
        for good in ["a", "Az09._-", "...", "__consumer_offsets", &"x".repeat(NAME_MAX_BYTES)] {
            assert!(is_legal(good), "{good:?}");
        }
        for bad in ["", ".", "..", "bad name", "a/b", "é", "a\n", &"x".repeat(NAME_MAX_BYTES + 1)] {
            assert!(!is_legal(bad), "{bad:?}");
        }
    }

    #[test]
    fn dots_and_underscores_collide() {
        assert_eq!(collision_key("a.b_c"), collision_key("a_b.c"));
        assert_ne!(collision_key("a.b"), collision_key("a-b"));
    }
}
