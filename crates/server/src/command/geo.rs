//! GEOADD, GEOSEARCH and their family: positions as the members of a sorted set.
//!
//! ```text
//! GEOSEARCH -> Search (options) -> ranges of scores (geohash.rs) -> members within the shape -> sort, limit -> reply
//! ```
//!
//! GEORADIUS and GEORADIUSBYMEMBER are older forms of the same search. Not here: how positions become scores.

use super::call::{Args, Call, NOT_A_FLOAT, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, Turn};
use super::collection::Collection;
use super::double::parse_score;
use super::geohash::{Position, Shape};
use super::reply;
use super::sorted_sets::{Adding, add_all, store_at};
use super::strings::integer;
use crate::keyspace::collections::sorted::{Element, SortedSet};
use crate::keyspace::{Exclusive, Pairs};

/// Parses longitude and latitude from the argument at `index` on.
fn position(args: &Args<'_>, index: usize) -> Result<Position, Refusal> {
    let [longitude, latitude] = [index, index + 1].map(|index| args.get(index).and_then(parse_score));
    let longitude = longitude.ok_or(NOT_A_FLOAT)?;
    let position = Position { longitude, latitude: latitude.ok_or(NOT_A_FLOAT)? };
    if !position.is_valid() {
        let Position { longitude, latitude } = position;
        return Err(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}").into());
    }
    Ok(position)
}

/// Parses the unit at `index`; returns it in meters.
fn unit(args: &Args<'_>, index: usize) -> Result<f64, Refusal> {
    const UNITS: [(&str, f64); 4] = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    let found = UNITS.into_iter().find(|(name, _)| args.is(index, name));
    Ok(found.ok_or("ERR unsupported unit provided. please use M, KM, FT, MI")?.1)
}

/// Parses the length at `index`, in any unit. `what`: the error message if it is not a number.
fn length(args: &Args<'_>, index: usize, what: &'static str) -> Result<f64, Refusal> {
    Ok(args.get(index).and_then(parse_score).ok_or(what)?)
}

/// Parses a radius and its unit, from `index` on.
fn radius(args: &Args<'_>, index: usize) -> Result<(Shape, f64), Refusal> {
    let radius = length(args, index, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err("ERR radius cannot be negative".into());
    }
    let unit = unit(args, index + 1)?;
    Ok((Shape::Circle { radius: radius * unit }, unit))
}

/// Parses width, height and their unit, from `index` on.
fn rectangle(args: &Args<'_>, index: usize) -> Result<(Shape, f64), Refusal> {
    let width = length(args, index, "ERR need numeric width")?;
    let height = length(args, index + 1, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err("ERR height or width cannot be negative".into());
    }
    let unit = unit(args, index + 2)?;
    Ok((Shape::Box { width: width * unit, height: height * unit }, unit))
}

/// GEOADD key [NX | XX] \[CH\] longitude latitude member ...
pub(crate) fn geoadd<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let args = call.args;
    let (mut how, mut counts_changed, mut index) = (Adding::default(), false, 2);
    while index < args.len() {
        match () {
            () if args.is(index, "nx") => how.only_new = true,
            () if args.is(index, "xx") => how.only_present = true,
            () if args.is(index, "ch") => counts_changed = true,
            () => break,
        }
        index += 1;
    }
    if args.len() == index || !(args.len() - index).is_multiple_of(3) || how.only_new && how.only_present {
        return Err(SYNTAX.into());
    }
    let positions: Result<Vec<f64>, Refusal> =
        (index..args.len()).step_by(3).map(|index| Ok(position(&args, index)?.score())).collect();
    add_all(collection, call, how, counts_changed, positions?.into_iter().zip(args.from(index + 2).step_by(3)))
}

/// The positions of members; an outer `None` for an absent member.
fn positions_of(
    turn: &mut Turn<'_, '_>,
    call: &Call<'_, '_>,
    members: usize,
) -> Result<Vec<Option<Position>>, Refusal> {
    let set = SortedSet::open(turn, call.database, call.args.at(1))?;
    let mut positions = Vec::with_capacity(members);
    for member in call.args.from(2).take(members) {
        let score = match &set {
            Some(set) => set.score(turn, member)?,
            None => None,
        };
        positions.push(score.map(Position::of_score));
    }
    Ok(positions)
}

