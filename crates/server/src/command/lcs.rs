//! LCS: the longest common subsequence of two values.
//!
//! O(n m) time and 4 (n + 1) (m + 1) bytes for values of n and m bytes, which Redis limits, too.
//!
//! Source: Wagner and Fischer, The String-to-String Correction Problem, 1974.

use super::call::{Args, Call, Outcome, Refusal, SYNTAX, Turn};
use super::reply;
use super::strings::integer;
use crate::keyspace::SpaceError;

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]`
pub(super) fn lcs(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let refusal = |error: SpaceError| match error {
        SpaceError::WrongType => Refusal::from("ERR The specified keys must contain string values"),
        error => Refusal::from(error),
    };
    let (mut a, mut b) = (Vec::new(), Vec::new());
    turn.get_part(call.database, call.args.at(1), |len| 0..len, &mut a).map_err(refusal)?;
    turn.get_part(call.database, call.args.at(2), |len| 0..len, &mut b).map_err(refusal)?;
    let options = Options::parse(call.args)?;
    let lengths = Lengths::of(&a, &b)?;
    let len = lengths.at(a.len(), b.len());
    if options.only_len {
        reply::count(call.out, len.into());
        return Ok(());
    }
    let (common, mut matches) = lengths.common(&a, &b);
    if !options.indices {
        reply::bulk(call.out, &common);
        return Ok(());
    }
    matches.retain(|found| found.len >= options.least);
    reply::map(call.out, 2, call.version);
    reply::bulk(call.out, b"matches");
    reply::array(call.out, matches.len());
    for Match { ends, len } in matches {
        reply::array(call.out, 2 + usize::from(options.with_len));
        for end in ends {
            reply::array(call.out, 2);
            reply::count(call.out, (end - len) as u64);
            reply::count(call.out, (end - 1) as u64);
        }
        if options.with_len {
            reply::count(call.out, len as u64);
        }
    }
    reply::bulk(call.out, b"len");
    reply::count(call.out, len.into());
    Ok(())
}

struct Options {
    only_len: bool,
    indices: bool,
    /// Shorter matches are left out.
    least: usize,
    with_len: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, Refusal> {
        let mut options = Options { only_len: false, indices: false, least: 0, with_len: false };
        let mut index = 3;
        while index < args.len() {
            if args.is(index, "len") {
                options.only_len = true;
            } else if args.is(index, "idx") {
                options.indices = true;
            } else if args.is(index, "withmatchlen") {
                options.with_len = true;
            } else if args.is(index, "minmatchlen") && index + 1 < args.len() {
                index += 1;
                options.least = usize::try_from(integer(args.at(index))?.max(0)).unwrap_or(usize::MAX);
            } else {
                return Err(SYNTAX.into());
            }
            index += 1;
        }
        if options.only_len && options.indices {
            return Err("ERR If you want both the length and indexes, please just use IDX.".into());
        }
        Ok(options)
    }
}

/// A row of `len` bytes that both values have. It ends before `ends[0]` in the one, before `ends[1]` in the other.
struct Match {
    ends: [usize; 2],
    len: usize,
}

/// The lengths of the longest common subsequences of all beginnings of both values.
struct Lengths {
    cells: Vec<u32>,
    width: usize,
}

impl Lengths {
    fn of(a: &[u8], b: &[u8]) -> Result<Lengths, Refusal> {
        const CELLS_MAX: usize = 128 << 20;
        let width = b.len() + 1;
        let count = (a.len() + 1).checked_mul(width).filter(|count| *count <= CELLS_MAX);
        let count = count.ok_or("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")?;
        let mut lengths = Lengths { cells: vec![0; count], width };
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                lengths.cells[i * width + j] = match a[i - 1] == b[j - 1] {
                    true => lengths.at(i - 1, j - 1) + 1,
                    false => lengths.at(i - 1, j).max(lengths.at(i, j - 1)),
                };
            }
        }
        Ok(lengths)
    }

    /// The length for the first `i` bytes of the one value and the first `j` of the other.
    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * self.width + j]
    }

    /// The common bytes, and the ranges that are contiguous in both values, from the last one to the first.
    fn common(&self, a: &[u8], b: &[u8]) -> (Vec<u8>, Vec<Match>) {
        let (mut common, mut matches) = (Vec::new(), Vec::<Match>::new());
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                common.push(a[i - 1]);
                match matches.last_mut() {
                    Some(Match { ends, len }) if ends[0] - *len == i && ends[1] - *len == j => *len += 1,
                    _ => matches.push(Match { ends: [i, j], len: 1 }),
                }
                (i, j) = (i - 1, j - 1);
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        common.reverse();
        (common, matches)
    }
}
