//! Cutting a stream of bytes into frames: four bytes of size, big-endian, then so many bytes.

/// Bytes of the size prefix.
pub(super) const PREFIX_BYTES: usize = 4;

/// What stands at the head of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// A whole frame: its bytes are `PREFIX_BYTES..end`, the next frame begins at `end`.
    Frame {
        /// End of the frame.
        end: usize,
    },
    /// The beginning of a frame.
    Incomplete {
        /// Bytes to wait for before looking again.
        missing: usize,
    },
    /// A size that no frame has.
    Bad {
        /// The size announced.
        size: i32,
    },
}

/// Looks at the head of `bytes`; a frame has 1 to `max_bytes` bytes.
pub(super) fn cut(bytes: &[u8], max_bytes: usize) -> Cut {
    let Some(prefix) = bytes.first_chunk::<PREFIX_BYTES>() else {
        return Cut::Incomplete { missing: PREFIX_BYTES - bytes.len() };
    };
    let size = i32::from_be_bytes(*prefix);
    if size <= 0 || size as usize > max_bytes {
        return Cut::Bad { size };
    }
    let end = PREFIX_BYTES + size as usize;
    if bytes.len() < end { Cut::Incomplete { missing: end - bytes.len() } } else { Cut::Frame { end } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_cut_at_its_end_whatever_follows() {
        assert_eq!(cut(&[0, 0, 0, 2, 7, 8], 10), Cut::Frame { end: 6 });
        assert_eq!(cut(&[0, 0, 0, 2, 7, 8, 9], 10), Cut::Frame { end: 6 });
    }

    #[test]
    fn what_is_missing_is_counted_to_the_prefix_first() {
        assert_eq!(cut(&[], 10), Cut::Incomplete { missing: 4 });
        assert_eq!(cut(&[0, 0, 0], 10), Cut::Incomplete { missing: 1 });
        assert_eq!(cut(&[0, 0, 0, 9, 1], 10), Cut::Incomplete { missing: 8 });
    }

    #[test]
    fn sizes_are_bounded_on_both_sides() {
        assert_eq!(cut(&[0, 0, 0, 10, 1], 10), Cut::Incomplete { missing: 9 });
        assert_eq!(cut(&[0, 0, 0, 11, 1], 10), Cut::Bad { size: 11 });
        assert_eq!(cut(&[0, 0, 0, 0], 10), Cut::Bad { size: 0 });
        assert_eq!(cut(&[255, 255, 255, 255], 10), Cut::Bad { size: -1 });
    }
}
