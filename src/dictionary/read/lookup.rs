//! A lookup in one file.
//!
//! ```text
//! find(key)   hash -> position -> filter, index (pages, or ranks and from them pages)
//!             pages are mapped and checked   search them in place
//!             a few pages                    one read, search
//!             many pages                     from cell to cell (cells.rs)
//!             -> value
//! ```
//!
//! Not here: the search within pages (`search.rs`), many lookups at once (`many.rs`).

use super::blocks;
use super::file::DictionaryFile;
use super::pages::Scratch;
use super::search::{self, At, Outcome, Query, Sought};
use super::wanted::Wanted;
use crate::dictionary::format::layout::{Compression, Layout};
use crate::dictionary::index::filter::Probe;
use crate::dictionary::index::{Candidates, LoadedIndex};
use crate::error::Result;
use crate::racing;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// A lookup that would read more pages than this examines their cells one by one instead.
const PAGES_AT_ONCE_MAX: u64 = 64;

/// Longer values are prefetched before they are copied; shorter ones are usually in the cache line of the key.
const NEAR_VALUE_BYTES: u32 = 64;

/// The highest [`ABSENT`]. Above half of it the next key is probably absent.
const ABSENT_MAX: u8 = 15;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
    /// Rises with each lookup whose key a filter rejects, falls with each other one.
    static ABSENT: Cell<u8> = const { Cell::new(0) };
}

impl DictionaryFile {
    /// Looks up `key` and passes its value to `wanted`. Returns whether the key is present.
    pub fn find(&self, key: &[u8], wanted: &mut Wanted<'_>) -> Result<bool> {
        if self.has_no_key_of(key.len()) {
            return Ok(false);
        }
        let query = Query::of(key, &self.hash);
        if self.filter.is_none() {
            return self.find_at(query, None, wanted);
        }
        let probe = self.ask_filter(query.position);
        // Other indexes take longer than the filter.
        if ABSENT.get() <= ABSENT_MAX / 2 && matches!(self.index, LoadedIndex::Page(..)) {
            return self.find_at(query, Some(probe), wanted);
        }
        if self.passes(probe) { self.find_at(query, None, wanted) } else { Ok(false) }
    }

    /// [`find`](Self::find) from the index on. A separate function, as most absent keys do not get here. With a
    /// `probe`, the page is prefetched before the filter is read, so that both arrive at the same time.
    #[inline(never)]
    fn find_at(&self, query: Query<'_>, probe: Option<Probe>, wanted: &mut Wanted<'_>) -> Result<bool> {
        let sought = self.sought(self.index.candidates(query.position), query)?;
        if let Some(probe) = probe {
            self.touch(&sought);
            if !self.passes(probe) {
                return Ok(false);
            }
        }
        self.give(&sought, self.find_in_place(&sought), wanted)
    }

    /// [`may_have`](Self::may_have), remembered in [`ABSENT`].
    #[inline]
    fn passes(&self, probe: Probe) -> bool {
        let passes = self.may_have(probe);
        let absent = ABSENT.get();
        ABSENT.set(if passes { absent.saturating_sub(1) } else { (absent + 1).min(ABSENT_MAX) });
        passes
    }

    /// Whether no key has this length. Then nothing needs to be read.
    #[inline]
    pub fn has_no_key_of(&self, len: usize) -> bool {
        let (shortest, longest) = self.footer.key_len;
        len < shortest as usize || len > longest as usize
    }

    /// Prefetches what [`may_have`](Self::may_have) will read for `position` into the processor's cache.
    #[inline]
    pub fn ask_filter(&self, position: u64) -> Probe {
        let Some((filter, words)) = &self.filter else { return Probe::Known(true) };
        let (probe, words) = (filter.probe(position), words.get());
        filter.places(probe, |place| racing::prefetch(words.as_ptr().wrapping_add(place).cast()));
        probe
    }

    /// Whether the filter allows that a position is present; always true without a filter.
    #[inline]
    pub fn may_have(&self, probe: Probe) -> bool {
        self.filter.as_ref().is_none_or(|(filter, words)| filter.answer(words.get(), probe))
    }

