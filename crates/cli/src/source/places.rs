//! Places: the position of a pair as one number, which becomes a name again if the pair turns out wrong long after
//! reading.
//!
//! Numbers ascend over all inputs: where the input begins plus the row's number in it.

use std::sync::{Arc, Mutex, PoisonError};

/// Names places: which input begins where.
#[derive(Clone, Default)]
pub struct Places(Arc<Mutex<Vec<(u64, Origin)>>>);

impl Places {
    /// Begins an input; `before` is the last place before it.
    pub fn begin(&self, before: u64, origin: Origin) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((before, origin));
    }

    /// Names a place: `pairs.tsv:17`.
    pub fn name(&self, place: u64) -> String {
        let inputs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = inputs.partition_point(|(before, _)| *before < place);
        match begun.checked_sub(1).and_then(|at| inputs.get(at)) {
            Some((before, origin)) => origin.place(place - before),
            None => format!("row {place}"),
        }
    }
}

/// An input's name in messages, and the unit of its rows.
#[derive(Clone, Debug)]
pub struct Origin {
    pub name: String,
    pub unit: Unit,
}

#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Line,
    Pair,
    Row,
    None,
}

impl Origin {
    fn place(&self, number: u64) -> String {
        let name = &self.name;
        match self.unit {
            Unit::Line => format!("{name}:{number}"),
            Unit::Pair => format!("{name}: pair {number}"),
            Unit::Row => format!("{name}: row {number}"),
            Unit::None => name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_by_input_and_row() {
        let places = Places::default();
        let origin = |name: &str, unit| Origin { name: name.into(), unit };
        places.begin(0, origin("a.tsv", Unit::Line));
        places.begin(3, origin("empty.tsv", Unit::Line));
        places.begin(3, origin("b.raw", Unit::Pair));
        places.begin(5, origin("c.spd", Unit::None));
        let names: Vec<_> = [1, 3, 4, 5, 6].map(|place| places.name(place)).into();
        assert_eq!(names, ["a.tsv:1", "a.tsv:3", "b.raw: pair 1", "b.raw: pair 2", "c.spd"]);
    }
}
