//! Cuts a connection's bytes into frames: in place, unless a frame is spread over several receives.

pub(crate) const FRAME_MAX_BYTES: usize = 128 << 20;

/// Hands every whole frame of `partial + input` over; what is left stays in `partial`.
pub(crate) fn cut(
    partial: &mut Vec<u8>,
    input: &[u8],
    mut frame: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    if partial.is_empty() {
        let used = cut_whole(input, &mut frame)?;
        partial.extend_from_slice(&input[used..]);
        return Ok(());
    }
    partial.extend_from_slice(input);
    let used = cut_whole(partial, &mut frame)?;
    if used == partial.len() {
        *partial = Vec::new();
    } else {
        partial.drain(..used);
    }
    Ok(())
}

fn cut_whole(bytes: &[u8], frame: &mut impl FnMut(&[u8]) -> Result<(), String>) -> Result<usize, String> {
    let mut at = 0;
    while let Some(prefix) = bytes[at..].first_chunk::<4>() {
        let size = u32::from_be_bytes(*prefix) as usize;
        if size > FRAME_MAX_BYTES {
            return Err(format!("a frame of {size} bytes"));
        }
        let Some(whole) = bytes.get(at..at + 4 + size) else { break };
        frame(whole)?;
        at += 4 + size;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_the_same_however_the_bytes_are_split() {
        let bytes = [&[0, 0, 0, 2, 7, 8][..], &[0, 0, 0, 0], &[0, 0, 0, 3, 1, 2, 3]].concat();
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let (mut partial, mut frames) = (Vec::new(), Vec::new());
                for part in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    let keep = |frame: &[u8]| -> Result<(), String> {
                        frames.push(frame.to_vec());
                        Ok(())
                    };
                    cut(&mut partial, part, keep).expect("small frames");
                }
                assert_eq!(frames.concat(), bytes);
                assert_eq!(frames.len(), 3);
                assert!(partial.is_empty());
            }
        }
    }

    #[test]
    fn a_frame_beyond_the_limit_is_refused() {
        let size = |bytes: usize| (bytes as u32).to_be_bytes();
        assert!(cut(&mut Vec::new(), &size(FRAME_MAX_BYTES), |_| Ok(())).is_ok());
        assert!(cut(&mut Vec::new(), &size(FRAME_MAX_BYTES + 1), |_| Ok(())).is_err());
    }
}