    /// The pages and bytes in which to search, according to the index.
    #[inline]
    pub fn sought<'k>(&self, candidates: Candidates, mut query: Query<'k>) -> Result<Sought<'k>> {
        let bytes = self.format.record_bytes;
        let (pages, at) = match candidates {
            Candidates::Pages(located) => {
                query.expected = Some(located.expected);
                let pages = self.within(located.pages);
                let at = match bytes {
                    0 => At::Anywhere,
                    _ => At::Spot(self.format.spot(located.expected, self.stream_of(&pages))),
                };
                (pages, at)
            }
            Candidates::Ranks(ranks) if bytes > 0 => {
                let ranks = ranks.start.min(self.footer.pairs)..ranks.end.min(self.footer.pairs);
                let named = ranks.start.min(ranks.end) * bytes..ranks.end * bytes;
                (self.within(self.pages_of_ranks(ranks)), At::Bytes(named))
            }
            candidates => {
                let pages = match self.pages_of(candidates) {
                    Some(pages) => pages,
                    None => self.pages.of_stream(self.narrow(&query)?),
                };
                (pages, At::Anywhere)
            }
        };
        Ok(Sought { pages, at, query })
    }

    /// Searches pages that are ready.
    #[inline]
    pub fn find_in_place(&self, sought: &Sought<'_>) -> Outcome {
        if self.format.compression == Compression::None
            && self.pages.are_ready(&sought.pages)
            && let Some(mapped) = self.pages.mapped(&sought.pages)
        {
            return search::find(mapped, &self.format, sought);
        }
        Outcome::Unavailable
    }

    /// Passes on what was `found` in place, or searches pages that are read.
    #[inline]
    pub fn give(&self, sought: &Sought<'_>, found: Outcome, wanted: &mut Wanted<'_>) -> Result<bool> {
        match self.give_found(sought, found, wanted) {
            Some(found) => Ok(found),
            None => self.find_elsewhere(sought, wanted),
        }
    }

    #[inline]
    fn give_found(&self, sought: &Sought<'_>, found: Outcome, wanted: &mut Wanted<'_>) -> Option<bool> {
        wanted.take(self.pages.mapped(&sought.pages)?, found)
    }

    /// Searches pages that are not ready, and those that cannot be searched in place.
    fn find_elsewhere(&self, sought: &Sought<'_>, wanted: &mut Wanted<'_>) -> Result<bool> {
        let pages = &sought.pages;
        if pages.end - pages.start > PAGES_AT_ONCE_MAX {
            return self.find_in_stream(&self.stream_of(pages), &sought.query, wanted);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let found = match self.format.compression {
                Compression::None => self.find_in_pages(sought, scratch, wanted),
                Compression::Lz4 => self.find_in_blocks(sought, scratch, wanted),
            };
            scratch.shrink();
            found
        })
    }

    fn find_in_pages(&self, sought: &Sought<'_>, scratch: &mut Scratch, wanted: &mut Wanted<'_>) -> Result<bool> {
        let pages = &sought.pages;
        if pages.is_empty() {
            return Ok(false);
        }
        if self.pages.get_ready(pages, scratch)?
            && let Some(found) = self.give_found(sought, self.find_in_place(sought), wanted)
        {
            return Ok(found);
        }
        let copied = self.pages.read(pages, scratch)?;
        let source = self.pages.source(&copied, pages);
        let found = wanted.take(source, search::find(source, &self.format, sought));
        found.ok_or_else(|| self.pages.damaged(pages.start, "a record reaches beyond its pages"))
    }

    fn find_in_blocks(&self, sought: &Sought<'_>, scratch: &mut Scratch, wanted: &mut Wanted<'_>) -> Result<bool> {
        // Taken out so that the piece can borrow the rest of `scratch`.
        let mut raw = std::mem::take(&mut scratch.raw);
        let piece = self.pages.piece(sought.pages.clone(), scratch)?;
        let found = blocks::find(&self.format, piece, &sought.query, &mut raw);
        let found = found.map(|value| value.map(|value| wanted.give(value)).is_some());
        let found = found.map_err(|what| self.pages.damaged(sought.pages.start, what));
        scratch.raw = raw;
        found
    }

    /// Improves the expected location of the record with the position of the record found there, and prefetches the
    /// records around the new location into the processor's cache.
    #[inline]
    pub fn approach(&self, sought: &mut Sought<'_>) {
        let Sought { pages, at, query } = sought;
        if let At::Spot(spot) = at
            && spot.count > 0
            && self.pages.are_ready(pages)
            && let Some(mapped) = self.pages.mapped(pages)
        {
            search::approach(mapped, &self.format, pages.start, spot, query);
        }
    }

    /// Prefetches what a lookup accesses first into the processor's cache. Does nothing if pages are not mapped.
    #[inline]
    pub fn touch(&self, sought: &Sought<'_>) {
        if let Some(mapped) = self.pages.mapped(&sought.pages) {
            search::touch(mapped, &self.format, sought);
        }
    }

    /// Like [`touch`](Self::touch), for what a lookup accesses next: records of varying size.
    #[inline]
    pub fn touch_records(&self, sought: &Sought<'_>) {
        if self.format.layout == Layout::Varied
            && self.format.compression == Compression::None
            && self.pages.are_ready(&sought.pages)
            && let Some(mapped) = self.pages.mapped(&sought.pages)
        {
            search::touch_records(mapped, &self.format, sought);
        }
    }

    /// Prefetches the value that was found into the processor's cache, if it may be far from its key.
    #[inline]
    pub fn touch_value(&self, sought: &Sought<'_>, found: &Outcome) {
        if let Outcome::Value(at, bytes) = found
            && self.footer.value_len.1 > NEAR_VALUE_BYTES
            && let Some(mapped) = self.pages.mapped(&sought.pages)
        {
            mapped.touch(*at, *bytes);
        }
    }

    /// The pages to read; `None` if there is no index to tell.
    fn pages_of(&self, candidates: Candidates) -> Option<Range<u64>> {
        let pages = match candidates {
            Candidates::Pages(located) => located.pages,
            Candidates::Ranks(ranks) => self.pages_of_ranks(ranks),
            Candidates::Anywhere => return None,
        };
        Some(self.within(pages))
    }

    /// The pages of `pages` that exist. The index is not trusted.
    #[inline]
    fn within(&self, pages: Range<u64>) -> Range<u64> {
        let end = pages.end.min(self.pages.count());
        pages.start.min(end)..end
    }

    /// Whether the index leads a lookup of `position` to the record of rank `rank`, whose cell is `cell` in the stream.
    pub fn leads_to(&self, position: u64, rank: u64, cell: &Range<u64>) -> bool {
        self.ranks_led_to(position, cell).contains(&rank)
    }

    /// The ranks for which the index leads a lookup of `position` to the record whose cell is `cell` in the stream.
    pub fn ranks_led_to(&self, position: u64, cell: &Range<u64>) -> Range<u64> {
        let candidates = self.index.candidates(position);
        let ranks = if let Candidates::Ranks(ranks) = &candidates { ranks.clone() } else { 0..u64::MAX };
        let needed = self.pages.of_stream(cell.clone());
        let led = self.pages_of(candidates).is_none_or(|pages| pages.start <= needed.start && needed.end <= pages.end);
        if led { ranks } else { 0..0 }
    }

    pub fn pages_of_ranks(&self, ranks: Range<u64>) -> Range<u64> {
        let ranks = ranks.start.min(self.footer.pairs)..ranks.end.min(self.footer.pairs);
        if ranks.start >= ranks.end {
            return 0..0;
        }
        if let Some(bytes) = self.record_bytes() {
            // No overflow: all of them are in the file (Footer::check).
            return self.pages.of_stream(ranks.start * bytes..ranks.end * bytes);
        }
        let Some((index, words)) = &self.ranks else { return 0..self.pages.count() };
        let first = index.pages_of(words.get(), ranks.start);
        if ranks.end - ranks.start == 1 {
            return first;
        }
        first.start..index.pages_of(words.get(), ranks.end - 1).end
    }

    pub(super) fn stream_of(&self, pages: &Range<u64>) -> Range<u64> {
        let body = self.pages.body_bytes();
        pages.start * body..(pages.end * body).min(self.pages.stream_bytes())
    }
}
