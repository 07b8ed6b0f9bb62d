//! The histogram of bucket sizes as text for the terminal, with the shares expected of a random hash function.
//!
//! ```text
//!   pairs     buckets    share  expected
//!      12       1,041    9.84%     9.91%  ████████████████
//! ```
//!
//! Bars are number signs if the locale is not UTF-8.
//!
//! A good hash function distributes keys over buckets as if at random. Under linear hashing even a random function
//! does not load all buckets alike: of `b` buckets with `2^l <= b < 2^(l+1)`, the `b - 2^l` that have split in this
//! generation, and their new halves, expect `n / 2^(l+1)` pairs each, the others twice that. The expected share is
//! thus a mix of two Poisson distributions, weighted by those bucket counts (one if b is a power of two). Shares far
//! above it mean a poor hash function.

use crate::number::grouped;
use splitpoint::TableSurvey;

/// Most rows of a histogram.
const ROWS_MAX: u64 = 25;
/// The last row holds all sizes above this share of the buckets.
const TAIL_SHARE: f64 = 0.002;
/// Columns if standard output is not a terminal.
const COLUMNS_DEFAULT: usize = 80;
/// Widest bar.
const COLUMNS_MAX: usize = 120;

/// One line of the histogram: buckets of `from..=to` pairs.
struct Row {
    from: u64,
    to: u64,
    buckets: u64,
    expected: f64,
}

/// The part of a table's statistics that the histogram needs.
struct Sizes<'s> {
    pairs: u64,
    buckets: u64,
    /// Size in pairs and number of buckets of that size, ascending.
    histogram: &'s [(u64, u64)],
}

/// Draws the histogram, one string per line, fitted to this terminal.
pub fn picture(stat: &TableSurvey) -> Vec<String> {
    let columns = terminal_size::terminal_size().map_or(COLUMNS_DEFAULT, |(width, _)| usize::from(width.0));
    let mut histogram = stat.histogram.clone();
    histogram.sort_unstable();
    let sizes = Sizes { pairs: stat.pairs, buckets: stat.buckets, histogram: &histogram };
    draw(&rows(&sizes), stat.buckets, columns.min(COLUMNS_MAX))
}

fn draw(rows: &[Row], buckets: u64, columns: usize) -> Vec<String> {
    let labels: Vec<String> = rows.iter().map(Row::label).collect();
    let label_width = labels.iter().map(String::len).max().unwrap_or(0).max("pairs".len());
    let bar_columns = columns.saturating_sub(label_width + 36).max(8);
    let share = |count: u64| count as f64 / buckets.max(1) as f64;
    let largest = rows.iter().map(|row| share(row.buckets)).fold(0.0, f64::max);
    let mut lines = vec![format!("  {:>label_width$} {:>11} {:>8} {:>9}", "pairs", "buckets", "share", "expected")];
    for (row, label) in rows.iter().zip(labels) {
        let share = share(row.buckets);
        let (share_text, expected_text) = (percent(share), percent(row.expected));
        let bar = if draws_blocks() { bar } else { plain_bar };
        let bar = bar(share / largest.max(f64::MIN_POSITIVE), bar_columns);
        let line =
            format!("  {label:>label_width$} {:>11} {share_text:>8} {expected_text:>9}  {bar}", grouped(row.buckets));
        lines.push(line.trim_end().to_owned());
    }
    lines
}

