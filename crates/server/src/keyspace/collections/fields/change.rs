//! A hash or set that is being changed: fields and lifetimes set and removed, and moved between the two forms.

use super::{Expiry, Field, Fields, Form, Large, PACKED_FIELDS, PACKED_VALUE_BYTES, SMALL_BYTES, UNPACKED, is_integer};
use crate::keyspace::collections::elements;
use crate::keyspace::collections::hashed::{
    Layout, NewField, SMALL_AGAIN_BYTES, find, for_fields, has_expired, put_in,
};
use crate::keyspace::collections::shape::{LIFETIMES, Lifetimes, damaged};
use crate::keyspace::collections::tree::{Editor, Loaded, Place};
use crate::keyspace::pairs::PairsMut;
use crate::keyspace::{Attributes, Kind, Result};

/// A hash or set that is being changed, with exclusive entry. [`finish`](Self::finish) stores its key's value.
pub(crate) struct FieldsMut<'e, 'k> {
    pub(crate) alone: &'e mut (dyn PairsMut + 'k),
    key: &'e [u8],
    expires_at_ms: u64,
    fields: Fields,
    was_present: bool,
    /// The value of a large one's key when it was opened.
    before: Option<Vec<u8>>,
    /// Whether a field changed.
    changed: bool,
    /// Whether fields that had expired were removed.
    has_expired: bool,
}