/// GEOHASH key \[member ...\]
pub(crate) fn geohash(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let positions = positions_of(turn, call, call.args.len() - 2)?;
    reply::array(call.out, positions.len());
    for position in positions {
        reply::bulk_or_null(call.out, position.map(Position::text).as_ref().map(<[u8; 11]>::as_slice), call.version);
    }
    Ok(())
}

/// GEOPOS key \[member ...\]
pub(crate) fn geopos(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let positions = positions_of(turn, call, call.args.len() - 2)?;
    reply::array(call.out, positions.len());
    for position in positions {
        match position {
            Some(position) => coordinates(call, position),
            None => reply::null_array(call.out, call.version),
        }
    }
    Ok(())
}

fn coordinates(call: &mut Call<'_, '_>, position: Position) {
    reply::array(call.out, 2);
    for degrees in [position.longitude, position.latitude] {
        reply::decimal(call.out, degrees, call.version);
    }
}

fn distance(call: &mut Call<'_, '_>, distance: f64) {
    reply::bulk(call.out, format!("{distance:.4}").as_bytes());
}

/// GEODIST key member1 member2 \[M | KM | FT | MI\]
pub(crate) fn geodist(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let unit = match call.args.len() {
        4 => 1.0,
        5 => unit(&call.args, 4)?,
        _ => return Err(SYNTAX.into()),
    };
    match positions_of(turn, call, 2)?[..] {
        [Some(one), Some(other)] => distance(call, one.distance(other) / unit),
        _ => reply::null(call.out, call.version),
    }
    Ok(())
}

/// Which command searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// GEORADIUS, and whether it may store.
    Radius(bool),
    /// GEORADIUSBYMEMBER, and whether it may store.
    RadiusByMember(bool),
    Search,
    SearchStore,
}

impl Form {
    /// The key that is searched.
    fn source<'a>(self, args: &Args<'a>) -> &'a [u8] {
        args.at(if self == Form::SearchStore { 2 } else { 1 })
    }
}

/// Where the result of a search is stored, and whether with distances as scores.
type Target = Option<(usize, bool)>;

/// A parsed search.
#[derive(Default)]
struct Search {
    centre: Option<Position>,
    shape: Option<Shape>,
    /// Meters of the unit of distances.
    unit: f64,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    /// The most members; 0 for all.
    count: usize,
    /// Whether any members will do.
    any: bool,
    /// Nearest or farthest first.
    ascending: Option<bool>,
    target: Target,
}

/// A member that was found.
struct Found {
    member: Vec<u8>,
    score: f64,
    position: Position,
    distance: f64,
}

/// Parses the arguments for [`Search::parse`].
struct Parser<'a, 's, P> {
    form: Form,
    args: &'a Args<'a>,
    pairs: &'s mut P,
    set: Option<&'s SortedSet>,
    search: Search,
    /// Which of FROMMEMBER and FROMLONLAT was given.
    by_member: Option<bool>,
    /// Which of BYBOX and BYRADIUS was given.
    by_box: Option<bool>,
}

impl<P: Pairs> Parser<'_, '_, P> {
    fn is_search(&self) -> bool {
        matches!(self.form, Form::Search | Form::SearchStore)
    }

    /// Parses what precedes the options; returns the index of the first option.
    fn positional(&mut self) -> Result<usize, Refusal> {
        Ok(match self.form {
            Form::Radius(_) => {
                self.search.centre = Some(position(self.args, 2)?);
                self.set_shape(radius(self.args, 4)?);
                6
            }
            Form::RadiusByMember(_) => {
                self.search.centre = self.member(2)?;
                if self.set.is_some() {
                    self.set_shape(radius(self.args, 3)?);
                }
                5
            }
            Form::Search => 2,
            Form::SearchStore => {
                self.search.target = Some((1, false));
                3
            }
        })
    }

