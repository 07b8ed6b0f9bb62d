//! The words of a command line: separated by spaces, quoted if they contain spaces, with the escapes of TSV.

use crate::escapes;

/// Splits `line` into words, as bytes.
///
/// # Errors
/// A quote that is not closed; an unknown escape.
pub fn split(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None, b' ' | b'\t' | b'\r') => words.extend(word.take()),
            (_, b'\\') => {
                let word = word.get_or_insert_default();
                word.push(byte);
                // So that an escaped quote or space is not one; the escape is undone below.
                word.extend(bytes.next());
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".into());
    }
    words.extend(word);
    words.into_iter().map(|word| unescape(&word)).collect()
}

/// In addition to the escapes of TSV, `\"`, `\'` and `\ ` are the character after the backslash.
fn unescape(word: &[u8]) -> Result<Vec<u8>, String> {
    let mut escapes = Vec::with_capacity(word.len());
    let mut bytes = word.iter().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek()) {
            (b'\\', Some(next @ (b'"' | b'\'' | b' '))) => {
                escapes.push(**next);
                bytes.next();
            }
            (b'\\', Some(next)) => {
                escapes.extend([*byte, **next]);
                bytes.next();
            }
            _ => escapes.push(*byte),
        }
    }
    let mut unescaped = Vec::new();
    escapes::unescape(&escapes, &mut unescaped)?;
    Ok(unescaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_escaped() {
        let words = |line| split(line).unwrap();
        assert_eq!(words("  put  a b "), [b"put", &b"a"[..], b"b"]);
        assert_eq!(words(r#"put "a b" 'c "d"' ''"#), [b"put", &b"a b"[..], b"c \"d\"", b""]);
        assert_eq!(words(r#"put a\ b\"c \\x \x41\t"#), [b"put", &b"a b\"c"[..], b"\\x", b"A\t"]);
        assert_eq!(words(r#"x"y z"w"#), [b"xy zw"]);
        assert!(words("").is_empty());
        assert_eq!(split("put \"a"), Err("a quote is not closed".to_owned()));
        assert!(split("put \\q").unwrap_err().contains("unknown escape"));
        assert!(split("put a\\").is_err());
    }
}
