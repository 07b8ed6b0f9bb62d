//! The parts of both protocols that a load needs: requests and replies.

use crate::Result;
use clap::ValueEnum;
use std::io::{Read, Write};
use std::net::TcpStream;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    Resp,
    Memcached,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    Get,
    Set,
}

/// Returns the 16-byte key of a number.
pub fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

impl Protocol {
    /// Appends a request: SET of one key, or GET of one or more.
    pub fn request(self, out: &mut Vec<u8>, operation: Operation, keys: &[u64], value: &[u8]) {
        match (self, operation) {
            (Protocol::Resp, Operation::Set) => resp(out, &[b"SET", &key(keys[0]), value]),
            (Protocol::Resp, Operation::Get) if keys.len() == 1 => resp(out, &[b"GET", &key(keys[0])]),
            (Protocol::Resp, Operation::Get) => {
                head(out, b'*', keys.len() + 1);
                out.extend_from_slice(b"$4\r\nMGET\r\n");
                keys.iter().for_each(|&number| bulk(out, &key(number)));
            }
            (Protocol::Memcached, Operation::Set) => {
                out.extend_from_slice(b"set ");
                out.extend_from_slice(&key(keys[0]));
                out.extend_from_slice(b" 0 0 ");
                out.extend_from_slice(value.len().to_string().as_bytes());
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            (Protocol::Memcached, Operation::Get) => {
                out.extend_from_slice(b"get");
                for &number in keys {
                    out.push(b' ');
                    out.extend_from_slice(&key(number));
                }
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Parses the first reply in `input`. Returns its length and how many values it has; `None` if it is incomplete.
    pub fn reply(self, input: &[u8]) -> Result<Option<(usize, u64)>> {
        match self {
            Protocol::Resp => resp_reply(input),
            Protocol::Memcached => memcached_reply(input),
        }
    }
}

/// Appends a request of the Redis protocol.
pub fn resp(out: &mut Vec<u8>, words: &[&[u8]]) {
    head(out, b'*', words.len());
    words.iter().for_each(|word| bulk(out, word));
}

fn bulk(out: &mut Vec<u8>, word: &[u8]) {
    head(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn head(out: &mut Vec<u8>, sign: u8, number: usize) {
    out.push(sign);
    match number {
        0..10 => out.push(b'0' + number as u8),
        10..100 => out.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]),
        _ => out.extend_from_slice(number.to_string().as_bytes()),
    }
    out.extend_from_slice(b"\r\n");
}

/// Returns the first line of `input` without its end.
fn line(input: &[u8]) -> Option<&[u8]> {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    Some(&input[..end.saturating_sub(1)])
}

fn number(text: &[u8]) -> Result<i64> {
    Ok(std::str::from_utf8(text)?.parse()?)
}

fn resp_reply(input: &[u8]) -> Result<Option<(usize, u64)>> {
    let Some(first) = line(input) else { return Ok(None) };
    let after = first.len() + 2;
    match first.first() {
        Some(b'+' | b':' | b'_') => Ok(Some((after, 0))),
        Some(b'$') => match number(&first[1..])? {
            len @ 0.. => {
                let end = after + len as usize + 2;
                Ok((input.len() >= end).then_some((end, 1)))
            }
            _ => Ok(Some((after, 0))),
        },
        Some(b'*') => {
            let (mut end, mut values) = (after, 0);
            for _ in 0..number(&first[1..])?.max(0) {
                let Some((len, value)) = resp_reply(&input[end..])? else { return Ok(None) };
                end += len;
                values += value;
            }
            Ok(Some((end, values)))
        }
        _ => Err(format!("the server answered {}", first.escape_ascii()).into()),
    }
}

fn memcached_reply(input: &[u8]) -> Result<Option<(usize, u64)>> {
    let (mut at, mut values) = (0, 0);
    loop {
        let Some(first) = line(&input[at..]) else { return Ok(None) };
        at += first.len() + 2;
        if first.starts_with(b"VALUE ") {
            let len = first.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
            at += number(len)? as usize + 2;
            values += 1;
            if at > input.len() {
                return Ok(None);
            }
            continue;
        }
        return match first {
            b"END" | b"STORED" => Ok(Some((at, values))),
            _ => Err(format!("the server answered {}", first.escape_ascii()).into()),
        };
    }
}

/// Connects to a server of this machine.
pub fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A Redis connection with one request at a time.
pub struct Asking {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Asking {
    pub fn new(port: u16) -> Result<Self> {
        Ok(Asking { stream: connect(port)?, input: Vec::new() })
    }

    /// Sends a request and returns the raw reply.
    pub fn ask(&mut self, words: &[&str]) -> Result<Vec<u8>> {
        let mut request = Vec::new();
        resp(&mut request, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        self.stream.write_all(&request)?;
        loop {
            if let Some((len, _)) = resp_reply(&self.input)? {
                return Ok(self.input.drain(..len).collect());
            }
            let mut room = [0; 4096];
            match self.stream.read(&mut room)? {
                0 => return Err("the server closed the connection".into()),
                count => self.input.extend_from_slice(&room[..count]),
            }
        }
    }

    /// Requests a BGSAVE without waiting for the reply, which is an error if a save is running.
    pub fn begin_save(&mut self) -> Result<()> {
        let mut request = Vec::new();
        resp(&mut request, &[b"BGSAVE"]);
        Ok(self.stream.write_all(&request)?)
    }

    /// Returns the number on the line `name` of INFO.
    pub fn info(&mut self, name: &str) -> Result<u64> {
        let text = String::from_utf8(self.ask(&["INFO"])?)?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.ok_or_else(|| format!("INFO has no {name}"))?.trim().parse()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_end_where_they_end() {
        let cases: [(Protocol, &[u8], u64); 8] = [
            (Protocol::Resp, b"+OK\r\n", 0),
            (Protocol::Resp, b":12\r\n", 0),
            (Protocol::Resp, b"$-1\r\n", 0),
            (Protocol::Resp, b"$3\r\na\nb\r\n", 1),
            (Protocol::Resp, b"*3\r\n$1\r\na\r\n$-1\r\n$0\r\n\r\n", 2),
            (Protocol::Memcached, b"STORED\r\n", 0),
            (Protocol::Memcached, b"END\r\n", 0),
            (Protocol::Memcached, b"VALUE a 0 3\r\nx\ny\r\nVALUE b 0 0\r\n\r\nEND\r\n", 2),
        ];
        for (protocol, bytes, values) in cases {
            let more = [bytes, b"+more"].concat();
            assert_eq!(protocol.reply(&more).unwrap(), Some((bytes.len(), values)));
            for end in 0..bytes.len() {
                assert_eq!(protocol.reply(&bytes[..end]).unwrap(), None, "{}", bytes[..end].escape_ascii());
            }
        }
        assert!(Protocol::Resp.reply(b"-ERR no\r\n").is_err());
        assert!(Protocol::Memcached.reply(b"SERVER_ERROR no\r\n").is_err());
    }
}
