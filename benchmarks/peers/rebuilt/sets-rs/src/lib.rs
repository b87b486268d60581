//! ExaLogLog (crate `exaloglog`) and Ribbon filters (crate `pleat`), called from ctypes with
//! whole columns: see ../__init__.py, which builds this with cargo.

use exaloglog::ExaLogLog;
use pleat::filter::{Ribbon, StdRibbon};
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Steele, Lea, Flood: SplitMix64.
fn mixed(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[no_mangle]
pub extern "C" fn ell_new(p: u32) -> *mut ExaLogLog {
    Box::into_raw(Box::new(ExaLogLog::new_dense(p)))
}

/// # Safety
/// `sketch` is of `ell_new` or `ell_merged`, and not freed.
#[no_mangle]
pub unsafe extern "C" fn ell_free(sketch: *mut ExaLogLog) {
    drop(Box::from_raw(sketch));
}

/// # Safety
/// As above; `values` has `count` numbers.
#[no_mangle]
pub unsafe extern "C" fn ell_update(sketch: *mut ExaLogLog, values: *const u64, count: usize) {
    let sketch = &mut *sketch;
    for &value in from_raw_parts(values, count) {
        sketch.add_hash(mixed(value));
    }
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn ell_estimate(sketch: *const ExaLogLog) -> f64 {
    (*sketch).estimate_ml()
}

/// NaN once it was merged.
///
/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn ell_martingale(sketch: *const ExaLogLog) -> f64 {
    (*sketch).estimate_martingale().unwrap_or(f64::NAN)
}

/// Its bytes, to `out` where they fit in `room`; how many there are.
///
/// # Safety
/// As above; `out` has `room` bytes.
#[no_mangle]
pub unsafe extern "C" fn ell_write(sketch: *const ExaLogLog, out: *mut u8, room: usize) -> usize {
    let bytes = (*sketch).to_bytes();
    if bytes.len() <= room {
        from_raw_parts_mut(out, bytes.len()).copy_from_slice(&bytes);
    }
    bytes.len()
}

/// One of all `count` sketches.
///
/// # Safety
/// As above; `count` is above 0.
#[no_mangle]
pub unsafe extern "C" fn ell_merged(
    sketches: *const *const ExaLogLog,
    count: usize,
) -> *mut ExaLogLog {
    let sketches = from_raw_parts(sketches, count);
    let mut merged = (*sketches[0]).clone();
    for &sketch in &sketches[1..] {
        merged.merge(&*sketch).expect("one precision");
    }
    Box::into_raw(Box::new(merged))
}

pub enum Filter {
    Homogeneous8(Ribbon<8>),
    Homogeneous16(Ribbon<16>),
    Standard8(StdRibbon<8>),
    Standard16(StdRibbon<16>),
}

/// Null where no seed solves: of `width` 64 it is homogeneous, of 128 standard.
///
/// # Safety
/// `keys` has `count` numbers.
#[no_mangle]
pub unsafe extern "C" fn ribbon_of(
    keys: *const u64,
    count: usize,
    width: u32,
    bits: u32,
) -> *mut Filter {
    let keys = from_raw_parts(keys, count);
    let filter = match (width, bits) {
        (64, 8) => Some(Filter::Homogeneous8(Ribbon::from_keys_pleated(keys))),
        (64, 16) => Some(Filter::Homogeneous16(Ribbon::from_keys_pleated(keys))),
        (128, 8) => StdRibbon::from_keys_pleated(keys)
            .ok()
            .map(Filter::Standard8),
        (128, 16) => StdRibbon::from_keys_pleated(keys)
            .ok()
            .map(Filter::Standard16),
        _ => None,
    };
    filter.map_or(std::ptr::null_mut(), |made| Box::into_raw(Box::new(made)))
}

/// # Safety
/// `filter` is of `ribbon_of`, and not freed.
#[no_mangle]
pub unsafe extern "C" fn ribbon_free(filter: *mut Filter) {
    drop(Box::from_raw(filter));
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn ribbon_bytes(filter: *const Filter) -> usize {
    match &*filter {
        Filter::Homogeneous8(made) => made.to_bytes().len(),
        Filter::Homogeneous16(made) => made.to_bytes().len(),
        Filter::Standard8(made) => made.to_bytes().len(),
        Filter::Standard16(made) => made.to_bytes().len(),
    }
}

/// # Safety
/// As above; `keys` and `found` have `count` entries.
#[no_mangle]
pub unsafe extern "C" fn ribbon_ask(
    filter: *const Filter,
    keys: *const u64,
    count: usize,
    found: *mut bool,
) {
    let (keys, found) = (
        from_raw_parts(keys, count),
        from_raw_parts_mut(found, count),
    );
    match &*filter {
        Filter::Homogeneous8(made) => made.contains_batch(keys, found),
        Filter::Homogeneous16(made) => made.contains_batch(keys, found),
        Filter::Standard8(made) => made.contains_batch(keys, found),
        Filter::Standard16(made) => made.contains_batch(keys, found),
    }
}
