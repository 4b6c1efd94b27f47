//! The one call into the HDF5 library that its safe binding does not offer: storing a chunk that is already
//! compressed, past the filter pipeline.
#![expect(unsafe_code, reason = "H5Dwrite_chunk has no safe wrapper in hdf5-metno")]

use hdf5_metno::Dataset;
use hdf5_metno_sys::h5d::H5Dwrite_chunk;
use hdf5_metno_sys::h5p::H5P_DEFAULT;

/// Stores `bytes` as the chunk that begins at frame `frame` of a `(frames, rows, cols)` dataset whose chunks hold
/// one whole frame. Every filter of the dataset counts as applied.
pub(crate) fn write_frame_chunk(dataset: &Dataset, frame: u64, bytes: &[u8]) -> Result<(), String> {
    let frames = dataset.shape().first().copied().unwrap_or(0) as u64;
    if dataset.ndim() != 3 || frame >= frames {
        return Err(format!(
            "chunk {frame} lies outside a dataset of rank {} and {frames} frames",
            dataset.ndim()
        ));
    }
    let offset = [frame, 0, 0];
    let _library = hdf5_metno_sys::LOCK.lock();
    // SAFETY: `dataset` keeps its identifier open for the call; `offset` holds as many numbers as the rank checked
    // above; `bytes` is valid for reads of its own length and the library only reads it; the lock is the one that
    // the safe binding takes around every call, and the library is initialised because a dataset is open.
    let status = unsafe {
        H5Dwrite_chunk(dataset.id(), H5P_DEFAULT, 0, offset.as_ptr(), bytes.len(), bytes.as_ptr().cast())
    };
    if status < 0 { Err(format!("the HDF5 library refused chunk {frame}")) } else { Ok(()) }
}
