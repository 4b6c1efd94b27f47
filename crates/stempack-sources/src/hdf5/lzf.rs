//! Filter 32000 (LZF, as h5py writes it): what a stream of literals and back references decodes to, and when it is damaged.

/// A reference that names the longest of the short lengths is followed by a byte with the rest.
const LONG: usize = 7;

/// Decodes a stream of at most `limit` bytes into `to`, which is emptied first; the reason, when it does not decode.
///
/// Each token begins with a byte: below 32 it announces that many and one more literal bytes; otherwise its upper three
/// bits are the length of a copy and its lower five, with the next byte, how far back the copy begins.
pub(super) fn decode(from: &[u8], limit: usize, to: &mut Vec<u8>) -> Result<(), String> {
    to.clear();
    let mut rest = from;
    let cut = || "lzf: the stream ends within a token".to_owned();
    let long = || format!("lzf: it expands to more than {limit} bytes");
    while let Some((&control, after)) = rest.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (literal, after) = after.split_at_checked(control + 1).ok_or_else(cut)?;
            if to.len() + literal.len() > limit {
                return Err(long());
            }
            to.extend_from_slice(literal);
            rest = after;
            continue;
        }
        let mut after = after;
        let mut next = || -> Result<usize, String> {
            let (&byte, remaining) = after.split_first().ok_or_else(cut)?;
            after = remaining;
            Ok(usize::from(byte))
        };
        let mut length = control >> 5;
        if length == LONG {
            length += next()?;
        }
        length += 2;
        let back = ((control & 31) << 8 | next()?) + 1;
        rest = after;
        let start = to.len().checked_sub(back).ok_or("lzf: a copy begins before the chunk")?;
        if to.len() + length > limit {
            return Err(long());
        }
        if back >= length {
            to.extend_from_within(start..start + length);
        } else {
            // The copy runs into what it writes.
            for at in start..start + length {
                to.push(to[at]);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(from: &[u8], limit: usize) -> Result<Vec<u8>, String> {
        let mut to = vec![9];
        decode(from, limit, &mut to).map(|()| to)
    }

    /// By hand: `ab`, then a copy of four bytes from two back, then a copy of 7 + 1 + 2 from one back.
    #[test]
    fn literals_and_copies_that_overlap() {
        let stream = [1, b'a', b'b', 2 << 5, 1, 7 << 5, 1, 0];
        assert_eq!(decoded(&stream, 100).unwrap(), b"abababbbbbbbbbbb");
        assert_eq!(decoded(&stream, 16).unwrap().len(), 16);
        assert!(decoded(&stream, 15).unwrap_err().contains("more than 15"));
        assert_eq!(decoded(&[], 0).unwrap(), b"");
    }

    #[test]
    fn damage_is_named() {
        assert!(decoded(&[5, b'a'], 100).unwrap_err().contains("ends within"));
        assert!(decoded(&[0, b'a', 2 << 5], 100).unwrap_err().contains("ends within"));
        assert!(decoded(&[0, b'a', 7 << 5, 1], 100).unwrap_err().contains("ends within"));
        assert!(decoded(&[0, b'a', 2 << 5, 1], 100).unwrap_err().contains("before the chunk"));
        assert!(decoded(&[31], 100).is_err());
    }

    proptest! {
        #[test]
        fn no_stream_makes_it_panic_or_exceed_its_limit(from in prop::collection::vec(any::<u8>(), 0..300), limit in 0usize..400) {
            if let Ok(to) = decoded(&from, limit) {
                prop_assert!(to.len() <= limit);
            }
        }
    }
}
