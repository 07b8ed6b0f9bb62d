//! Footers that cannot belong to their file are rejected.

use super::*;

const FILE_BYTES: u64 = 1 << 20;

fn opened(compression: Compression, footer: &Footer) -> Result<Footer> {
    let header = FileHeader {
        page_bytes: 512,
        layout: Layout::Varied,
        compression,
        block_bytes: u32::from(compression != Compression::None),
        order: Order::Hash,
        hash_id: HashKind::DEFAULT.id(),
        hash_seed: 0,
        hash_check: 0,
        types: String::new(),
    };
    Footer::parse(Path::new("a.spd"), &footer.bytes(), &header, FILE_BYTES)
}

fn footer(pairs: u64) -> Footer {
    Footer { pairs, pages: 1, stream_bytes: 100, ..Footer::default() }
}

#[test]
fn a_footer_counts_no_more_than_its_data_can_have() {
    for (compression, most) in [(Compression::None, 100), (Compression::Lz4, 25_500)] {
        assert!(opened(compression, &footer(most)).is_ok());
        assert!(opened(compression, &footer(most + 1)).is_err());
        assert!(opened(compression, &Footer { key_bytes: 40, value_bytes: 60, ..footer(1) }).is_ok());
        assert!(opened(compression, &Footer { key_bytes: most, value_bytes: 1, ..footer(1) }).is_err());
        assert!(opened(compression, &Footer { key_bytes: u64::MAX, value_bytes: 1, ..footer(1) }).is_err());
    }
}

#[test]
fn a_file_has_one_index_at_most() {
    let section = |kind, at| Section { kind, checksum: 0, offset: SECTION_ALIGN * at, bytes: 8 };
    let with = |kinds: &[SectionKind]| {
        let sections = kinds.iter().zip(1..).map(|(kind, at)| section(*kind, at)).collect();
        opened(Compression::None, &Footer { sections, ..footer(1) })
    };
    use SectionKind::{Chunk, Pages, Ranks, Trie};
    for kinds in [&[][..], &[Pages], &[Trie], &[Trie, Ranks], &[Ranks, Chunk]] {
        assert!(with(kinds).is_ok(), "{kinds:?}");
    }
    for kinds in [&[Pages, Pages][..], &[Pages, Trie], &[Trie, Ranks, Chunk], &[Trie, Ranks, Ranks]] {
        assert!(with(kinds).is_err(), "{kinds:?}");
    }
}

#[test]
fn an_index_of_a_kind_that_is_not_known_is_named() {
    let section = Section { kind: SectionKind::Chunk, checksum: 0, offset: SECTION_ALIGN, bytes: 8 };
    let mut bytes = Footer { sections: vec![section], ..footer(1) }.bytes();
    // The number of the retired index.
    let at = bytes.windows(4).position(|word| word == (SectionKind::Chunk as u32).to_le_bytes()).unwrap();
    bytes[at] = 4;
    seal(&mut bytes);
    let refused = Footer::fields(&bytes).unwrap_err();
    assert!(refused.contains("section of kind 4"), "{refused}");
}
