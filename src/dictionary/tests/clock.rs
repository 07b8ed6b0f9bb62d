//! A clock for the tests that measure.

/// Nanoseconds for each of `count` things that `work` does: the median of nine runs, the least and the most.
pub(crate) fn ns_each<T>(count: usize, mut work: impl FnMut() -> T) -> String {
    let mut runs = [0.0; 9];
    for run in &mut runs {
        let start = std::time::Instant::now();
        std::hint::black_box(work());
        *run = start.elapsed().as_nanos() as f64 / count as f64;
    }
    runs.sort_by(f64::total_cmp);
    format!("{:.1} ({:.1} to {:.1})", runs[4], runs[0], runs[8])
}
