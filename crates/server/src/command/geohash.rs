//! Positions on the earth as the scores of a sorted set, and the cells that an area touches.
//!
//! A score is a cell of 2^26 by 2^26, the bits of latitude and longitude alternating, so each coarser cell is one range
//! of scores:
//!
//! ```text
//! score   ... lon1 lat1 lon0 lat0          latitude has the even bits
//! cell of `steps`: the first 2 * steps of the 52 bits; its scores: bits << (52 - 2 * steps)
//! ```
//!
//! A search takes cells about as large as its area, and the eight around the one of its centre. Which cells, and in
//! which order, is as in Redis 7.0, because replies without a sort order show it.
//!
//! Source: Morton, A Computer Oriented Geodetic Data Base, 1966; Niemeyer's geohash for the text form.

use std::ops::Range;

const LONGITUDE: (f64, f64) = (-180.0, 180.0);
/// What Web Mercator maps show.
const LATITUDE: (f64, f64) = (-85.05112878, 85.05112878);
/// Bits of each coordinate of a score.
const STEPS_MAX: u32 = 26;
const EARTH_RADIUS_METERS: f64 = 6_372_797.560856;
/// Half of the equator in Web Mercator.
const MERCATOR_METERS: f64 = 20_037_726.37;

/// A position in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

impl Position {
    /// Whether a score can express it.
    pub(super) fn is_valid(self) -> bool {
        (LONGITUDE.0..=LONGITUDE.1).contains(&self.longitude) && (LATITUDE.0..=LATITUDE.1).contains(&self.latitude)
    }

    /// The score of a valid position: a whole number below 2^52.
    pub(super) fn score(self) -> f64 {
        Cell::of(self, STEPS_MAX, LATITUDE).bits() as f64
    }

    /// The centre of the cell that a score expresses. Scores that GEOADD did not store yield some position.
    pub(super) fn of_score(score: f64) -> Position {
        let bits = bits_of(score);
        let area = Cell { longitude: every_second(bits >> 1), latitude: every_second(bits), steps: STEPS_MAX }.area();
        let middle = |range: (f64, f64), limits: (f64, f64)| ((range.0 + range.1) / 2.0).clamp(limits.0, limits.1);
        Position { longitude: middle(area.longitude, LONGITUDE), latitude: middle(area.latitude, LATITUDE) }
    }

    /// Its geohash: eleven characters, the last one always 0 because there are 52 bits.
    pub(super) fn text(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        // Geohashes divide all latitudes.
        let bits = Cell::of(self, STEPS_MAX, (-90.0, 90.0)).bits();
        std::array::from_fn(|index| match index {
            10 => ALPHABET[0],
            _ => ALPHABET[(bits >> (2 * STEPS_MAX as usize - 5 * (index + 1)) & 31) as usize],
        })
    }

    /// Meters to another position, on a sphere.
    pub(super) fn distance(self, other: Position) -> f64 {
        let half_sine = |from: f64, to: f64| ((radians(to) - radians(from)) / 2.0).sin();
        let v = half_sine(self.longitude, other.longitude);
        if v == 0.0 {
            return along_meridian(self.latitude, other.latitude);
        }
        let u = half_sine(self.latitude, other.latitude);
        let a = u * u + radians(self.latitude).cos() * radians(other.latitude).cos() * v * v;
        // Rounding may result in more than 1 for opposite positions, which has no arcsine.
        2.0 * EARTH_RADIUS_METERS * a.sqrt().min(1.0).asin()
    }
}

/// A score as bits of a cell. Scores that are not a cell wrap as in Redis on x86-64.
fn bits_of(score: f64) -> u64 {
    const ABOVE: f64 = 18_446_744_073_709_551_616.0; // 2^64
    match score {
        ..0.0 => (score as i64) as u64,
        ABOVE.. => 0,
        _ => score as u64,
    }
}

/// Degrees as radians, rounded as in Redis.
fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

fn along_meridian(from: f64, to: f64) -> f64 {
    EARTH_RADIUS_METERS * (radians(to) - radians(from)).abs()
}