    /// Parses an option about the reply or where to store it. Returns how many arguments it takes, with its
    /// name; 0 if it is another option.
    fn output_option(&mut self, at: usize) -> Result<usize, Refusal> {
        let (args, search) = (self.args, &mut self.search);
        let has_value = at + 1 < args.len();
        let may_store = matches!(self.form, Form::Radius(true) | Form::RadiusByMember(true));
        match () {
            () if args.is(at, "withdist") => search.with_distance = true,
            () if args.is(at, "withhash") => search.with_hash = true,
            () if args.is(at, "withcoord") => search.with_position = true,
            () if args.is(at, "any") => search.any = true,
            () if args.is(at, "asc") => search.ascending = Some(true),
            () if args.is(at, "desc") => search.ascending = Some(false),
            () if has_value && args.is(at, "count") => {
                let count = integer(args.at(at + 1))?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                search.count = count.ok_or("ERR COUNT must be > 0")?;
                return Ok(2);
            }
            () if may_store && has_value && (args.is(at, "store") || args.is(at, "storedist")) => {
                search.target = Some((at + 1, args.is(at, "storedist")));
                return Ok(2);
            }
            () if self.form == Form::SearchStore && args.is(at, "storedist") => search.target = Some((1, true)),
            () => return Ok(0),
        }
        Ok(1)
    }

    /// Parses an option about the area. Returns how many arguments it takes, with its name.
    fn area_option(&mut self, at: usize) -> Result<usize, Refusal> {
        let (args, left) = (self.args, self.args.len() - at - 1);
        match () {
            () if !self.is_search() => Err(SYNTAX.into()),
            () if self.by_member != Some(false) && left >= 1 && args.is(at, "frommember") => {
                self.search.centre = self.member(at + 1)?;
                self.by_member = Some(true);
                Ok(2)
            }
            () if self.by_member != Some(true) && left >= 2 && args.is(at, "fromlonlat") => {
                self.search.centre = Some(position(args, at + 1)?);
                self.by_member = Some(false);
                Ok(3)
            }
            () if self.by_box != Some(true) && left >= 2 && args.is(at, "byradius") => {
                self.set_shape(radius(args, at + 1)?);
                self.by_box = Some(false);
                Ok(3)
            }
            () if self.by_box != Some(false) && left >= 3 && args.is(at, "bybox") => {
                self.set_shape(rectangle(args, at + 1)?);
                self.by_box = Some(true);
                Ok(4)
            }
            () => Err(SYNTAX.into()),
        }
    }

    /// Looks up the position of the member at `index`.
    fn member(&mut self, index: usize) -> Result<Option<Position>, Refusal> {
        let Some(set) = self.set else { return Ok(None) };
        let score = set.score(self.pairs, self.args.at(index))?.ok_or("ERR could not decode requested zset member")?;
        Ok(Some(Position::of_score(score)))
    }

    fn set_shape(&mut self, (shape, unit): (Shape, f64)) {
        (self.search.shape, self.search.unit) = (Some(shape), unit);
    }

