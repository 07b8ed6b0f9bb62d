//! Patterns of KEYS, SCAN MATCH, PSUBSCRIBE: `*`, `?`, `[a-z]`, `[^a]`, `\x`.
//!
//! Time: O(pattern x text) for every pattern, because after a mismatch only the last `*` is retried.

/// Whether `text` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The position after the last star, and the text position to which its match can be extended.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        match pattern.get(p..).and_then(|rest| match_one(rest, text[t])) {
            Some(len) => {
                p += len;
                t += 1;
            }
            None => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    (p, t) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p.min(pattern.len())..].iter().all(|&b| b == b'*')
}

/// The length of the pattern's first element if it matches `byte`.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => match_class(rest, byte).map(|len| len + 1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// Matches a class, given without its opening bracket. A class that is not closed extends to the end of the pattern.
fn match_class(class: &[u8], byte: u8) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at.min(class.len())..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at.min(class.len()))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        let yes = [
            ("*", ""),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hbllo"),
            ("h[a-b]llo", "hbllo"),
            ("h\\*llo", "h*llo"),
            ("a*b*c", "aXbXbXc"),
            ("**", "x"),
            ("", ""),
            ("[z-a]", "m"),
            ("a\\", "a\\"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in
            [("h?llo", "hllo"), ("h[^e]llo", "hello"), ("a*b", "ac"), ("", "a"), ("a", ""), ("[a", "b")]
        {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        let pattern = b"a*".repeat(1000);
        let text = b"a".repeat(5000);
        assert!(matches(&pattern, &text));
        assert!(!matches(&[pattern.as_slice(), b"b"].concat(), &text));
    }
}
