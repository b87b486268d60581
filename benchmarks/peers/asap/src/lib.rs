//! asap_sketchlib's sketches for Python's ctypes, called with whole columns: doubles, or the
//! offsets and bytes of an Arrow column of strings. One thread; strings by the crate's `FastPath`,
//! which hashes once for all rows and is the fastest that its documentation names.

use std::ptr::copy_nonoverlapping;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use asap_sketchlib::common::input::HydraCounter;
use asap_sketchlib::{
    CountMinSketch, CountMinSketchWithHeap, CountSketch, CountSketchWithHeap, DataInput, DdSketch,
    FastPath, Hydra, Kll, OwnedDataInput, QuickMatrixI32, SpaceSaving, Vector2D,
};

type Cells = Vector2D<i32>;

pub enum Sketch {
    Kll(Kll<f64>),
    Dd(DdSketch),
    CountMin(CountMinSketch<Cells, FastPath>),
    Fixed(CountMinSketch<QuickMatrixI32, FastPath>),
    Count(CountSketch<Cells, FastPath>),
    CountMinHeap(CountMinSketchWithHeap<Cells, FastPath>),
    CountHeap(CountSketchWithHeap<Cells, FastPath>),
    SpaceSaving(SpaceSaving),
    Hydra(Hydra),
}
use Sketch::*;