impl Row {
    fn label(&self) -> String {
        if self.to == u64::MAX {
            format!("{}+", grouped(self.from))
        } else if self.from == self.to {
            grouped(self.from)
        } else {
            format!("{}-{}", grouped(self.from), grouped(self.to))
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

/// Whether the locale lets the program draw with characters that are not ASCII. Without a locale it may.
pub fn draws_blocks() -> bool {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
    let locale = variables.into_iter().find(|locale| !locale.is_empty());
    let is_utf8 = |locale: &str| locale.replace('-', "").to_ascii_lowercase().contains("utf8");
    locale.is_none_or(|locale| is_utf8(&locale.to_string_lossy()))
}

/// Draws a bar of number signs.
fn plain_bar(fraction: f64, columns: usize) -> String {
    let marks = (fraction * columns as f64).round() as usize;
    "#".repeat(marks.max(usize::from(fraction > 0.0)))
}

/// Draws `fraction` of `columns`, to an eighth of a column; at least one mark for anything above 0.
fn bar(fraction: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let mut eighths = (fraction * columns as f64 * 8.0).round() as usize;
    if fraction > 0.0 {
        eighths = eighths.max(1);
    }
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn rows(sizes: &Sizes<'_>) -> Vec<Row> {
    let (Some((smallest, _)), Some((largest, _))) = (sizes.histogram.first(), sizes.histogram.last()) else {
        return Vec::new();
    };
    let bulk = bulk_end(sizes, *smallest, *largest);
    let width = (bulk - smallest + 1).div_ceil(ROWS_MAX);
    let first = smallest - smallest % width;
    let starts = (0..=(bulk - first) / width).map(|index| first + index * width);
    let mut rows: Vec<Row> = starts.map(|from| row(sizes, from, from + (width - 1))).collect();
    let shown_to = rows.last().map_or(0, |row| row.to);
    if *largest > shown_to {
        rows.push(row(sizes, shown_to + 1, u64::MAX));
    }
    rows
}

/// The size that all but [`TAIL_SHARE`] of the buckets reach at most; the largest if one row per size suffices for all.
fn bulk_end(sizes: &Sizes<'_>, smallest: u64, largest: u64) -> u64 {
    if largest - smallest < ROWS_MAX {
        return largest;
    }
    let tail = (sizes.buckets as f64 * TAIL_SHARE) as u64;
    let mut above = 0;
    for (size, buckets) in sizes.histogram.iter().rev() {
        above += buckets;
        if above > tail {
            return *size;
        }
    }
    largest
}

fn row(sizes: &Sizes<'_>, from: u64, to: u64) -> Row {
    let inside = sizes.histogram.iter().filter(|(size, _)| (from..=to).contains(size));
    let buckets = inside.map(|(_, buckets)| buckets).sum();
    Row { from, to, buckets, expected: expected_share(sizes.pairs, sizes.buckets, from, to) }
}

/// Returns the expected share of buckets with `from..=to` pairs: see the top of the file.
fn expected_share(pairs: u64, buckets: u64, from: u64, to: u64) -> f64 {
    if buckets == 0 {
        return 0.0;
    }
    let level_buckets = 1u64 << buckets.ilog2();
    let split = buckets - level_buckets;
    let mean = pairs as f64 / level_buckets as f64;
    let split_share = (2 * split) as f64 / buckets as f64;
    let of_split = if split > 0 { poisson_between(mean / 2.0, from, to) } else { 0.0 };
    split_share * of_split + (1.0 - split_share) * poisson_between(mean, from, to)
}

/// P(from <= X <= to) for X Poisson distributed around `mean`.
fn poisson_between(mean: f64, from: u64, to: u64) -> f64 {
    // Beyond 12 standard deviations nothing is left to add (1e-30), and a bucket of millions needs no loop over
    // millions.
    let reach = 12.0 * mean.sqrt() + 40.0;
    let first = from.max((mean - reach).max(0.0) as u64);
    let last = to.min((mean + reach) as u64);
    (first..=last).map(|count| poisson(mean, count)).sum()
}

fn poisson(mean: f64, count: u64) -> f64 {
    if mean <= 0.0 {
        return if count == 0 { 1.0 } else { 0.0 };
    }
    (count as f64 * mean.ln() - mean - ln_factorial(count)).exp()
}

/// Stirling's series where it is accurate to 1e-9, a sum of logarithms below.
fn ln_factorial(n: u64) -> f64 {
    if n < 16 {
        return (2..=n).map(|k| (k as f64).ln()).sum();
    }
    let x = n as f64;
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(histogram: &[(u64, u64)]) -> Vec<(String, u64)> {
        let buckets = histogram.iter().map(|(_, buckets)| buckets).sum();
        let pairs = histogram.iter().map(|(size, buckets)| size * buckets).sum();
        rows(&Sizes { pairs, buckets, histogram }).iter().map(|row| (row.label(), row.buckets)).collect()
    }

    #[test]
    fn poisson_shares_sum_to_one_and_have_the_mean() {
        for mean in [0.0, 0.3, 7.5, 100.0, 5000.0] {
            let all = poisson_between(mean, 0, u64::MAX);
            assert!((all - 1.0).abs() < 1e-6, "{mean}: {all}");
        }
        let mean: f64 = (0..100).map(|count| count as f64 * poisson(7.5, count)).sum();
        assert!((mean - 7.5).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn unsplit_buckets_expect_twice_the_pairs() {
        // 3 buckets of 2 to 4: two are halves expecting 100, one is whole and expects 200.
        let near = |mean: u64| expected_share(400, 3, mean - 50, mean + 50);
        assert!((near(100) - 2.0 / 3.0).abs() < 1e-3, "{}", near(100));
        assert!((near(200) - 1.0 / 3.0).abs() < 1e-3, "{}", near(200));
    }

    #[test]
    fn few_sizes_have_a_row_each() {
        assert_eq!(rows_of(&[(2, 5000), (4, 1)]), [("2".into(), 5000), ("3".into(), 0), ("4".into(), 1)]);
    }

    #[test]
    fn many_sizes_share_rows_and_an_outlier_has_its_own() {
        let mut histogram: Vec<_> = (0..100).map(|size| (size, 100)).collect();
        histogram.push((100_000, 1));
        let rows = rows_of(&histogram);
        assert_eq!(rows[0], ("0-3".into(), 400));
        assert_eq!(rows.last().unwrap(), &("100+".into(), 1));
        assert!(rows.len() as u64 <= ROWS_MAX + 1);
        assert_eq!(rows.iter().map(|(_, buckets)| buckets).sum::<u64>(), 10_001);
    }

    #[test]
    fn bars_show_the_smallest_share_and_fill_the_width() {
        assert_eq!(bar(1.0, 10), "█".repeat(10));
        assert_eq!(bar(1e-9, 10), "▏");
        assert_eq!(bar(0.0, 10), "");
    }
}
