//! The few library calls that the safe wrapper does not offer, or not safely for untrusted files: link names and
//! targets, filter pipelines, allocated sizes, and whether the bits of a type are those of a machine number.
//!
//! The wrapper turns link and filter structures into Rust enums and fixed arrays that a crafted file can overrun;
//! here only plain integers and bytes leave the library. Tests: `tests` below and `it::hdf5_layer`.
#![expect(unsafe_code, reason = "direct calls of the HDF5 C interface")]

use hdf5_metno::sync::sync;
use hdf5_metno_sys::h5::{H5_index_t, H5_iter_order_t, herr_t};
use hdf5_metno_sys::h5d::H5Dget_storage_size;
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5l::{
    H5L_info2_t, H5Lexists, H5Lget_info2, H5Lget_val, H5Literate2, H5Lunpack_elink_val,
};
use hdf5_metno_sys::h5p::{H5P_DEFAULT, H5Pget_filter2, H5Pget_nfilters};
use hdf5_metno_sys::h5t::{
    H5T_norm_t, H5Tget_ebias, H5Tget_fields, H5Tget_norm, H5Tget_offset, H5Tget_precision, H5Tget_size,
};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr;

/// Longest link value that is read; file systems allow no longer paths.
const MAX_LINK_VALUE: usize = 64 << 10;

/// What one link points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RawLink {
    /// An object of the same file.
    Hard,
    /// A path in the same file.
    Soft(Vec<u8>),
    /// A path in another file.
    External {
        /// Name of the file, as recorded.
        file: Vec<u8>,
        /// Path in that file.
        path: Vec<u8>,
    },
    /// A link of a user-defined class, or one whose value cannot be read.
    Unreadable,
}

/// One entry of a filter pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawFilter {
    /// Registered identifier.
    pub(super) id: c_int,
    /// Client data, at most 32 values.
    pub(super) data: Vec<u32>,
}

/// The link `name` of the group `group`, or `None` when there is none.
pub(super) fn link(group: hid_t, name: &str) -> Option<RawLink> {
    let name = CString::new(name).ok()?;
    sync(|| {
        // SAFETY: `name` is NUL-terminated; an invalid `group` makes the call fail, which is the answer "no".
        if unsafe { H5Lexists(group, name.as_ptr(), H5P_DEFAULT) } <= 0 {
            return None;
        }
        let mut info = MaybeUninit::<H5L_info2_t>::zeroed();
        // SAFETY: the library fills the structure it is given.
        if unsafe { H5Lget_info2(group, name.as_ptr(), info.as_mut_ptr(), H5P_DEFAULT) } < 0 {
            return Some(RawLink::Unreadable);
        }
        let info = info.as_mut_ptr();
        // SAFETY: the field is initialised (zeroed, then written by the library). It is read as the C integer it is:
        // as the enum it would be undefined for user-defined link classes.
        let class = unsafe { ptr::addr_of!((*info).type_).cast::<c_int>().read() };
        if class == 0 {
            return Some(RawLink::Hard);
        }
        // SAFETY: for every class but hard links the union holds the size of the value; all its bits are initialised.
        let size = unsafe { ptr::addr_of!((*info).u).cast::<usize>().read() };
        if size == 0 || size > MAX_LINK_VALUE || !(class == 1 || class == 64) {
            return Some(RawLink::Unreadable);
        }
        let mut value = vec![0u8; size];
        // SAFETY: the buffer has the length passed with it.
        if unsafe { H5Lget_val(group, name.as_ptr(), value.as_mut_ptr().cast(), size, H5P_DEFAULT) } < 0 {
            return Some(RawLink::Unreadable);
        }
        if class == 1 {
            let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
            value.truncate(end);
            return Some(RawLink::Soft(value));
        }
        Some(unpack_external(&value))
    })
}

/// Splits the value of an external link with the library's own rules, holding its pointers to the buffer.
fn unpack_external(value: &[u8]) -> RawLink {
    // Two NUL-terminated texts follow one byte of version and flags; without two NULs the library would read on.
    if value.iter().skip(1).filter(|&&b| b == 0).count() < 2 {
        return RawLink::Unreadable;
    }
    let (mut flags, mut file, mut path) = (0 as c_uint, ptr::null::<c_char>(), ptr::null::<c_char>());
    let status = sync(|| {
        // SAFETY: the buffer has the length passed with it; the results point into it.
        unsafe {
            H5Lunpack_elink_val(
                value.as_ptr().cast(),
                value.len(),
                &raw mut flags,
                &raw mut file,
                &raw mut path,
            )
        }
    });
    let range = value.as_ptr_range();
    let inside = |p: *const c_char| range.contains(&p.cast::<u8>());
    if status < 0 || !inside(file) || !inside(path) {
        return RawLink::Unreadable;
    }
    let text = |p: *const c_char| {
        // The pointer was just shown to lie within `value`.
        let start = p.addr() - value.as_ptr().addr();
        CStr::from_bytes_until_nul(&value[start..]).map(|s| s.to_bytes().to_vec()).ok()
    };
    match (text(file), text(path)) {
        (Some(file), Some(path)) => RawLink::External { file, path },
        _ => RawLink::Unreadable,
    }
}

struct Names {
    names: Vec<Vec<u8>>,
    most: usize,
}

/// Called once for each link, in name order; stops the iteration at the bound.
unsafe extern "C" fn collect(
    _: hid_t,
    name: *const c_char,
    _: *const H5L_info2_t,
    data: *mut c_void,
) -> herr_t {
    // SAFETY: `data` is the structure `names` passed, borrowed by nobody else during the call.
    let names = unsafe { &mut *data.cast::<Names>() };
    if names.names.len() >= names.most {
        return 1;
    }
    // SAFETY: the library passes a NUL-terminated name that lives for this call.
    names.names.push(unsafe { CStr::from_ptr(name) }.to_bytes().to_vec());
    0
}

