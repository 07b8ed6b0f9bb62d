//! Random numbers by which a table and its log know one another.

/// A random number, from the standard library's hash maps, which take their seeds from the operating system.
pub(crate) fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    #[cfg(test)]
    if let Some(state) = TEST_RANDOM.get() {
        TEST_RANDOM.set(Some(state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407)));
        return state;
    }
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
thread_local! {
    static TEST_RANDOM: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Seeds the random numbers of this thread.
#[cfg(test)]
pub(crate) fn seed_random(seed: u64) {
    TEST_RANDOM.set(Some(seed));
}
