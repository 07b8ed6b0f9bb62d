//! The collection that a command changes: opened when the command first needs it, stored after the last command on it.
//!
//! ```text
//! execute           command -> store              one command: in place, within EXEC, with exclusive entry
//! a run of changes  command, command ... -> store commands of one read on the same key: its name, the nodes of its
//!                                                 tree and the ends of its list are read and stored once
//! ```
//!
//! After a refusal with a text, or since the key has another type, the collection is as it was. After another error of
//! the key space it is undefined ([`Refusal::leaves_undefined`]).

use super::call::{Call, Outcome, Refusal};
use crate::keyspace::collections::fields::FieldsMut;
use crate::keyspace::collections::list::ListMut;
use crate::keyspace::collections::sorted::SortedSetMut;
use crate::keyspace::collections::stream::StreamMut;
use crate::keyspace::{Kind, PairsMut, Result, SpaceError};

/// A command on a collection.
pub(crate) type Command = for<'e, 'k, 'c> fn(&mut Collection<'e, 'k>, &mut Call<'c, 'e>) -> Outcome;

/// The collection at a key, for the commands that change it.
pub(crate) enum Collection<'e, 'k> {
    /// No command has needed it yet.
    Unopened(&'e mut (dyn PairsMut + 'k)),
    Fields(FieldsMut<'e, 'k>),
    List(ListMut<'e, 'k>),
    SortedSet(SortedSetMut<'e, 'k>),
    Stream(StreamMut<'e, 'k>),
    /// The key has another type, or could not be read.
    Failed,
}

/// Returns the variant of `$kind`, after opening the collection with `$open` if no command has needed it yet.
macro_rules! opened {
    ($this:ident, $kind:ident, $open:expr) => {{
        if matches!($this, Collection::Unopened(_))
            && let Collection::Unopened(pairs) = std::mem::replace($this, Collection::Failed)
        {
            *$this = Collection::$kind($open(pairs)?);
        }
        match $this {
            Collection::$kind(opened) => Ok(opened),
            _ => Err(SpaceError::WrongType),
        }
    }};
}

impl<'e, 'k> Collection<'e, 'k> {
    /// The hash or set at the key, empty if the key is absent.
    ///
    /// # Errors
    /// [`SpaceError::WrongType`], or the errors of [`splitpoint::Table::get`].
    pub(crate) fn fields(&mut self, call: &Call<'_, 'e>, kind: Kind) -> Result<&mut FieldsMut<'e, 'k>> {
        opened!(self, Fields, |pairs| FieldsMut::open(pairs, call.database, call.args.at(1), kind))
    }

    /// The list at the key, empty if the key is absent.
    ///
    /// # Errors
    /// [`SpaceError::WrongType`], or the errors of [`splitpoint::Table::get`].
    pub(crate) fn list(&mut self, call: &Call<'_, 'e>) -> Result<&mut ListMut<'e, 'k>> {
        opened!(self, List, |pairs| ListMut::open(pairs, call.database, call.args.at(1)))
    }

    /// The sorted set at the key, empty if the key is absent.
    ///
    /// # Errors
    /// [`SpaceError::WrongType`], or the errors of [`splitpoint::Table::get`].
    pub(crate) fn sorted_set(&mut self, call: &Call<'_, 'e>) -> Result<&mut SortedSetMut<'e, 'k>> {
        opened!(self, SortedSet, |pairs| SortedSetMut::open(pairs, call.database, call.args.at(1)))
    }

    /// The stream at the key, new if the key is absent.
    ///
    /// # Errors
    /// [`SpaceError::WrongType`], or the errors of [`splitpoint::Table::get`].
    pub(crate) fn stream(&mut self, call: &Call<'_, 'e>) -> Result<&mut StreamMut<'e, 'k>> {
        opened!(self, Stream, |pairs| StreamMut::open(pairs, call.database, call.args.at(1)))
    }

    /// Whether it must be opened again for the next command: an empty collection's key goes, with its lifetime. An
    /// empty stream stays.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Collection::Unopened(_) | Collection::Stream(_) => false,
            Collection::Fields(fields) => fields.fields().len() == 0,
            Collection::List(list) => list.len() == 0,
            Collection::SortedSet(set) => set.len() == 0,
            Collection::Failed => true,
        }
    }

    /// Stores what the commands changed.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Collection::Unopened(_) | Collection::Failed => Ok(()),
            Collection::Fields(fields) => fields.finish().map(drop),
            Collection::List(list) => list.finish().map(drop),
            Collection::SortedSet(set) => set.finish().map(drop),
            Collection::Stream(stream) => stream.store_changes(),
        }
    }
}

/// Executes one command and stores what it changed. After an error the reply is undefined.
pub(crate) fn execute<'e>(pairs: &'e mut (dyn PairsMut + '_), command: Command, call: &mut Call<'_, 'e>) -> Outcome {
    let mut collection = Collection::Unopened(pairs);
    let outcome = command(&mut collection, call);
    if !outcome.as_ref().is_err_and(Refusal::leaves_undefined) {
        collection.finish()?;
    }
    outcome
}