/// Collects the even bits of a number.
fn every_second(bits: u64) -> u32 {
    (0..32).fold(0, |sum, bit| sum | (((bits >> (2 * bit)) & 1) as u32) << bit)
}

/// Spreads the bits of a number, each followed by a free one.
fn spread(number: u32) -> u64 {
    (0..32).fold(0, |sum, bit| sum | u64::from(number >> bit & 1) << (2 * bit))
}

/// A part of the earth: the least and the greatest degrees.
#[derive(Clone, Copy, Debug)]
struct Area {
    longitude: (f64, f64),
    latitude: (f64, f64),
}

/// One of the 2^steps by 2^steps parts of the earth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    longitude: u32,
    latitude: u32,
    steps: u32,
}

impl Cell {
    fn of(position: Position, steps: u32, latitudes: (f64, f64)) -> Cell {
        let index = |at: f64, limits: (f64, f64)| {
            let fraction = (at - limits.0) / (limits.1 - limits.0);
            (fraction * (1u64 << steps) as f64) as u32
        };
        Cell { longitude: index(position.longitude, LONGITUDE), latitude: index(position.latitude, latitudes), steps }
    }

    fn bits(self) -> u64 {
        spread(self.latitude) | spread(self.longitude) << 1
    }

    fn area(self) -> Area {
        let range = |index: u32, limits: (f64, f64)| {
            let (scale, cells) = (limits.1 - limits.0, (1u64 << self.steps) as f64);
            let at = |index: f64| limits.0 + (index / cells) * scale;
            (at(f64::from(index)), at(f64::from(index) + 1.0))
        };
        Area { longitude: range(self.longitude, LONGITUDE), latitude: range(self.latitude, LATITUDE) }
    }

    /// The cell this many cells to the east and to the north, around the earth.
    fn moved(self, east: i32, north: i32) -> Cell {
        let mask = ((1u64 << self.steps) - 1) as u32;
        let step = |at: u32, by: i32| if by == 0 { at } else { at.wrapping_add_signed(by) & mask };
        Cell { longitude: step(self.longitude, east), latitude: step(self.latitude, north), steps: self.steps }
    }

    /// The range of the scores in it.
    fn scores(self) -> Range<f64> {
        let shift = 2 * (STEPS_MAX - self.steps);
        (self.bits() << shift) as f64..((self.bits() + 1) << shift) as f64
    }
}

/// What a search covers, in meters around a centre.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Up to this far.
    Circle { radius: f64 },
    /// Half of these to each side.
    Box { width: f64, height: f64 },
}

impl Shape {
    /// The distance of a position from the centre, if it is within.
    pub(super) fn distance(self, centre: Position, position: Position) -> Option<f64> {
        match self {
            Shape::Circle { radius } => Some(centre.distance(position)).filter(|distance| *distance <= radius),
            Shape::Box { width, height } => {
                let same_latitude = Position { latitude: position.latitude, ..centre };
                let is_within = along_meridian(position.latitude, centre.latitude) <= height / 2.0
                    && position.distance(same_latitude) <= width / 2.0;
                is_within.then(|| centre.distance(position))
            }
        }
    }

    /// The distance to the farthest point, and to the sides and the ends of the smallest box around it.
    fn extent(self) -> (f64, f64, f64) {
        match self {
            Shape::Circle { radius } => (radius, radius, radius),
            Shape::Box { width, height } => {
                let (width, height) = (width / 2.0, height / 2.0);
                ((width * width + height * height).sqrt(), width, height)
            }
        }
    }

    /// Least and greatest degrees of the area, approximately.
    fn bounds(self, centre: Position) -> Area {
        let (_, width, height) = self.extent();
        let up = degrees(height / EARTH_RADIUS_METERS);
        // Degrees of longitude are shortest at the end that is nearer to a pole.
        let far = if centre.latitude < 0.0 { centre.latitude - up } else { centre.latitude + up };
        let side = degrees(width / EARTH_RADIUS_METERS / radians(far).cos());
        Area {
            longitude: (centre.longitude - side, centre.longitude + side),
            latitude: (centre.latitude - up, centre.latitude + up),
        }
    }

