//! The plain code of this folder, compiled for AVX-512 and AVX2 and chosen at run time.
//!
//! Scalar twins: `part_inline` and `frames_inline` of [`super::frames`], which are what is compiled here.
#![expect(unsafe_code, reason = "calls of functions that need detected CPU features")]

use super::FloatBlock;
use super::frames::{Part, part_inline};

fn avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

fn avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

/// `None` where the machine has neither.
pub(super) fn part(frames: &[f32], pixels: usize, first: usize, count: usize) -> Option<Part> {
    if avx512() {
        // SAFETY: the features were just detected.
        return Some(unsafe { part_512(frames, pixels, first, count) });
    }
    if avx2() {
        // SAFETY: the feature was just detected.
        return Some(unsafe { part_256(frames, pixels, first, count) });
    }
    None
}
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn part_512(frames: &[f32], pixels: usize, first: usize, count: usize) -> Part {
    part_inline(frames, pixels, first, count)
}
#[target_feature(enable = "avx2")]
unsafe fn part_256(frames: &[f32], pixels: usize, first: usize, count: usize) -> Part {
    part_inline(frames, pixels, first, count)
}

/// `false` where the machine has neither.
pub(super) fn frames(block: &FloatBlock, first: usize, out: &mut [f32]) -> bool {
    if avx512() {
        // SAFETY: the features were just detected.
        unsafe { frames_512(block, first, out) };
        return true;
    }
    if avx2() {
        // SAFETY: the feature was just detected.
        unsafe { frames_256(block, first, out) };
        return true;
    }
    false
}
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn frames_512(block: &FloatBlock, first: usize, out: &mut [f32]) {
    block.frames_inline(first, out);
}
#[target_feature(enable = "avx2")]
unsafe fn frames_256(block: &FloatBlock, first: usize, out: &mut [f32]) {
    block.frames_inline(first, out);
}
