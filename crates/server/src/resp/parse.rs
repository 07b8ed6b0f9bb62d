//! Parses RESP requests in place: an array of bulk strings, or a line of words.
//!
//! ```text
//! *3\r\n $3\r\n SET\r\n $1\r\n k\r\n $1\r\n v\r\n     -> spans of the input, nothing is copied
//! set k "a b"\r\n                                     -> words, unquoted into a buffer of the parser
//! ```
//!
//! An incomplete request is not parsed again when more of it arrives; parsing continues where it stopped. So a request
//! in many pieces costs no more than one in a single piece. Nothing is allocated for a length that is only announced.
//!
//! Source: the RESP specification; the error texts are Redis's. Differs: CR LF is required where Redis skips two bytes
//! without checking them.

use crate::command::call::Span;
use crate::foreign;

/// The limits of a parser.
#[derive(Clone, Copy, Debug)]
pub struct ParseLimits {
    /// The most arguments of a request, its name included.
    pub args: usize,
    /// The longest argument, in bytes.
    pub bulk_bytes: usize,
    /// The longest request as sent, in bytes; below 4 GiB.
    pub request_bytes: usize,
    /// Whether the client needs no password or has given it; otherwise requests must be small.
    pub authenticated: bool,
}

/// The longest line in bytes, be it words or a length.
pub const LINE_BYTES_MAX: usize = 64 << 10;
const ARGS_MAX_BEFORE_AUTH: usize = 10;
const BULK_BYTES_MAX_BEFORE_AUTH: usize = 16 << 10;

/// The result of looking for one request.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A request, and its length in bytes; its arguments were pushed.
    Request(usize),
    /// A line of words; its arguments are spans of [`Parser::words`].
    Words(usize),
    /// An empty line or array, and its length in bytes.
    Nothing(usize),
    /// An incomplete request, and the least length in bytes that it can have.
    Incomplete(usize),
    /// The client does not speak RESP: the rest of the input has no meaning.
    Broken(String),
    /// The client speaks another protocol, which this names; it gets no answer.
    Foreign(&'static str),
}

/// Parses one request after another.
#[derive(Default)]
pub struct Parser {
    /// Where to continue in an incomplete request, and how many arguments it still lacks.
    resume: Option<(usize, usize)>,
    /// The bytes of a line's words, one after another.
    pub words: Vec<u8>,
}