/// Names of the links of `group` in increasing byte order, at most `most` of them, and whether that was all.
pub(super) fn names(group: hid_t, most: usize) -> Option<(Vec<Vec<u8>>, bool)> {
    let mut found = Names { names: Vec::new(), most };
    let status = sync(|| {
        // SAFETY: the callback matches the declared type and gets the structure it expects, alive for the call.
        unsafe {
            H5Literate2(
                group,
                H5_index_t::H5_INDEX_NAME,
                H5_iter_order_t::H5_ITER_INC,
                ptr::null_mut(),
                Some(collect),
                (&raw mut found).cast(),
            )
        }
    });
    (status >= 0).then_some((found.names, status == 0))
}

/// The filter pipeline of a dataset creation property list, in the order it was applied when writing.
pub(super) fn pipeline(properties: hid_t) -> Option<Vec<RawFilter>> {
    sync(|| {
        // SAFETY: an invalid list makes the call fail.
        let count = unsafe { H5Pget_nfilters(properties) };
        if count < 0 {
            return None;
        }
        let mut filters = Vec::new();
        for index in 0..count as c_uint {
            let (mut flags, mut data, mut name) = (0 as c_uint, [0 as c_uint; 32], [0 as c_char; 2]);
            let mut held = data.len();
            // SAFETY: each buffer has the length passed with it.
            let id = unsafe {
                H5Pget_filter2(
                    properties,
                    index,
                    &raw mut flags,
                    &raw mut held,
                    data.as_mut_ptr(),
                    name.len(),
                    name.as_mut_ptr(),
                    ptr::null_mut(),
                )
            };
            if id < 0 {
                return None;
            }
            // The library reports how many values there are, which may be more than it was given room for.
            filters.push(RawFilter { id, data: data[..held.min(data.len())].to_vec() });
        }
        Some(filters)
    })
}

/// Whether an atomic type uses all the bits of its bytes, so that its bytes are its value.
pub(super) fn uses_all_bits(datatype: hid_t) -> bool {
    sync(|| {
        // SAFETY: an invalid type makes the calls fail, which no size equals.
        let (size, precision, offset) =
            unsafe { (H5Tget_size(datatype), H5Tget_precision(datatype), H5Tget_offset(datatype)) };
        size > 0 && precision == size * 8 && offset == 0
    })
}

/// Whether a floating-point type has the fields of the IEEE binary format of its size, in whatever byte order.
pub(super) fn is_ieee(datatype: hid_t) -> bool {
    let (mut sign, mut exponent, mut exponent_bits, mut mantissa, mut mantissa_bits) = (0, 0, 0, 0, 0);
    let (status, bias, normal, bytes) = sync(|| {
        // SAFETY: the library fills the five integers; an invalid type makes every call fail.
        unsafe {
            let status = H5Tget_fields(
                datatype,
                &raw mut sign,
                &raw mut exponent,
                &raw mut exponent_bits,
                &raw mut mantissa,
                &raw mut mantissa_bits,
            );
            (status, H5Tget_ebias(datatype), H5Tget_norm(datatype), H5Tget_size(datatype))
        }
    });
    let fields = match bytes {
        2 => (15, 10, 5, 0, 10, 15),
        4 => (31, 23, 8, 0, 23, 127),
        8 => (63, 52, 11, 0, 52, 1023),
        _ => return false,
    };
    status >= 0
        && normal == H5T_norm_t::H5T_NORM_IMPLIED
        && (sign, exponent, exponent_bits, mantissa, mantissa_bits, bias) == fields
}

/// Bytes allocated for the samples of a dataset.
pub(super) fn storage_bytes(dataset: hid_t) -> u64 {
    // SAFETY: an invalid dataset makes the call fail, which gives 0.
    sync(|| unsafe { H5Dget_storage_size(dataset) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_targets_come_back_as_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let file = hdf5_metno::File::create(dir.path().join("links.h5")).unwrap();
        let group = file.create_group("g").unwrap();
        group.create_group("hard").unwrap();
        group.link_soft("/no/where", "soft").unwrap();
        group.link_external("other file.h5", "/entry/data/data", "external").unwrap();
        let id = group.id();
        assert_eq!(link(id, "hard"), Some(RawLink::Hard));
        assert_eq!(link(id, "soft"), Some(RawLink::Soft(b"/no/where".to_vec())));
        let external =
            RawLink::External { file: b"other file.h5".to_vec(), path: b"/entry/data/data".to_vec() };
        assert_eq!(link(id, "external"), Some(external));
        assert_eq!(link(id, "absent"), None);
        assert_eq!(link(id, "in\0side"), None);
        let all = [b"external".to_vec(), b"hard".to_vec(), b"soft".to_vec()];
        assert_eq!(names(id, 3), Some((all.to_vec(), true)));
        assert_eq!(names(id, 2), Some((all[..2].to_vec(), false)));
    }

    #[test]
    fn external_values_without_two_texts_are_not_unpacked() {
        assert_eq!(unpack_external(b"\0file"), RawLink::Unreadable);
        assert_eq!(unpack_external(b"\0file\0path"), RawLink::Unreadable);
        assert_eq!(
            unpack_external(b"\0file\0/path\0"),
            RawLink::External { file: b"file".to_vec(), path: b"/path".to_vec() }
        );
    }
}