impl<'e, 'k> FieldsMut<'e, 'k> {
    /// The hash or set at `key`, empty if the key is absent.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`](crate::keyspace::SpaceError::WrongType), or the errors of
    /// [`splitpoint::Table::get`].
    pub(crate) fn open(
        alone: &'e mut (dyn PairsMut + 'k),
        database: usize,
        key: &'e [u8],
        kind: Kind,
    ) -> Result<FieldsMut<'e, 'k>> {
        let mut value = Vec::new();
        let found = alone.name(database, key, kind, &mut value)?;
        let mut fields = Fields::decode(database, kind, value)?;
        if let Form::Small(run) = &fields.form {
            for_fields(run, fields.layout(), |_, _, _| {})?;
        }
        let before = matches!(fields.form, Form::Large(_)).then(|| fields.encode());
        let mut has_expired = false;
        if fields.may_expire() {
            // A large hash keeps its expired fields.
            has_expired = fields.ignore_expired(alone)? && before.is_none();
        }
        let (expires_at_ms, was_present) = (found.unwrap_or(0), found.is_some());
        Ok(FieldsMut { alone, key, expires_at_ms, fields, was_present, before, changed: false, has_expired })
    }

    /// The hash or set as it is now.
    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// [`Fields::get`].
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn get(&mut self, field: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.fields.get(self.alone, field, value)
    }

    /// [`Fields::for_each`].
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn for_each(&mut self, take: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.fields.for_each(self.alone, take)
    }

    /// [`Fields::random`].
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn random(&mut self) -> Result<Option<Field>> {
        self.fields.random(self.alone)
    }

    /// Removes all fields. O(1).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn clear(&mut self) -> Result<()> {
        if let Form::Large(large) = &self.fields.form {
            self.alone.release(self.fields.database, large.id, large.segments(&self.fields.lifetimes))?;
        }
        self.fields.form = Form::Small(Vec::new());
        self.fields.lifetimes = Lifetimes::default();
        self.fields.expired = 0;
        self.changed = true;
        Ok(())
    }

    /// Sets a field without a lifetime. Returns whether it is new.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn put(&mut self, field: &[u8], value: &[u8]) -> Result<bool> {
        self.put_if(field, value, true)
    }

    /// [`put`](Self::put), unless the field is present and `replace` is false. Returns whether it is new.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn put_if(&mut self, field: &[u8], value: &[u8], replace: bool) -> Result<bool> {
        let before = self.expiry_where_some_expire(field)?;
        self.put_known((field, before), value, replace, 0)
    }

    /// Sets a field and its lifetime. Returns whether it is new.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn put_with_expiry(&mut self, field: &[u8], value: &[u8], expiry: Expiry) -> Result<bool> {
        let before = self.expiry_where_some_expire(field)?;
        let expires_at_ms = match expiry {
            Expiry::Keep => before.unwrap_or(0),
            Expiry::At(at_ms) => at_ms,
        };
        if expires_at_ms != 0 && !self.fields.may_expire() {
            self.begin_lifetimes()?;
        }
        self.put_known((field, before), value, true, expires_at_ms)
    }

    /// [`expiry`](Self::expiry) if fields may have lifetimes, else `None`.
    #[inline]
    fn expiry_where_some_expire(&mut self, field: &[u8]) -> Result<Option<u64>> {
        if self.fields.may_expire() { self.expiry(field) } else { Ok(None) }
    }

    /// When a field expires, 0 for never; `None` if it is absent. Removes one that has expired.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn expiry(&mut self, field: &[u8]) -> Result<Option<u64>> {
        let (database, layout) = (self.fields.database, self.fields.layout());
        let Form::Large(large) = &mut self.fields.form else {
            return self.fields.get_with_expiry(self.alone, field, &mut Vec::new());
        };
        let found = large.get(self.alone, (database, layout.raw()), field, &mut Vec::new())?;
        let Some(at_ms) = found.filter(|at_ms| has_expired(*at_ms, self.fields.now_ms)) else { return Ok(found) };
        large.remove(self.alone, (database, layout.raw()), field)?;
        self.fields.expired = self.fields.expired.saturating_sub(1);
        self.has_expired = true;
        self.order(field, at_ms, 0)?;
        self.reduce()?;
        Ok(None)
    }

    /// Allows fields to have lifetimes.
    fn begin_lifetimes(&mut self) -> Result<()> {
        let fields = &mut self.fields;
        fields.flags |= LIFETIMES;
        fields.now_ms = self.alone.now_ms();
        if matches!(fields.form, Form::Large(_)) {
            self.edit_tree(|tree| tree.begin())?;
        }
        Ok(())
    }

    /// Changes the tree of a large hash.
    fn edit_tree(&mut self, edit: impl FnOnce(&mut Editor<'_, 'k>) -> Result<()>) -> Result<()> {
        let Form::Large(large) = &self.fields.form else { return Ok(()) };
        let place = Place { database: self.fields.database, id: large.id };
        let loaded = &mut Loaded::default();
        let mut editor = Editor { alone: self.alone, place, tree: &mut self.fields.lifetimes.tree, loaded };
        edit(&mut editor)?;
        editor.store()
    }

    /// Moves a field of a large hash to its new expiry time in the tree; 0: never.
    fn order(&mut self, field: &[u8], before_ms: u64, after_ms: u64) -> Result<()> {
        if before_ms == after_ms || matches!(self.fields.form, Form::Small(_)) {
            return Ok(());
        }
        let mut count = self.fields.lifetimes.count;
        self.edit_tree(|tree| {
            if before_ms != 0 {
                tree.remove((before_ms as f64, field))?;
                count = count.saturating_sub(1);
            }
            if after_ms != 0 {
                tree.insert((after_ms as f64, field))?;
                count += 1;
            }
            Ok(())
        })?;
        self.fields.lifetimes.count = count;
        Ok(())
    }

    /// Sets a field. `before`: its lifetime, if it is present and fields may have lifetimes.
    fn put_known(
        &mut self,
        (name, before): (&[u8], Option<u64>),
        value: &[u8],
        replace: bool,
        expires_at_ms: u64,
    ) -> Result<bool> {
        let (database, layout) = (self.fields.database, self.fields.layout().raw());
        let field = NewField { name, value, expires_at_ms };
        let put = match &mut self.fields.form {
            Form::Small(run) => put_in(run, layout, field, replace)?,
            Form::Large(large) => large.put(self.alone, (database, layout), field, replace, None)?,
        };
        let Some(is_new) = put else { return Ok(false) };
        self.changed = true;
        if self.fields.may_expire() {
            self.order(name, before.unwrap_or(0), expires_at_ms)?;
        }
        let is_packed = match self.fields.kind {
            Kind::Set => !is_new || is_integer(name),
            _ => name.len() <= PACKED_VALUE_BYTES && value.len() <= PACKED_VALUE_BYTES,
        };
        if !is_packed || self.fields.flags & UNPACKED == 0 && self.fields.len() > PACKED_FIELDS {
            self.fields.flags |= UNPACKED;
        }
        self.enlarge()?;
        Ok(is_new)
    }

    /// Adds members, all different, to a set that is empty. Writes each segment once.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn fill(&mut self, members: &[impl AsRef<[u8]>]) -> Result<()> {
        let mut run = Vec::new();
        let mut rest = members.iter();
        while run.len() <= SMALL_BYTES
            && let Some(member) = rest.next()
        {
            elements::push(&mut run, member.as_ref());
        }
        self.changed |= !members.is_empty();
        if members.len() as u64 > PACKED_FIELDS || !members.iter().all(|member| is_integer(member.as_ref())) {
            self.fields.flags |= UNPACKED;
        }
        self.fields.form = if run.len() <= SMALL_BYTES {
            Form::Small(run)
        } else {
            Form::Large(Large::build(self.alone, (self.fields.database, Layout::Names), |add| {
                members.iter().for_each(|name| add(NewField { name: name.as_ref(), value: b"", expires_at_ms: 0 }));
                Ok(())
            })?)
        };
        Ok(())
    }

    /// Removes a field. Returns whether it was there.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn remove(&mut self, field: &[u8]) -> Result<bool> {
        let before = self.expiry_where_some_expire(field)?;
        if before.is_none() && self.fields.may_expire() {
            return Ok(false);
        }
        let place = (self.fields.database, self.fields.layout().raw());
        match &mut self.fields.form {
            Form::Small(run) => {
                let Some(found) = find(run, place.1, field)? else { return Ok(false) };
                run.drain(found.all);
            }
            Form::Large(large) => {
                if !large.remove(self.alone, place, field)? {
                    return Ok(false);
                }
            }
        }
        self.changed = true;
        if let Some(before) = before {
            self.order(field, before, 0)?;
        }
        self.reduce()?;
        Ok(true)
    }

    /// Removes up to `most` fields that have expired, all of a small hash. Returns whether there may be more.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn remove_expired(&mut self, most: u64) -> Result<bool> {
        let Form::Large(large) = &self.fields.form else { return Ok(false) };
        let (place, expired) = (Place { database: self.fields.database, id: large.id }, self.fields.expired);
        let (count, mut names) = (self.fields.lifetimes.count, Vec::new());
        let take = &mut |(_, name): (f64, &[u8])| {
            names.push(name.to_vec());
            true
        };
        self.fields.lifetimes.tree.for_range(self.alone, place, (count, 0..expired.min(most)), false, take)?;
        for name in &names {
            if self.expiry(name)?.is_some() {
                return Err(damaged("a field has another lifetime than in the order of lifetimes"));
            }
        }
        Ok(expired > most)
    }

    /// Moves the elements into segments.
    fn enlarge(&mut self) -> Result<()> {
        let database = self.fields.database;
        let Form::Small(run) = &self.fields.form else { return Ok(()) };
        if run.len() <= SMALL_BYTES {
            return Ok(());
        }
        if self.fields.may_expire() {
            self.settle_lifetimes()?;
        }
        let (layout, Form::Small(run)) = (self.fields.layout().raw(), &mut self.fields.form) else { return Ok(()) };
        let large = Large::divide(self.alone, database, layout, run)?;
        let run = std::mem::take(run);
        self.fields.form = Form::Large(large);
        if self.fields.may_expire() {
            let mut count = 0;
            self.edit_tree(|tree| {
                tree.begin()?;
                let mut inserted = Ok(());
                for_fields(&run, layout, |name, _, at_ms| {
                    if at_ms != 0 && inserted.is_ok() {
                        inserted = tree.insert((at_ms as f64, name));
                        count += 1;
                    }
                })?;
                inserted
            })?;
            self.fields.lifetimes.count = count;
        }
        Ok(())
    }

    /// Moves the elements back into the key's value if they are short enough.
    fn reduce(&mut self) -> Result<()> {
        let database = self.fields.database;
        if let Form::Large(large) = &self.fields.form
            && large.segments == 1
            && large.bytes <= SMALL_AGAIN_BYTES
        {
            let mut run = Vec::new();
            let was_there = self.alone.segment(database, large.id, 0, &mut run)?;
            if run.len() as u64 != large.bytes {
                return Err(damaged(format_args!("{} bytes instead of {}", run.len(), large.bytes)));
            }
            self.alone.put_segment(database, (large.id, 0), was_there, None)?;
            let [_, nodes] = large.segments(&self.fields.lifetimes);
            if !nodes.is_empty() {
                self.alone.release(database, large.id, [nodes, 0..0])?;
            }
            self.fields.form = Form::Small(run);
            self.fields.lifetimes = Lifetimes::default();
            if std::mem::take(&mut self.fields.expired) > 0 {
                self.has_expired |= self.fields.ignore_expired(self.alone)?;
            }
        }
        Ok(())
    }

    /// Finds out when the first field expires. A small hash without lifetimes becomes one whose fields never had any.
    fn settle_lifetimes(&mut self) -> Result<()> {
        let (layout, mut first_ms) = (self.fields.layout().raw(), 0);
        match &self.fields.form {
            Form::Small(run) => {
                for_fields(run, layout, |_, _, at_ms| {
                    if at_ms != 0 && (first_ms == 0 || at_ms < first_ms) {
                        first_ms = at_ms;
                    }
                })?;
                if first_ms == 0 {
                    self.fields.flags &= !LIFETIMES;
                }
            }
            Form::Large(large) => {
                let (place, count) =
                    (Place { database: self.fields.database, id: large.id }, self.fields.lifetimes.count);
                let take = &mut |(at_ms, _): (f64, &[u8])| {
                    first_ms = at_ms as u64; // a whole number
                    false
                };
                self.fields.lifetimes.tree.for_range(self.alone, place, (count, 0..1), false, take)?;
            }
        }
        self.fields.first_ms = first_ms;
        Ok(())
    }

    /// Stores the key's new value, or removes the key if the collection is empty. Returns whether the key remains.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn finish(mut self) -> Result<bool> {
        let is_left = self.fields.len() > 0;
        if !self.changed && !self.has_expired {
            return Ok(is_left);
        }
        if !is_left {
            // All fields that remain in a large hash may have expired.
            self.clear_rest()?;
        } else if self.fields.may_expire() {
            self.settle_lifetimes()?;
        }
        let (database, attributes) = (
            self.fields.database,
            Attributes { expires_at_ms: self.expires_at_ms, kind: self.fields.kind, ..Attributes::NONE },
        );
        let value = is_left.then(|| self.fields.encode());
        if !self.changed {
            self.alone.put_expired(database, self.key, value.as_deref().map(|value| (attributes, value)))?;
        } else if let Some(value) = value {
            if self.has_expired {
                self.alone.note_fields_expired(database, self.key);
            }
            if self.before.as_ref() == Some(&value) {
                // A value of the same length was replaced, within a segment.
                self.alone.changed(database, self.key);
            } else {
                self.alone.put_collection(database, self.key, Some((attributes, &value)))?;
            }
        } else if self.was_present {
            self.alone.put_collection(database, self.key, None)?;
        }
        Ok(is_left)
    }

    fn clear_rest(&mut self) -> Result<()> {
        let changed = self.changed;
        self.clear()?;
        self.changed = changed;
        Ok(())
    }
}
