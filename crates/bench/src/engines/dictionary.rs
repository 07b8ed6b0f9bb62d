//! Splitpoint's dictionaries, through the public interface.
//!
//! Settings: the kind of index (`page`, `trie`, `chunk`, `none`), then `filter=` in bits, `memory=` for the sort,
//! `threads=`, `page=`, and the parameters of the kind: `bins=`; `g=`, `hmax=`, `skip=` and `block=` with the paper's
//! names; `effort=` from 0. A `trie` is the paper's; ours by default is `trie,skip=64`.

use crate::engine::{Made, Maker, Making, Opening, Outcome, Pairs, Reader};
use ::splitpoint::dictionary::{Effort, Index};
use ::splitpoint::{Dictionary, DictionaryBuilder, DictionaryOptions, HashKind};
use std::path::Path;

/// The measured settings: each kind, a filter, and tries with skip entries.
pub const SETTINGS: &[&str] = &["page", "page,filter=8", "trie", "trie,skip=64", "chunk", "none"];

/// Makes dictionaries of this repository.
pub struct Dictionaries;

/// Returns the builder's options for a setting.
pub fn builder(setting: &str) -> Outcome<DictionaryBuilder> {
    let opening = Opening { path: None, setting, expected_len: 0, payload_bytes: 0, create: true };
    let (mut builder, mut index) = (DictionaryBuilder::new(), Index::page());
    for word in opening.words() {
        match (word?, &mut index) {
            (("page", None), index) => *index = Index::page(),
            (("trie", None), index) => {
                *index = Index::Trie { bucket_keys: 256, huffman_max: 64, skip_min: 0, block_items: 1 };
            }
            (("chunk", None), index) => *index = Index::chunk(),
            (("none", None), index) => *index = Index::None,
            (("bins", Some(n)), Index::Page { bins_per_page }) => *bins_per_page = n.try_into()?,
            (("g", Some(n)), Index::Trie { bucket_keys, .. }) => *bucket_keys = n.try_into()?,
            (("hmax", Some(n)), Index::Trie { huffman_max, .. }) => *huffman_max = n.try_into()?,
            (("skip", Some(n)), Index::Trie { skip_min, .. }) => *skip_min = n.try_into()?,
            (("block", Some(n)), Index::Trie { block_items, .. }) => *block_items = n.try_into()?,
            (("effort", Some(0)), Index::Chunk { effort }) => *effort = Effort::Fast,
            (("effort", Some(1)), Index::Chunk { effort }) => *effort = Effort::Balanced,
            (("effort", Some(2)), Index::Chunk { effort }) => *effort = Effort::Small,
            (("filter", Some(bits)), _) => builder = builder.filter(bits.try_into()?),
            (("memory", Some(bytes)), _) => builder = builder.memory_bytes(bytes),
            (("threads", Some(n)), _) => builder = builder.threads(n.try_into()?),
            (("page", Some(bytes)), _) => builder = builder.page_bytes(bytes.try_into()?),
            ((word, _), _) => return Err(Opening::unknown("splitpoint", word)),
        }
    }
    Ok(builder.index(index))
}

impl Maker for Dictionaries {
    fn updates(&self) -> bool {
        true
    }

    fn maps(&self) -> bool {
        true
    }

    fn build(&self, making: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome {
        let builder = builder(making.setting)?.hash(HashKind::DEFAULT).seed(making.seed);
        let mut build = builder.start(making.path)?;
        pairs.each(&mut |key, value| Ok(build.push(key, value)?))?;
        build.finish()?;
        Ok(())
    }

    fn update(&self, old: &Path, making: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome {
        let mut update = Dictionary::update(old, making.path, &builder(making.setting)?)?;
        pairs.each(&mut |key, value| Ok(update.put(key, value)?))?;
        update.finish()?;
        Ok(())
    }

    fn open(&self, path: &Path, _: &str, map: bool) -> Outcome<Box<dyn Made>> {
        Ok(Box::new(Open(DictionaryOptions::new().map_data(map).open(path)?)))
    }
}

struct Open(Dictionary);

impl Made for Open {
    fn reader(&self) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(Looking { dictionary: &self.0, value: Vec::new() }))
    }

    fn figures(&self) -> Outcome<Vec<(String, f64)>> {
        let stat = self.0.stat()?;
        let mut figures = vec![
            ("pairs".to_owned(), stat.pairs as f64),
            ("bits_per_key".to_owned(), stat.index_bits_per_key),
            ("index_bytes".to_owned(), (stat.index_bytes + stat.ranks_bytes) as f64),
            ("pages".to_owned(), stat.pages as f64),
        ];
        let details = stat.index_details.iter().map(|(name, value)| ((*name).to_owned(), *value));
        figures.extend(details);
        // Figures 3 and 6 of the paper show the tries alone, without the index of buckets.
        if let Some((_, bits)) = stat.index_details.iter().find(|(name, _)| *name == "trie_bits") {
            figures.push(("trie_bits_per_key".to_owned(), bits / stat.pairs.max(1) as f64));
        }
        Ok(figures)
    }
}

struct Looking<'d> {
    dictionary: &'d Dictionary,
    value: Vec<u8>,
}

impl Reader for Looking<'_> {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        Ok(self.dictionary.get_into(key, &mut self.value)?.then_some(&self.value[..]))
    }

    fn has_batches(&self) -> bool {
        true
    }

    fn get_many(&mut self, keys: &[&[u8]], take: &mut dyn FnMut(usize, Option<&[u8]>)) -> Outcome {
        Ok(self.dictionary.get_many_with(keys, take)?)
    }
}