/// What each kind takes: a KLL k and a seed, a DDSketch permille of the value's error, one of
/// cells rows and columns, one with a heap how many names it keeps, SpaceSaving its counters.
#[unsafe(no_mangle)]
pub extern "C" fn asap_new(kind: i64, first: u64, second: u64, kept: u64) -> *mut Sketch {
    let (rows, columns) = (first as usize, second as usize);
    Box::into_raw(Box::new(match kind {
        0 => Kll(asap_sketchlib::Kll::with_k_and_seed(first as i32, second)),
        1 => Dd(DdSketch::new(first as f64 / 1_000.0)),
        2 => CountMin(CountMinSketch::with_dimensions(rows, columns)),
        3 => Count(CountSketch::with_dimensions(rows, columns)),
        4 => CountMinHeap(CountMinSketchWithHeap::new(rows, columns, kept as usize)),
        5 => CountHeap(CountSketchWithHeap::new(rows, columns, kept as usize)),
        6 => SpaceSaving(asap_sketchlib::SpaceSaving::with_capacity(rows)),
        7 => {
            let cell = HydraCounter::CountMinSketch(CountMinSketch::with_dimensions(1, 1));
            Hydra(asap_sketchlib::Hydra::with_schema(rows, columns, ["item"], cell).unwrap())
        }
        _ => Fixed(CountMinSketch::default()),
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn asap_free(sketch: *mut Sketch) {
    drop(unsafe { Box::from_raw(sketch) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn asap_update_values(sketch: &mut Sketch, values: *const f64, n: usize) {
    let values = unsafe { from_raw_parts(values, n) };
    match sketch {
        Kll(of) => of.update_batch(values),
        Dd(of) => values.iter().for_each(|value| of.add(value)),
        _ => unreachable!(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn asap_ask_values(
    sketch: &Sketch,
    fractions: *const f64,
    n: usize,
    out: *mut f64,
) {
    let fractions = unsafe { from_raw_parts(fractions, n) };
    let out = unsafe { from_raw_parts_mut(out, n) };
    match sketch {
        Kll(of) => {
            let ordered = of.cdf();
            out.iter_mut()
                .zip(fractions)
                .for_each(|(out, at)| *out = ordered.value_at(*at));
        }
        Dd(of) => out.iter_mut().zip(fractions).for_each(|(out, at)| {
            *out = of.get_value_at_quantile(*at).unwrap_or(f64::NAN);
        }),
        _ => unreachable!(),
    }
}

/// A column of Arrow: string i is data[offsets[i]..offsets[i + 1]].
unsafe fn names<'a>(
    offsets: *const i32,
    data: *const u8,
    n: usize,
) -> impl Iterator<Item = &'a str> {
    let offsets = unsafe { from_raw_parts(offsets, n + 1) };
    offsets.windows(2).map(move |ends| unsafe {
        let bytes = from_raw_parts(data.add(ends[0] as usize), (ends[1] - ends[0]) as usize);
        std::str::from_utf8_unchecked(bytes) // Arrow has checked
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn asap_update_names(
    sketch: &mut Sketch,
    offsets: *const i32,
    data: *const u8,
    n: usize,
) {
    let names = unsafe { names(offsets, data, n) };
    match sketch {
        CountMin(of) => names.for_each(|name| of.update(&DataInput::Str(name))),
        Fixed(of) => names.for_each(|name| of.update(&DataInput::Str(name))),
        Count(of) => names.for_each(|name| of.update(&DataInput::Str(name))),
        CountMinHeap(of) => names.for_each(|name| of.update(&DataInput::Str(name))),
        CountHeap(of) => names.for_each(|name| of.update(&DataInput::Str(name))),
        SpaceSaving(of) => names.for_each(|name| of.update(&DataInput::Str(name))),
        Hydra(of) => {
            names.for_each(|name| of.update(&[name], &DataInput::U64(0), None).unwrap());
        }
        _ => unreachable!(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn asap_ask_names(
    sketch: &Sketch,
    offsets: *const i32,
    data: *const u8,
    n: usize,
    out: *mut f64,
) {
    let out = unsafe { from_raw_parts_mut(out, n) };
    for (out, name) in out.iter_mut().zip(unsafe { names(offsets, data, n) }) {
        let asked = DataInput::Str(name);
        *out = match sketch {
            CountMin(of) => of.estimate(&asked) as f64,
            Fixed(of) => of.estimate(&asked) as f64,
            Count(of) => of.estimate(&asked),
            CountMinHeap(of) => of.estimate(&asked) as f64,
            CountHeap(of) => of.estimate(&asked),
            SpaceSaving(of) => of.estimate(&asked) as f64,
            Hydra(of) => of.query_group_total(&[Some(name)]).unwrap(),
            _ => unreachable!(),
        };
    }
}

/// The `k` names that it has counted most, one a line; how many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn asap_first(sketch: &Sketch, k: usize, out: *mut u8) -> usize {
    let mut found: Vec<(OwnedDataInput, u64)> = match sketch {
        CountMinHeap(of) => of
            .heap()
            .heap()
            .iter()
            .map(|one| (one.key.clone(), one.count as u64))
            .collect(),
        CountHeap(of) => of
            .heap()
            .heap()
            .iter()
            .map(|one| (one.key.clone(), one.count as u64))
            .collect(),
        SpaceSaving(of) => of
            .top_k(k)
            .into_iter()
            .map(|(key, count, _)| (key, count))
            .collect(),
        _ => unreachable!(),
    };
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let names = found.iter().take(k).map(|(key, _)| match key {
        OwnedDataInput::String(name) => name.as_str(),
        _ => unreachable!(),
    });
    let lines = names.collect::<Vec<_>>().join("\n");
    unsafe { copy_nonoverlapping(lines.as_ptr(), out, lines.len()) };
    lines.len()
}

/// Of its serialized form; a matrix of fixed size has none.
#[unsafe(no_mangle)]
pub extern "C" fn asap_bytes(sketch: &Sketch) -> usize {
    match sketch {
        Kll(of) => of.to_asapv1().unwrap().len(),
        Dd(of) => of.to_asapv1().unwrap().len(),
        CountMin(of) => of.to_asapv1().unwrap().len(),
        Fixed(of) => of.memory_bytes(),
        Count(of) => of.to_asapv1().unwrap().len(),
        CountMinHeap(of) => of.to_asapv1().unwrap().len(),
        CountHeap(of) => of.to_asapv1().unwrap().len(),
        SpaceSaving(of) => of.to_asapv1().unwrap().len(),
        Hydra(of) => of.to_asapv1().unwrap().len(),
    }
}

/// All of `others` into an empty one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn asap_merge(sketch: &mut Sketch, others: *const *const Sketch, n: usize) {
    for other in unsafe { from_raw_parts(others, n) } {
        match (&mut *sketch, unsafe { &**other }) {
            (Kll(one), Kll(two)) => one.merge(two),
            (Dd(one), Dd(two)) => one.merge(two).unwrap(),
            _ => unreachable!(),
        }
    }
}
