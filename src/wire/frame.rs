//! Cuts received bytes into frames, in place. It knows neither where the bytes come from (a socket, TLS) nor what a
//! frame holds.

use std::fmt;

/// Bytes of the size in front of each frame.
pub const SIZE_BYTES: usize = 4;

/// A size that no frame may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrameSize {
    /// The size announced.
    pub size: i32,
    /// The largest that is accepted.
    pub max_bytes: usize,
}

impl fmt::Display for BadFrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadFrameSize { size, max_bytes } = self;
        match size {
            1.. => write!(f, "oversized frame: {size} bytes announced, {max_bytes} allowed"),
            _ => write!(f, "undersized frame: {size} bytes announced"),
        }
    }
}

impl std::error::Error for BadFrameSize {}

/// Walks over the complete frames at the start of a slice.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    consumed: usize,
    max_bytes: usize,
}

impl<'a> Frames<'a> {
    /// `max_bytes` is the largest frame that is accepted, without its size prefix (`socket.request.max.bytes`).
    pub fn new(bytes: &'a [u8], max_bytes: usize) -> Self {
        Frames { bytes, consumed: 0, max_bytes }
    }

    /// The next frame without its size prefix, or None when it is not complete yet.
    ///
    /// # Errors
    /// At a size of zero or less, or above the maximum; known as soon as the four bytes are there, and again at each call.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<&'a [u8]>, BadFrameSize> {
        let Some(size) = self.size()? else { return Ok(None) };
        let start = self.consumed + SIZE_BYTES;
        match self.bytes.get(start..start + size) {
            Some(frame) => {
                self.consumed = start + size;
                Ok(Some(frame))
            }
            None => Ok(None),
        }
    }

    /// Bytes of the frames that were yielded, their sizes included: what the caller may discard.
    #[inline]
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// The bytes behind those.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.consumed..]
    }

    /// How many bytes have to come until the next frame is complete, as far as can be told: with its size still
    /// incomplete, how many are missing of that. 0 when a frame waits.
    ///
    /// # Errors
    /// As [`Frames::next_frame`].
    #[inline]
    pub fn missing(&self) -> Result<usize, BadFrameSize> {
        let have = self.rest().len();
        Ok(match self.size()? {
            Some(size) => (SIZE_BYTES + size).saturating_sub(have),
            None => SIZE_BYTES - have,
        })
    }

    #[inline]
    fn size(&self) -> Result<Option<usize>, BadFrameSize> {
        let Some(size) = self.rest().first_chunk::<SIZE_BYTES>() else { return Ok(None) };
        let size = i32::from_be_bytes(*size);
        match usize::try_from(size) {
            Ok(size) if (1..=self.max_bytes).contains(&size) => Ok(Some(size)),
            _ => Err(BadFrameSize { size, max_bytes: self.max_bytes }),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_order_and_the_rest_waits() {
        let bytes = [&[0, 0, 0, 2, 7, 8][..], &[0, 0, 0, 1, 9], &[0, 0, 0, 3, 1]].concat();
        let mut frames = Frames::new(&bytes, 100);
        assert_eq!(frames.missing(), Ok(0));
        assert_eq!(frames.next_frame(), Ok(Some(&[7, 8][..])));
        assert_eq!(frames.next_frame(), Ok(Some(&[9][..])));
        assert_eq!(frames.next_frame(), Ok(None));
        assert_eq!((frames.consumed(), frames.rest(), frames.missing()), (11, &[0, 0, 0, 3, 1][..], Ok(2)));
    }

    #[test]
    fn every_cut_says_what_is_missing() {
        let bytes = [0, 0, 0, 5, 1, 2, 3, 4, 5];
        for cut in 0..bytes.len() {
            let mut frames = Frames::new(&bytes[..cut], 5);
            assert_eq!(frames.next_frame(), Ok(None));
            assert_eq!(frames.missing(), Ok(if cut < 4 { 4 - cut } else { 9 - cut }));
        }
    }

    #[test]
    fn the_size_is_bounded() {
        let first = |size: i32, max| Frames::new(&size.to_be_bytes(), max).next_frame().map(|frame| frame.is_some());
        assert_eq!(first(100, 100), Ok(false));
        for size in [101, 0, -1, i32::MIN] {
            assert_eq!(first(size, 100), Err(BadFrameSize { size, max_bytes: 100 }));
        }
        let mut behind_a_good_one = Frames::new(&[0, 0, 0, 1, 9, 0, 0, 0, 0], 100);
        assert_eq!(behind_a_good_one.next_frame(), Ok(Some(&[9][..])));
        assert_eq!(behind_a_good_one.next_frame().unwrap_err().size, 0);
        assert!(behind_a_good_one.missing().is_err());
    }
}