    /// How fine cells may be so that the area is not much larger than one.
    fn steps(self, latitude: f64) -> u32 {
        let (mut radius, mut steps) = (self.extent().0, 1i32);
        if radius == 0.0 {
            return STEPS_MAX;
        }
        while radius < MERCATOR_METERS {
            radius *= 2.0;
            steps += 1;
        }
        steps -= 2;
        // Cells are narrower near the poles.
        steps -= i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
        steps.clamp(1, STEPS_MAX as i32) as u32
    }

    /// The ranges of scores in which all positions of the area are, in the order of Redis.
    pub(super) fn ranges(self, centre: Position) -> Vec<Range<f64>> {
        let bounds = self.bounds(centre);
        let mut steps = self.steps(centre.latitude);
        let mut cell = Cell::of(centre, steps, LATITUDE);
        let ends_within = |cell: Cell| {
            let (east, west) = (cell.moved(1, 0).area().longitude.1, cell.moved(-1, 0).area().longitude.0);
            let (north, south) = (cell.moved(0, 1).area().latitude.1, cell.moved(0, -1).area().latitude.0);
            north < bounds.latitude.1
                || south > bounds.latitude.0
                || east < bounds.longitude.1
                || west > bounds.longitude.0
        };
        if steps > 1 && ends_within(cell) {
            steps -= 1;
            cell = Cell::of(centre, steps, LATITUDE);
        }
        let area = cell.area();
        let is_needed = |east: i32, north: i32| {
            steps < 2
                || !(north < 0 && area.latitude.0 < bounds.latitude.0
                    || north > 0 && area.latitude.1 > bounds.latitude.1
                    || east < 0 && area.longitude.0 < bounds.longitude.0
                    || east > 0 && area.longitude.1 > bounds.longitude.1)
        };
        // Itself, north, south, east, west, then the corners.
        const AROUND: [(i32, i32); 9] = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells: Vec<Cell> = Vec::new();
        for (east, north) in AROUND {
            let next = cell.moved(east, north);
            // Around the whole earth, cells repeat.
            let is_repeated = cells.len() > 1 && cells.last() == Some(&next);
            if is_needed(east, north) && !is_repeated {
                cells.push(next);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALERMO: Position = Position { longitude: 13.361389, latitude: 38.115556 };
    const CATANIA: Position = Position { longitude: 15.087269, latitude: 37.502669 };

    #[test]
    fn scores_texts_and_distances_are_those_of_redis() {
        assert_eq!(PALERMO.score(), 3479099956230698.0);
        assert_eq!(CATANIA.score(), 3479447370796909.0);
        let [palermo, catania] = [PALERMO, CATANIA].map(|position| Position::of_score(position.score()));
        assert_eq!(&palermo.text(), b"sqc8b49rny0");
        assert_eq!(&catania.text(), b"sqdtr74hyu0");
        assert_eq!(format!("{:.4}", palermo.distance(catania)), "166274.1516");
    }

    #[test]
    fn every_position_in_an_area_is_in_one_of_its_ranges() {
        let mut random = 1u64;
        let mut next = |from: f64, to: f64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            from + (to - from) * ((random >> 11) as f64 / (1u64 << 53) as f64)
        };
        for _ in 0..20_000 {
            let centre = Position { longitude: next(-150.0, 150.0), latitude: next(-60.0, 60.0) };
            let size = 10f64.powf(next(0.0, 5.7));
            let shape = match next(0.0, 2.0) as u32 {
                0 => Shape::Circle { radius: size },
                _ => Shape::Box { width: size * next(0.1, 1.0), height: size * next(0.1, 1.0) },
            };
            let reach = degrees(size / EARTH_RADIUS_METERS);
            let other = Position {
                longitude: centre.longitude + reach * next(-2.0, 2.0),
                latitude: centre.latitude + reach * next(-1.0, 1.0),
            };
            let stored = Position::of_score(other.score());
            if shape.distance(centre, stored).is_some() {
                let found = shape.ranges(centre).iter().filter(|range| range.contains(&other.score())).count();
                assert_eq!(found, 1, "{centre:?} {shape:?} {other:?}");
            }
        }
    }
}