impl Parser {
    /// Parses the request at the beginning of `input` and pushes its arguments to `args`.
    ///
    /// After [`Parsed::Incomplete`] call it again with the same `args`, and an `input` that begins with the same bytes.
    #[inline]
    pub fn parse(&mut self, input: &[u8], args: &mut Vec<Span>, limits: &ParseLimits) -> Parsed {
        let (mut pos, mut lacking) = match self.resume.take() {
            Some(resume) => resume,
            None => match input.first() {
                None => return Parsed::Incomplete(1),
                Some(b'*') => match number(input, 1) {
                    Number::Is(count, next) if count <= 0 && count >= i64::from(i32::MIN) => {
                        return Parsed::Nothing(next);
                    }
                    Number::Is(count, next) => match usize::try_from(count) {
                        Ok(count) if count <= limits.args => {
                            if !limits.authenticated && count > ARGS_MAX_BEFORE_AUTH {
                                return broken("unauthenticated multibulk length");
                            }
                            (next, count)
                        }
                        _ => return broken("invalid multibulk length"),
                    },
                    Number::Incomplete => return Parsed::Incomplete(input.len() + 1),
                    Number::TooLong => return broken("too big mbulk count string"),
                    Number::Wrong => return broken("invalid multibulk length"),
                },
                Some(_) => return self.parse_words(input, args),
            },
        };
        while lacking > 0 {
            // However short the arguments are.
            if pos > limits.request_bytes {
                return broken("too big request");
            }
            let (start, len) = match bulk_header(input, pos, limits) {
                Header::Is(start, len) => (start, len),
                Header::Incomplete => {
                    self.resume = Some((pos, lacking));
                    return Parsed::Incomplete(input.len() + 1);
                }
                Header::Broken(what) => return Parsed::Broken(what),
            };
            let end = start + len;
            match input.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => return broken("expected CRLF after bulk string"),
                None if end + 2 > limits.request_bytes => return broken("too big request"),
                None => {
                    self.resume = Some((pos, lacking));
                    return Parsed::Incomplete(end + 2);
                }
            }
            args.push(Span::of(start..end));
            pos = end + 2;
            lacking -= 1;
        }
        Parsed::Request(pos)
    }

    /// Parses a line of words, as from telnet.
    fn parse_words(&mut self, input: &[u8], args: &mut Vec<Span>) -> Parsed {
        if !input.first().is_some_and(|&byte| byte == 0 || foreign::can_begin(byte)) {
            return Parsed::Foreign("bytes of another protocol");
        }
        let within = &input[..input.len().min(LINE_BYTES_MAX)];
        let Some(end) = within.iter().position(|&b| b == b'\n') else {
            if within.len() == LINE_BYTES_MAX {
                return broken("too big inline request");
            }
            return Parsed::Incomplete(input.len() + 1);
        };
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if foreign::is_http(line) {
            return Parsed::Foreign("an HTTP request");
        }
        let before = args.len();
        self.words.clear();
        match split_words(line, &mut self.words, args) {
            Err(()) => broken("unbalanced quotes in request"),
            Ok(()) if args.len() == before => Parsed::Nothing(end + 1),
            Ok(()) => Parsed::Words(end + 1),
        }
    }
}

fn broken(what: &str) -> Parsed {
    Parsed::Broken(what.to_owned())
}

enum Header {
    /// Where the bulk string begins, and its length.
    Is(usize, usize),
    Incomplete,
    Broken(String),
}

#[inline]
fn bulk_header(input: &[u8], pos: usize, limits: &ParseLimits) -> Header {
    match input.get(pos) {
        None => return Header::Incomplete,
        Some(b'$') => {}
        Some(&other) => {
            return Header::Broken(format!("expected '$', got '{}'", char::from(other)));
        }
    }
    match number(input, pos + 1) {
        Number::Is(len, next) => match usize::try_from(len) {
            Ok(len) if len <= limits.bulk_bytes => {
                if !limits.authenticated && len > BULK_BYTES_MAX_BEFORE_AUTH {
                    return Header::Broken("unauthenticated bulk length".into());
                }
                Header::Is(next, len)
            }
            _ => Header::Broken("invalid bulk length".into()),
        },
        Number::Incomplete => Header::Incomplete,
        Number::TooLong => Header::Broken("too big bulk count string".into()),
        Number::Wrong => Header::Broken("invalid bulk length".into()),
    }
}

enum Number {
    /// The number, and where the next line begins.
    Is(i64, usize),
    Incomplete,
    TooLong,
    Wrong,
}

/// A decimal number and CR LF. The only sign is a minus; no leading zeros.
#[inline]
fn number(input: &[u8], pos: usize) -> Number {
    // Most numbers have one digit or two.
    match input.get(pos..pos + 5) {
        Some(&[digit @ b'0'..=b'9', b'\r', b'\n', ..]) => Number::Is(i64::from(digit - b'0'), pos + 3),
        Some(&[tens @ b'1'..=b'9', digit @ b'0'..=b'9', b'\r', b'\n', _]) => {
            Number::Is(i64::from(tens - b'0') * 10 + i64::from(digit - b'0'), pos + 4)
        }
        _ => number_of_digits(input, pos),
    }
}

