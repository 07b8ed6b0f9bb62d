//! The patterns of Lua 5.1: `string.find`, `match`, `gmatch` and `gsub`.
//!
//! Lua's own functions recurse once per item of the pattern, may take exponential time, and cannot be interrupted.
//! These give the same results within limits of depth and output, and end when the script is killed.
//!
//! Source: lstrlib.c of Lua 5.1. Differs: the limits, which are those of Lua 5.2.

/// The most nested items of a pattern.
const DEPTH_MAX: u32 = 200;
const CAPTURES_MAX: usize = 32;
/// Steps between two checks whether the script is killed.
const STEPS: u32 = 1 << 16;

/// A part of the subject that a pattern captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// Bytes from one offset to another.
    Part(usize, usize),
    /// An offset.
    Position(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Position,
    At(usize),
}

/// A search: its subject, its pattern, and what has been captured so far.
pub(super) struct Search<'s> {
    subject: &'s [u8],
    pattern: &'s [u8],
    captures: Vec<(usize, End)>,
    depth: u32,
    steps: u32,
    is_killed: &'s dyn Fn() -> bool,
}

/// The offset where a match ends, or the message of an error.
type Found = Result<Option<usize>, String>;

impl<'s> Search<'s> {
    /// Creates a search for `pattern`, which ends at its first zero byte.
    pub(super) fn new(subject: &'s [u8], pattern: &'s [u8], is_killed: &'s dyn Fn() -> bool) -> Search<'s> {
        let end = pattern.iter().position(|&byte| byte == 0).unwrap_or(pattern.len());
        Search { subject, pattern: &pattern[..end], captures: Vec::new(), depth: 0, steps: 0, is_killed }
    }

    /// The first match that begins at `from` or later: where it begins and ends. `anchored`: `^` has its meaning.
    ///
    /// # Errors
    /// The message: the pattern is malformed or too complex, or the script was killed.
    pub(super) fn first(&mut self, from: usize, anchored: bool) -> Result<Option<(usize, usize)>, String> {
        let is_anchored = anchored && self.pattern.first() == Some(&b'^');
        for start in from..=self.subject.len() {
            self.captures.clear();
            if let Some(end) = self.matches(start, usize::from(is_anchored))? {
                return Ok(Some((start, end)));
            }
            if is_anchored {
                break;
            }
        }
        Ok(None)
    }

    /// The captures of the last match; `whole` is the match, which counts as the only capture of a pattern without any.
    pub(super) fn captures(&self, whole: Option<(usize, usize)>) -> Result<Vec<Capture>, String> {
        if self.captures.is_empty() {
            return Ok(whole.map(|(start, end)| Capture::Part(start, end)).into_iter().collect());
        }
        (0..self.captures.len()).map(|index| self.capture(index, (0, 0))).collect()
    }

    /// One capture of the last match.
    pub(super) fn capture(&self, index: usize, whole: (usize, usize)) -> Result<Capture, String> {
        match self.captures.get(index) {
            Some(&(start, End::At(end))) => Ok(Capture::Part(start, end)),
            Some(&(start, End::Position)) => Ok(Capture::Position(start)),
            Some((_, End::Open)) => Err("unfinished capture".into()),
            None if index == 0 => Ok(Capture::Part(whole.0, whole.1)),
            None => Err("invalid capture index".into()),
        }
    }

    fn at(&self, index: usize) -> Option<u8> {
        self.pattern.get(index).copied()
    }

    fn step(&mut self, steps: usize) -> Result<(), String> {
        self.steps = self.steps.saturating_add(u32::try_from(steps).unwrap_or(STEPS));
        if self.steps >= STEPS {
            self.steps = 0;
            if (self.is_killed)() {
                return Err("script killed".into());
            }
        }
        Ok(())
    }

    fn matches(&mut self, s: usize, p: usize) -> Found {
        self.depth += 1;
        let found = if self.depth > DEPTH_MAX { Err("pattern too complex".into()) } else { self.matches_here(s, p) };
        self.depth -= 1;
        found
    }

    fn matches_here(&mut self, mut s: usize, mut p: usize) -> Found {
        loop {
            self.step(1)?;
            match (self.at(p), self.at(p + 1)) {
                (None, _) => return Ok(Some(s)),
                (Some(b'('), Some(b')')) => return self.start_capture(s, p + 2, End::Position),
                (Some(b'('), _) => return self.start_capture(s, p + 1, End::Open),
                (Some(b')'), _) => return self.end_capture(s, p + 1),
                (Some(b'$'), None) => return Ok((s == self.subject.len()).then_some(s)),
                (Some(b'%'), Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (Some(b'%'), Some(b'f')) => {
                    p += 2;
                    if self.at(p) != Some(b'[') {
                        return Err("missing '[' after '%f' in pattern".into());
                    }
                    let end = self.class_end(p)?;
                    let before = if s == 0 { 0 } else { self.subject[s - 1] };
                    let here = self.subject.get(s).copied().unwrap_or(0);
                    if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                }
                (Some(b'%'), Some(digit)) if digit.is_ascii_digit() => match self.repeated(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    self.step(end - p)?;
                    let fits = s < self.subject.len() && self.fits(self.subject[s], p, end);
                    match self.at(end) {
                        Some(b'?') => {
                            if fits && let Some(found) = self.matches(s + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.longest(s, p, end),
                        Some(b'+') => return if fits { self.longest(s + 1, p, end) } else { Ok(None) },
                        Some(b'-') => return self.shortest(s, p, end),
                        _ if fits => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// Matches as many as fit, then fewer.
    fn longest(&mut self, s: usize, p: usize, end: usize) -> Found {
        let mut count = 0;
        while self.subject.get(s + count).is_some_and(|&byte| self.fits(byte, p, end)) {
            count += 1;
            self.step(end - p)?;
        }
        for taken in (0..=count).rev() {
            if let Some(found) = self.matches(s + taken, end + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Matches as few as fit, then more.
    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.matches(s, end + 1)? {
                return Ok(Some(found));
            }
            if s >= self.subject.len() || !self.fits(self.subject[s], p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn start_capture(&mut self, s: usize, p: usize, end: End) -> Found {
        if self.captures.len() >= CAPTURES_MAX {
            return Err("too many captures".into());
        }
        self.captures.push((s, end));
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Found {
        let open = self.captures.iter().rposition(|(_, end)| *end == End::Open).ok_or("invalid pattern capture")?;
        self.captures[open].1 = End::At(s);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures[open].1 = End::Open;
        }
        Ok(found)
    }

    /// `%1`: where another copy of a capture ends.
    fn repeated(&mut self, s: usize, digit: u8) -> Found {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let part = match self.captures.get(index) {
            Some(&(start, End::At(end))) => &self.subject[start..end],
            Some((_, End::Position)) => return Ok(None),
            _ => return Err("invalid capture index".into()),
        };
        self.step(part.len())?;
        Ok(self.subject[s..].starts_with(part).then_some(s + part.len()))
    }

    /// `%bxy`: where the balanced part that begins here ends.
    fn balanced(&mut self, s: usize, p: usize) -> Found {
        let (Some(open), Some(close)) = (self.at(p), self.at(p + 1)) else { return Err("unbalanced pattern".into()) };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut level = 1u64;
        for (index, &byte) in self.subject.iter().enumerate().skip(s + 1) {
            if byte == close {
                level -= 1;
                if level == 0 {
                    self.step(index - s)?;
                    return Ok(Some(index + 1));
                }
            } else if byte == open {
                level += 1;
            }
        }
        self.step(self.subject.len() - s)?;
        Ok(None)
    }

    /// Where the class or character at `p` ends.
    fn class_end(&self, p: usize) -> Result<usize, String> {
        match self.at(p) {
            Some(b'%') if self.at(p + 1).is_none() => Err("malformed pattern (ends with '%')".into()),
            Some(b'%') => Ok(p + 2),
            Some(b'[') => {
                let mut at = p + 1 + usize::from(self.at(p + 1) == Some(b'^'));
                // The first one is part of the set, even if it is the closing bracket.
                loop {
                    let byte = self.at(at).ok_or("malformed pattern (missing ']')")?;
                    at += 1;
                    if byte == b'%' && self.at(at).is_some() {
                        at += 1;
                    }
                    if self.at(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether a byte is of the class between `p` and `end`.
    fn fits(&self, byte: u8, p: usize, end: usize) -> bool {
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_of(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            same => same == byte,
        }
    }

    /// Whether a byte is in the set whose brackets are at `p` and `close`.
    fn in_set(&self, byte: u8, mut p: usize, close: usize) -> bool {
        let is_in = self.at(p + 1) != Some(b'^');
        p += 1 + usize::from(!is_in);
        while p < close {
            let this = self.pattern[p];
            if this == b'%' && p + 1 < close {
                if is_of(byte, self.pattern[p + 1]) {
                    return is_in;
                }
                p += 2;
            } else if self.at(p + 1) == Some(b'-') && p + 2 < close {
                if (this..=self.pattern[p + 2]).contains(&byte) {
                    return is_in;
                }
                p += 3;
            } else {
                if this == byte {
                    return is_in;
                }
                p += 1;
            }
        }
        !is_in
    }
}

/// Whether a byte is of a class such as `%a`.
fn is_of(byte: u8, class: u8) -> bool {
    let is_of = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 11,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_of != class.is_ascii_uppercase()
}

/// Whether a pattern matches nothing but itself.
pub(super) fn is_plain(pattern: &[u8]) -> bool {
    let end = pattern.iter().position(|&byte| byte == 0).unwrap_or(pattern.len());
    !pattern[..end].iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

/// Replaces up to `most` matches by a text in which `%1` is a capture. Returns the result, and how many were replaced.
pub(super) fn replace(
    search: &mut Search<'_>,
    by: &[u8],
    most: u64,
    bytes_max: usize,
) -> Result<(Vec<u8>, u64), String> {
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    let subject = search.subject;
    while count < most
        && let Some(whole) = search.first(at, true)?
    {
        out.extend_from_slice(&subject[at..whole.0]);
        count += 1;
        let mut rest = by.iter();
        while let Some(&byte) = rest.next() {
            match byte {
                b'%' => match rest.next().copied().unwrap_or(0) {
                    b'0' => out.extend_from_slice(&subject[whole.0..whole.1]),
                    digit @ b'1'..=b'9' => match search.capture(usize::from(digit - b'1'), whole)? {
                        Capture::Part(start, end) => out.extend_from_slice(&subject[start..end]),
                        Capture::Position(start) => out.extend_from_slice((start + 1).to_string().as_bytes()),
                    },
                    other => out.push(other),
                },
                _ => out.push(byte),
            }
        }
        if out.len() > bytes_max {
            return Err("not enough memory".into());
        }
        at = whole.1;
        if whole.0 == whole.1 {
            // After an empty match the search continues one byte later.
            out.extend(subject.get(at));
            at += 1;
        }
        if at > subject.len() || search.pattern.first() == Some(&b'^') {
            break;
        }
    }
    out.extend_from_slice(&subject[at.min(subject.len())..]);
    Ok((out, count))
}
