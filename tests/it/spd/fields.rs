//! The fields of a dictionary: the location of each number that a hostile file could change.
//!
//! Most bytes of a file are keys, values and zeros, where damage has little effect. Not here: the hostile values.

use super::{FOOTER_BYTES, Reader, SECTION_BYTES, SECTIONS_AT};

/// Maximum number of cells and words of a section that are fields.
const CELLS_MAX: usize = 200;
const WORDS_MAX: usize = 200;
/// Approximate number of words in a section's header, each of which has several fields.
const HEADER_WORDS: usize = 30;

/// Returns the offset and length of each field.
pub fn fields_of(file: &[u8], reader: &Reader) -> Vec<(usize, usize)> {
    let footer = file.len() - FOOTER_BYTES;
    let page_bytes = reader.header.page_bytes;
    let header_fields = [(12, 4), (16, 4), (20, 4), (24, 4), (28, 4), (32, 4), (36, 4), (40, 4), (48, 8), (56, 8)];
    let mut fields = header_fields.to_vec();
    fields.extend((8..48).step_by(8).map(|at| (footer + at, 8)));
    fields.extend((48..72).step_by(4).map(|at| (footer + at, 4)));
    for (n, section) in reader.footer.sections.iter().enumerate() {
        let entry = footer + SECTIONS_AT + n * SECTION_BYTES;
        fields.extend([(entry, 4), (entry + 8, 8), (entry + 16, 8)]);
        let words = (0..section.bytes / 8).map(|word| section.offset + 8 * word);
        let parts = |at: usize| [(at, 8), (at, 4), (at + 4, 4), (at, 1), (at + 2, 1)];
        fields.extend(words.clone().take(HEADER_WORDS).flat_map(parts));
        fields.extend(words.skip(HEADER_WORDS).step_by(1 + section.bytes / 8 / WORDS_MAX).map(|at| (at, 8)));
    }
    let (head, body) = (reader.header.head_bytes(), reader.header.body_bytes());
    for page in 1..=reader.footer.pages {
        fields.extend((4..head).step_by(2).map(|at| (page * page_bytes + at, 2)));
    }
    // The start of each cell: lengths, or the head of a block.
    for cell in reader.cells.iter().take(CELLS_MAX) {
        let start = cell.stream.start;
        let at = (start / body + 1) * page_bytes + head + start % body;
        let left = page_bytes - at % page_bytes;
        let parts = match reader.header.compressed {
            true => &[(0, 8), (8, 8), (16, 4), (20, 8)][..],
            false => &[(0, 1), (1, 1)],
        };
        fields
            .extend(parts.iter().filter(|(from, bytes)| from + bytes <= left).map(|(from, bytes)| (at + from, *bytes)));
    }
    fields
}