fn number_of_digits(input: &[u8], pos: usize) -> Number {
    /// The most characters of a number: 19 digits and a minus.
    const DIGITS_MAX: usize = 20;
    let rest = &input[pos.min(input.len())..];
    let negative = rest.first() == Some(&b'-');
    let digits = &rest[usize::from(negative)..];
    let mut value: i64 = 0;
    for (index, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if index < DIGITS_MAX => {
                let Some(next) = value.checked_mul(10).and_then(|v| v.checked_add(i64::from(byte - b'0'))) else {
                    return Number::Wrong;
                };
                value = next;
            }
            b'\r' => {
                let leading_zero = index > 1 && digits[0] == b'0' || negative && value == 0;
                if index == 0 || leading_zero {
                    return Number::Wrong;
                }
                return match digits.get(index + 1) {
                    None => Number::Incomplete,
                    Some(b'\n') => {
                        Number::Is(if negative { -value } else { value }, pos + usize::from(negative) + index + 2)
                    }
                    Some(_) => Number::Wrong,
                };
            }
            _ => return if index < LINE_BYTES_MAX { Number::Wrong } else { Number::TooLong },
        }
    }
    Number::Incomplete
}

/// Splits a line at blanks; words may be quoted as in a shell, with escapes in double quotes.
fn split_words(line: &[u8], words: &mut Vec<u8>, args: &mut Vec<Span>) -> Result<(), ()> {
    let is_blank = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b || *b == 0;
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|b| is_blank(b)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Ok(());
        }
        let start = words.len();
        loop {
            match rest {
                [] => break,
                [b, ..] if is_blank(b) => break,
                [b'"', tail @ ..] => rest = double_quoted(tail, words)?,
                [b'\'', tail @ ..] => rest = single_quoted(tail, words)?,
                [b, tail @ ..] => {
                    words.push(*b);
                    rest = tail;
                    continue;
                }
            }
            // A closing quote ends the word.
            if rest.first().is_some_and(|b| !is_blank(b)) {
                return Err(());
            }
        }
        args.push(Span::of(start..words.len()));
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ()> {
    loop {
        match rest {
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |b: u8| char::from(b).to_digit(16).unwrap_or(0) as u8; // at most 15
                words.push(digit(*high) << 4 | digit(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] => {
                words.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    &other => other,
                });
                rest = tail;
            }
            [b, tail @ ..] => {
                words.push(*b);
                rest = tail;
            }
            [] => return Err(()),
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ()> {
    loop {
        match rest {
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => {
                words.push(b'\'');
                rest = tail;
            }
            [b, tail @ ..] => {
                words.push(*b);
                rest = tail;
            }
            [] => return Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ParseLimits =
        ParseLimits { args: 1 << 20, bulk_bytes: 512 << 20, request_bytes: 1 << 30, authenticated: true };

    fn parse_all(input: &[u8]) -> (Parsed, Vec<Vec<u8>>) {
        let (mut parser, mut args) = (Parser::default(), Vec::new());
        let parsed = parser.parse(input, &mut args, &LIMITS);
        let source = if matches!(parsed, Parsed::Words(_)) { &parser.words } else { input };
        let args = args.iter().map(|span| span.bytes(source).to_vec()).collect();
        (parsed, args)
    }

    fn broken_by(input: &[u8]) -> String {
        match parse_all(input).0 {
            Parsed::Broken(what) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_of_many_short_arguments_has_a_maximum_length() {
        let limits = ParseLimits { request_bytes: 100, ..LIMITS };
        let input = [b"*1000\r\n".as_slice(), &b"$2\r\nxy\r\n".repeat(1000)].concat();
        let (mut parser, mut args) = (Parser::default(), Vec::new());
        // Each piece ends within the header of an argument.
        let ends = (0..).map(|pieces| 7 + 8 * pieces + 3);
        let broken = ends.map(|end| (end, parser.parse(&input[..end], &mut args, &limits)));
        let (end, parsed) = broken.into_iter().find(|(_, parsed)| !matches!(parsed, Parsed::Incomplete(_))).unwrap();
        assert!(matches!(parsed, Parsed::Broken(_)) && end < 120, "{parsed:?} after {end} bytes");
    }

    #[test]
    fn a_request_in_any_pieces_is_the_same_request() {
        let input = b"*3\r\n$3\r\nSET\r\n$10\r\n0123456789\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n";
        let whole = 36;
        for step in 1..whole {
            let (mut parser, mut args) = (Parser::default(), Vec::new());
            let mut have = 0;
            loop {
                match parser.parse(&input[..have], &mut args, &LIMITS) {
                    Parsed::Incomplete(need) => {
                        assert!(need > have && need <= whole, "{need} of {whole} at {have}");
                        have = (have + step).max(need).min(input.len());
                    }
                    Parsed::Request(bytes) => {
                        assert_eq!(bytes, whole);
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
            let words: Vec<_> = args.iter().map(|span| span.bytes(input)).collect();
            assert_eq!(words, [b"SET".as_slice(), b"0123456789", b""]);
        }
    }

    #[test]
    fn lines_of_words_have_quotes_and_escapes() {
        let words = |line: &str| parse_all(line.as_bytes()).1;
        assert_eq!(words("set  k v\r\n"), [b"set".as_slice(), b"k", b"v"]);
        assert_eq!(words("echo \"a \\x41\\n\\\"\" 'b\\'c'\n"), [b"echo".as_slice(), b"a A\n\"", b"b'c"]);
        assert_eq!(words("echo \"\"\n"), [b"echo".as_slice(), b""]);
        assert_eq!(parse_all(b"\r\n").0, Parsed::Nothing(2));
        assert_eq!(parse_all(b"*0\r\n").0, Parsed::Nothing(4));
        assert_eq!(parse_all(b"*-1\r\nx").0, Parsed::Nothing(5));
        assert_eq!(parse_all(b"pin").0, Parsed::Incomplete(4));
    }

    #[test]
    fn what_is_no_request_is_named_as_redis_names_it() {
        assert_eq!(broken_by(b"*a\r\n"), "invalid multibulk length");
        assert_eq!(broken_by(b"*99999999999\r\n"), "invalid multibulk length");
        assert_eq!(broken_by(b"*1\r\n:3\r\n"), "expected '$', got ':'");
        assert_eq!(broken_by(b"*1\r\n$-1\r\n"), "invalid bulk length");
        assert_eq!(broken_by(b"*1\r\n$1000000000\r\n"), "invalid bulk length");
        assert_eq!(broken_by(b"*1\r\n$1\r\nabc"), "expected CRLF after bulk string");
        assert_eq!(broken_by(b"set \"k\n"), "unbalanced quotes in request");
        assert_eq!(broken_by(b"set \"k\"v\n"), "unbalanced quotes in request");
        assert_eq!(broken_by(&[b'x'; LINE_BYTES_MAX]), "too big inline request");
        assert_eq!(broken_by(b"*1\r\n$007\r\n"), "invalid bulk length");
    }

    #[test]
    fn other_protocols_are_known_by_their_first_line_or_byte() {
        assert_eq!(parse_all(b"GET / HTTP/1.1\r\nFLUSHALL\r\n").0, Parsed::Foreign("an HTTP request"));
        assert_eq!(parse_all(b"Host: a\r\n").0, Parsed::Foreign("an HTTP request"));
        // TLS, memcached's binary protocol.
        assert_eq!(parse_all(b"\x16\x03\x01").0, Parsed::Foreign("bytes of another protocol"));
        assert_eq!(parse_all(b"\x80").0, Parsed::Foreign("bytes of another protocol"));
    }

    #[test]
    fn before_auth_only_small_requests_are_read() {
        let limits = ParseLimits { authenticated: false, ..LIMITS };
        let mut args = Vec::new();
        let what = Parser::default().parse(b"*11\r\n", &mut args, &limits);
        assert_eq!(what, Parsed::Broken("unauthenticated multibulk length".into()));
        let what = Parser::default().parse(b"*1\r\n$16385\r\n", &mut args, &limits);
        assert_eq!(what, Parsed::Broken("unauthenticated bulk length".into()));
    }
}