    /// Fails if options contradict each other, or one is missing.
    fn check(&self) -> Outcome {
        let (search, is_search) = (&self.search, self.is_search());
        if search.target.is_some() && (search.with_distance || search.with_hash || search.with_position) {
            let what = if is_search { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options").into());
        }
        for (given, names) in [(self.by_member, "FROMMEMBER or FROMLONLAT"), (self.by_box, "BYRADIUS and BYBOX")] {
            if is_search && given.is_none() {
                let before = format!("ERR exactly one of {names} can be specified for ");
                return Err(Refusal::about(&before, self.args.at(0), ""));
            }
        }
        if search.any && search.count == 0 {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        Ok(())
    }
}

impl Search {
    /// Parses the arguments. `set`: the set of the source key; without one, positions of members are not looked up.
    fn parse(form: Form, args: &Args<'_>, pairs: &mut impl Pairs, set: Option<&SortedSet>) -> Result<Search, Refusal> {
        let mut parser = Parser { form, args, pairs, set, search: Search::default(), by_member: None, by_box: None };
        let mut at = parser.positional()?;
        while at < args.len() {
            at += match parser.output_option(at)? {
                0 => parser.area_option(at)?,
                used => used,
            };
        }
        parser.check()?;
        let mut search = parser.search;
        // The nearest ones are wanted if not all are.
        if search.count > 0 && !search.any {
            search.ascending = search.ascending.or(Some(true));
        }
        Ok(search)
    }

    /// The members in the area, sorted and limited.
    fn run(&self, pairs: &mut impl Pairs, set: &SortedSet, bytes_max: usize) -> Result<Vec<Found>, Refusal> {
        let (Some(centre), Some(shape)) = (self.centre, self.shape) else { return Ok(Vec::new()) };
        let (mut found, mut bytes, is_full) = (Vec::new(), 0, |count| self.any && count >= self.count);
        for scores in shape.ranges(centre) {
            if is_full(found.len()) || bytes > bytes_max {
                break;
            }
            let start = set.count_before(pairs, |score, _| score < scores.start)?;
            let end = set.count_before(pairs, |score, _| score < scores.end)?;
            set.for_range(pairs, start..end.max(start), false, |member, score| {
                let position = Position::of_score(score);
                if let Some(distance) = shape.distance(centre, position) {
                    bytes += member.len() + size_of::<Found>();
                    found.push(Found { member: member.to_vec(), score, position, distance });
                }
                !is_full(found.len()) && bytes <= bytes_max
            })?;
        }
        if bytes > bytes_max {
            return Err(REPLY_TOO_LONG.into());
        }
        match self.ascending {
            None => {}
            Some(true) => found.sort_by(|one, other| one.distance.total_cmp(&other.distance)),
            Some(false) => found.sort_by(|one, other| other.distance.total_cmp(&one.distance)),
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        found.iter_mut().for_each(|found| found.distance /= self.unit);
        Ok(found)
    }

    fn reply(&self, call: &mut Call<'_, '_>, found: &[Found]) {
        reply::array(call.out, found.len());
        let options = [self.with_distance, self.with_hash, self.with_position];
        let options = options.into_iter().filter(|option| *option).count();
        for Found { member, score, position, distance: meters } in found {
            if options > 0 {
                reply::array(call.out, options + 1);
            }
            reply::bulk(call.out, member);
            if self.with_distance {
                distance(call, *meters);
            }
            if self.with_hash {
                // A whole number below 2^54, or what Redis on x86-64 makes of another score.
                let is_too_large = *score >= -(i64::MIN as f64);
                reply::integer(call.out, if is_too_large { i64::MIN } else { *score as i64 });
            }
            if self.with_position {
                coordinates(call, *position);
            }
        }
    }
}

/// Parses and runs a search; returns what it found.
fn find(pairs: &mut impl Pairs, call: &Call<'_, '_>, form: Form) -> Result<(Search, Vec<Found>), Refusal> {
    let set = SortedSet::open(pairs, call.database, form.source(&call.args))?;
    let search = Search::parse(form, &call.args, pairs, set.as_ref())?;
    let bytes_max = if search.target.is_some() { usize::MAX } else { call.reply_bytes_max };
    let found = match &set {
        Some(set) => search.run(pairs, set, bytes_max)?,
        None => Vec::new(),
    };
    Ok((search, found))
}

/// GEOSEARCH, and GEORADIUS_RO and GEORADIUSBYMEMBER_RO.
pub(crate) fn search(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, form: Form) -> Outcome {
    let (search, found) = find(turn, call, form)?;
    search.reply(call, &found);
    Ok(())
}

/// GEOSEARCHSTORE, and GEORADIUS and GEORADIUSBYMEMBER, which store with an option.
pub(crate) fn search_and_store(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>, form: Form) -> Outcome {
    let (search, found) = find(alone, call, form)?;
    let Some((target, by_distance)) = search.target else {
        search.reply(call, &found);
        return Ok(());
    };
    let score = |found: &Found| if by_distance { found.distance } else { found.score };
    let elements: Vec<Element> = found.iter().map(|found| (found.member.clone(), score(found))).collect();
    store_at(alone, call, target, |set| set.fill(&elements))
}
