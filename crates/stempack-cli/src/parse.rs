//! How words of the command line become values: sizes, scan shapes, ranges and detector geometry.

use std::ops::Range;
use std::str::FromStr;

/// Bytes written as a number with an optional binary multiple: `1048576`, `512M`, `2G`, `64KiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl FromStr for Bytes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let shift = match unit.to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err("expected a size such as 512M or 2G (multiples of 1024)".into()),
        };
        let number: u64 = digits.parse().map_err(|_| "expected a size such as 512M or 2G".to_owned())?;
        number.checked_mul(1 << shift).map(Bytes).ok_or_else(|| "the size exceeds 2^64 bytes".into())
    }
}

/// `ROWSxCOLS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) rows: u64,
    pub(crate) cols: u64,
}

impl FromStr for Scan {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (rows, cols) = text.split_once(['x', 'X', '×'])?;
            let scan = Scan { rows: rows.parse().ok()?, cols: cols.parse().ok()? };
            (scan.rows > 0 && scan.cols > 0).then_some(scan)
        };
        parse().ok_or_else(|| "expected rows x columns, for example 256x256".into())
    }
}

/// `R0:R1,C0:C1`, half-open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) rows: Range<usize>,
    pub(crate) cols: Range<usize>,
}

impl FromStr for Region {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let range = |text: &str| {
            let (start, end) = text.split_once(':')?;
            Some(start.trim().parse().ok()?..end.trim().parse().ok()?)
        };
        let parse = || {
            let (rows, cols) = text.split_once(',')?;
            Some(Region { rows: range(rows)?, cols: range(cols)? })
        };
        parse().ok_or_else(|| "expected scan rows and columns as R0:R1,C0:C1, for example 0:64,32:96".into())
    }
}

/// `R,C`: a scan position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) row: usize,
    pub(crate) col: usize,
}

impl FromStr for Position {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (row, col) = text.split_once(',')?;
            Some(Position { row: row.trim().parse().ok()?, col: col.trim().parse().ok()? })
        };
        parse().ok_or_else(|| "expected scan row and column as R,C, for example 12,40".into())
    }
}

/// So many comma-separated numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbers<const N: usize>(pub(crate) [f64; N]);

impl<const N: usize> FromStr for Numbers<N> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|word| word.trim().parse()).collect();
        let numbers = numbers.ok().and_then(|n| n.try_into().ok());
        numbers.map(Numbers).ok_or_else(|| format!("expected {N} numbers separated by commas"))
    }
}

/// A SHA-256 as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sha256(pub(crate) [u8; 32]);

impl FromStr for Sha256 {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let digit = |c: u8| char::from(c).to_digit(16);
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return Err("expected 64 hexadecimal digits".into());
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            match (digit(pair[0]), digit(pair[1])) {
                (Some(high), Some(low)) => *byte = (high << 4 | low) as u8,
                _ => return Err("expected 64 hexadecimal digits".into()),
            }
        }
        Ok(Sha256(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_multiples() {
        let size = |t: &str| t.parse::<Bytes>().map(|b| b.0).ok();
        assert_eq!(size("0"), Some(0));
        assert_eq!(size("1048576"), Some(1 << 20));
        assert_eq!(size("512M"), Some(512 << 20));
        assert_eq!(size("2g"), Some(2 << 30));
        assert_eq!(size("64KiB"), Some(64 << 10));
        assert_eq!(size("16777216T"), None);
        for bad in ["", "M", "1.5G", "-1", "12Q", "5 M", "99999999999999999999"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn scans_regions_and_numbers() {
        let scan = |t: &str| t.parse::<Scan>().map(|s| (s.rows, s.cols)).ok();
        assert_eq!(scan("16x24"), Some((16, 24)));
        assert_eq!(scan("16×24"), Some((16, 24)));
        for bad in ["16", "16x", "0x4", "4x0", "4x4x4", "-4x4", "a×b"] {
            assert_eq!(scan(bad), None, "{bad}");
        }
        let region = |t: &str| t.parse::<Region>().map(|r| (r.rows, r.cols)).ok();
        assert_eq!(region("1:3,2:5"), Some((1..3, 2..5)));
        for bad in ["1:3", "1:3,2", "1:3,2:", "a:b,c:d", "1-3,2-5", "-1:3,0:1"] {
            assert_eq!(region(bad), None, "{bad}");
        }
        let position = |t: &str| t.parse::<Position>().map(|p| (p.row, p.col)).ok();
        assert_eq!(position("12, 0"), Some((12, 0)));
        for bad in ["", "1", "1,", "1,2,3", "-1,2", "1.5,2"] {
            assert_eq!(position(bad), None, "{bad}");
        }
        let three = |t: &str| t.parse::<Numbers<3>>().map(|n| n.0).ok();
        assert_eq!(three("1,-2.5, 3e1"), Some([1.0, -2.5, 30.0]));
        for bad in ["1,2", "1,2,3,4", "1,,2", ""] {
            assert_eq!(three(bad), None, "{bad}");
        }
    }

    #[test]
    fn digests_are_64_digits() {
        let text = "00ff".repeat(16);
        let bytes: Sha256 = text.parse().unwrap();
        assert_eq!(bytes.0[..4], [0, 255, 0, 255]);
        assert!("00".repeat(31).parse::<Sha256>().is_err());
        assert!("0g".repeat(32).parse::<Sha256>().is_err());
        assert!("é".repeat(32).parse::<Sha256>().is_err());
    }
}
