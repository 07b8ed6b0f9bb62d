//! Times in buckets whose width is at most 1/32 of their limit, so that quantiles need no list of all times.

/// Buckets per power of two.
const STEPS: u64 = 32;

pub struct Histogram {
    counts: Vec<u64>,
    pub count: u64,
    pub max_ns: u64,
}

impl Histogram {
    pub fn new() -> Self {
        Histogram { counts: vec![0; 64 * STEPS as usize], count: 0, max_ns: 0 }
    }

    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Returns the time that this share of all times did not exceed, rounded up to the limit of its bucket.
    pub fn quantile_us(&self, share: f64) -> f64 {
        let rank = (self.count as f64 * share).ceil() as u64;
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank && below > 0 {
                return limit(bucket).min(self.max_ns) as f64 / 1000.0;
            }
        }
        0.0
    }
}

fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2()) - u64::from(STEPS.ilog2());
    (power * STEPS + (ns >> power)) as usize // the second term is 32 to 63
}

/// Returns the largest time of a bucket.
fn limit(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let power = bucket / STEPS - 1;
    (((bucket - power * STEPS) + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thirty_second() {
        let mut histogram = Histogram::new();
        (1..=100_000).for_each(|ns| histogram.add(ns * 1000));
        for share in [0.5, 0.99, 0.999] {
            let exact = 100_000.0 * share;
            let quantile = histogram.quantile_us(share);
            assert!((exact..=exact * 1.033).contains(&quantile), "{share}: {quantile}");
        }
        assert_eq!(histogram.quantile_us(1.0), 100_000.0);
        for ns in [0, 31, 32, 63, 64, 1 << 40, (1 << 50) - 1] {
            assert!(limit(bucket(ns)) >= ns && (ns == 0 || limit(bucket(ns) - 1) < ns), "{ns}");
        }
    }
}
