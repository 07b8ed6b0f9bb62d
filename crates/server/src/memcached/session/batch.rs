//! Walks through the lines of a batch, in their order: lookups and plain stores are added to the run (`runs.rs`),
//! everything else is executed alone (`one.rs`, `stores.rs`). A dump that is not finished comes first.

use super::entry::{Executed, Work};
use super::input::{Announced, Data, Line, Step};
use super::runs::Run;
use super::{MemcachedSession, OUTPUT_BYTES, answer};
use crate::foreign;
use crate::memcached::dump::Dump;
use crate::memcached::meta;
use crate::memcached::request::{self, Mode, Request};
use crate::session::Flow;
use std::sync::atomic::Ordering::*;

impl MemcachedSession {
    pub(super) fn execute_all(
        &mut self,
        work: &mut Work<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Executed<(usize, Flow)> {
        if let Some(flow) = self.go_on_dumping(work, out) {
            return Ok((0, flow));
        }
        let mut run = Run::new();
        let mut at = 0;
        let (end, flow) = loop {
            at += self.skip_refused(&input[at..]);
            if out.len() > OUTPUT_BYTES {
                break (at, Flow::Write);
            }
            let (line, after) = match self.line(&input[at..]) {
                Line::Is(line, bytes) => (line, at + bytes),
                Line::Incomplete(need) => break (at, Flow::Read(need)),
                Line::TooLong => {
                    self.flush(work, &mut run, out)?;
                    out.extend_from_slice(b"CLIENT_ERROR line too long\r\n");
                    break (at, Flow::Close);
                }
            };
            if foreign::is_http(line) {
                self.flush(work, &mut run, out)?;
                work.server.foreign.note(work.server.started, &self.client, "an HTTP request");
                break (at, Flow::Close);
            }
            let start = at;
            at = after;
            match self.execute_line(work, &mut run, start, line, &input[after..], out)? {
                Step::Done(data_bytes) => at += data_bytes,
                Step::More(need) => break (start, Flow::Read(after - start + need)),
                Step::End(flow) => break (at, flow),
            }
        };
        self.flush(work, &mut run, out)?;
        Ok((end, flow))
    }

    /// Executes the request that `line` begins, or adds it to the run; `rest` begins with its data.
    fn execute_line<'i>(
        &mut self,
        work: &mut Work<'_>,
        run: &mut Run<'i>,
        start: usize,
        line: &'i [u8],
        rest: &'i [u8],
        out: &mut Vec<u8>,
    ) -> Executed<Step> {
        match request::parse(line) {
            _ if !self.authenticated => return Ok(self.authenticate(line, rest, out)),
            Ok(Request::Get(get)) if get.exptime.is_none() => self.add_get(work, run, start, &get, out)?,
            Ok(Request::MetaGet(meta)) if meta::mostly_reads(&meta) => {
                self.add_meta_get(work, run, start, meta, out)?
            }
            Ok(Request::Store(store)) => {
                let removes = (store.mode == Mode::Set).then_some(store.key);
                let announced = Announced { len: store.data_len, quiet: store.quiet, removes };
                let data = match self.take_data(work, run, start, &announced, rest, out)? {
                    Ok(data) => data,
                    Err(step) => return Ok(step),
                };
                if !self.add_set(work, run, start, &store, data, out)? {
                    self.flush(work, run, out)?;
                    self.store_one(work, start, &store, data, out)?;
                }
                return Ok(Step::Done(data.len() + 2));
            }
            Ok(Request::MetaSet(meta, len)) => {
                let announced = Announced { len, quiet: false, removes: Some(&meta.key) };
                let data = match self.take_data(work, run, start, &announced, rest, out)? {
                    Ok(data) => data,
                    Err(step) => return Ok(step),
                };
                self.flush(work, run, out)?;
                self.meta_set(work, start, line, &meta, data, out)?;
                return Ok(Step::Done(data.len() + 2));
            }
            Ok(Request::Dump(kind)) => {
                self.flush(work, run, out)?;
                self.dump = Some(Dump::new(kind));
                if let Some(flow) = self.go_on_dumping(work, out) {
                    return Ok(Step::End(flow));
                }
            }
            Ok(Request::Quit) => {
                self.flush(work, run, out)?;
                return Ok(Step::End(Flow::Close));
            }
            Ok(request) => {
                self.flush(work, run, out)?;
                self.execute_one(work, start, line, &request, out)?;
            }
            Err(refused) => {
                self.flush(work, run, out)?;
                self.figures.errors.fetch_add(1, Relaxed);
                self.swallow = refused.swallow;
                if !refused.text.is_empty() {
                    out.extend_from_slice(refused.text.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
        Ok(Step::Done(0))
    }

    /// Returns the data at the beginning of `rest`, or how the walk continues without it: it is incomplete or refused.
    fn take_data<'i>(
        &mut self,
        work: &mut Work<'_>,
        run: &mut Run<'_>,
        start: usize,
        announced: &Announced<'_>,
        rest: &'i [u8],
        out: &mut Vec<u8>,
    ) -> Executed<Result<&'i [u8], Step>> {
        Ok(match self.data(rest, announced.len) {
            None => Err(Step::More(announced.len + 2)),
            Some(Data::Is(data)) => Ok(data),
            Some(Data::Bad(bytes)) => {
                self.flush(work, run, out)?;
                answer(out, announced.quiet, b"CLIENT_ERROR bad data chunk\r\n");
                Err(Step::Done(bytes))
            }
            Some(Data::TooLarge) => {
                self.flush(work, run, out)?;
                self.refuse_large(work, start, announced, out)?;
                Err(Step::Done(0))
            }
        })
    }

    /// Writes more of the current dump, if there is one. Returns how the connection continues; `None` when it is done.
    fn go_on_dumping(&mut self, work: &mut Work<'_>, out: &mut Vec<u8>) -> Option<Flow> {
        let mut dump = self.dump.take()?;
        let Ok(shared) = work.shared(0) else {
            self.dump = Some(dump);
            return Some(Flow::Wait);
        };
        match dump.write(shared, self.activity(false), OUTPUT_BYTES, out) {
            Ok(true) => None,
            Ok(false) => {
                self.dump = Some(dump);
                Some(Flow::Write)
            }
            Err(error) => {
                self.refuse(out, &error);
                None
            }
        }
    }
}
