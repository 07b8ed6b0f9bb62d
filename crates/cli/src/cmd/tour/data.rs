//! The pairs of the tour: an English dictionary, a password file, random keys. All are made before a clock starts.

pub type PairList = Vec<(Vec<u8>, Vec<u8>)>;

/// The ENABLE word list, public domain: see data/README.md. Compiled in, so that the tour runs anywhere.
pub const WORDS: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/english-words.txt"));

/// Returns every word, with its line number as text for a value.
pub fn words() -> PairList {
    numbered(word_slices().into_iter())
}

/// `count` words, evenly spread over the list, numbered from 1: the paper's "ASCII string for an integer from 1 to
/// 24474".
pub fn nth_words(count: usize) -> PairList {
    let words = word_slices();
    numbered((0..count).map(|index| words[index * words.len() / count]))
}

fn word_slices() -> Vec<&'static [u8]> {
    WORDS.split(|byte| *byte == b'\n').filter(|word| !word.is_empty()).collect()
}

fn numbered<'w>(words: impl Iterator<Item = &'w [u8]>) -> PairList {
    words.zip(1u32..).map(|(word, number)| (word.to_vec(), number.to_string().into_bytes())).collect()
}

/// Initials differ, so that initial and family name give each of the 300 people a unique logname.
const GIVEN_NAMES: [&str; 20] = [
    "Alice", "Bob", "Carol", "Dave", "Erin", "Frank", "Grace", "Heidi", "Ivan", "Judy", "Karl", "Lena", "Mike", "Nina",
    "Oscar", "Peggy", "Quinn", "Rupert", "Sybil", "Trent",
];
const FAMILY_NAMES: [&str; 15] = [
    "Adams", "Baker", "Clark", "Davis", "Evans", "Foster", "Green", "Harris", "Irving", "Jones", "King", "Lewis",
    "Moore", "Nolan", "Owens",
];
const SHELLS: [&str; 3] = ["/bin/sh", "/bin/csh", "/usr/local/bin/ksh"];
const FIRST_UID: usize = 1000;

/// Two pairs per account, as in the paper: logname -> the rest of its password entry, uid -> the whole entry.
pub fn accounts() -> PairList {
    let people = FAMILY_NAMES.iter().flat_map(|family| GIVEN_NAMES.iter().map(move |given| (given, family)));
    let mut pairs = PairList::new();
    for (index, (given, family)) in people.enumerate() {
        let logname = format!("{}{}", &given[..1], family).to_lowercase();
        let (uid, shell) = (FIRST_UID + index, SHELLS[index % SHELLS.len()]);
        let rest = format!("x:{uid}:{}:{given} {family}:/home/{logname}:{shell}", 100 + index % 7);
        let entry = format!("{logname}:{rest}");
        pairs.push((logname.into_bytes(), rest.into_bytes()));
        pairs.push((uid.to_string().into_bytes(), entry.into_bytes()));
    }
    pairs
}

pub const RANDOM_KEY_BYTES: usize = 16;
pub const RANDOM_VALUE_BYTES: usize = 32;

/// Key and value in one allocation: a million pairs should not be two million allocations.
pub struct RandomPair([u8; RANDOM_KEY_BYTES + RANDOM_VALUE_BYTES]);

impl RandomPair {
    pub fn key(&self) -> &[u8] {
        &self.0[..RANDOM_KEY_BYTES]
    }

    pub fn value(&self) -> &[u8] {
        &self.0[RANDOM_KEY_BYTES..]
    }
}

/// Returns the same pairs on every run: splitmix64 from a fixed seed. 16 random bytes do not collide at these counts.
pub fn random_pairs(count: usize) -> Vec<RandomPair> {
    let mut state = 1991_u64;
    let mut pair = || {
        let mut bytes = [0; RANDOM_KEY_BYTES + RANDOM_VALUE_BYTES];
        for word in bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&splitmix64(&mut state).to_le_bytes());
        }
        RandomPair(bytes)
    };
    (0..count).map(|_| pair()).collect()
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn assert_distinct(pairs: &PairList, count: usize) {
        assert_eq!(pairs.len(), count);
        assert_eq!(pairs.iter().map(|(key, _)| key).collect::<HashSet<_>>().len(), count);
    }

    #[test]
    fn keys_are_distinct_and_as_many_as_said() {
        assert_distinct(&words(), 172_823);
        assert_distinct(&nth_words(24_474), 24_474);
        assert_distinct(&accounts(), 600);
    }

    #[test]
    fn an_account_has_both_its_pairs() {
        let accounts = accounts();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        assert_eq!(text(&accounts[0].0), "aadams");
        assert_eq!(text(&accounts[0].1), "x:1000:100:Alice Adams:/home/aadams:/bin/sh");
        assert_eq!(text(&accounts[1].0), "1000");
        assert_eq!(accounts[1].1, [b"aadams:", &accounts[0].1[..]].concat());
    }
}
