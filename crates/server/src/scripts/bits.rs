//! The library `bit`: operations on 32 bits.

use super::values::{failure, kind_of, number_of};
use mlua::{Lua, Table, Value, Variadic};

type Operation = fn(&[Value]) -> Result<u32, String>;

const OPERATIONS: [(&str, Operation); 11] = [
    ("tobit", |values| bits(values, 0)),
    ("bnot", |values| Ok(!bits(values, 0)?)),
    ("bswap", |values| Ok(bits(values, 0)?.swap_bytes())),
    ("band", |values| all(values, |a, b| a & b)),
    ("bor", |values| all(values, |a, b| a | b)),
    ("bxor", |values| all(values, |a, b| a ^ b)),
    ("lshift", |values| shift(values, |a, n| a << n)),
    ("rshift", |values| shift(values, |a, n| a >> n)),
    ("arshift", |values| shift(values, |a, n| (a as i32 >> n) as u32)),
    ("rol", |values| shift(values, u32::rotate_left)),
    ("ror", |values| shift(values, u32::rotate_right)),
];

/// The number at `index` modulo 2^32.
fn bits(values: &[Value], index: usize) -> Result<u32, String> {
    let value = values.get(index);
    let number = match value {
        Some(Value::String(text)) => text.to_string_lossy().trim().parse().ok(),
        Some(value) => number_of(value),
        None => None,
    };
    let found = value.map_or("no value", kind_of);
    let number: f64 = number.ok_or_else(|| format!("bad argument #{} (number expected, got {found})", index + 1))?;
    // As the library does it: added to 1.5 * 2^52, the last bits of a double are those of the whole number.
    Ok((number + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn all(values: &[Value], join: fn(u32, u32) -> u32) -> Result<u32, String> {
    (1..values.len()).try_fold(bits(values, 0)?, |sum, index| Ok(join(sum, bits(values, index)?)))
}

fn shift(values: &[Value], by: fn(u32, u32) -> u32) -> Result<u32, String> {
    Ok(by(bits(values, 0)?, bits(values, 1)? & 31))
}

fn tohex(values: &[Value]) -> Result<String, String> {
    let number = bits(values, 0)?;
    let digits = if values.len() > 1 { bits(values, 1)? as i32 } else { 8 };
    let text = format!("{number:08x}");
    let text = &text[8 - (digits.unsigned_abs() as usize).min(8)..];
    Ok(if digits < 0 { text.to_uppercase() } else { text.to_owned() })
}

/// Adds the name of the function to a message.
fn named(name: &str, message: String) -> String {
    message.replacen(" (", &format!(" to '{name}' ("), 1)
}

/// Creates the library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for (name, operation) in OPERATIONS {
        let function = lua.create_function(move |lua, values: Variadic<Value>| {
            operation(&values).map(|bits| f64::from(bits as i32)).map_err(|message| failure(lua, &named(name, message)))
        })?;
        library.set(name, function)?;
    }
    let function = lua.create_function(|lua, values: Variadic<Value>| {
        tohex(&values).map_err(|message| failure(lua, &named("tohex", message)))
    })?;
    library.set("tohex", function)?;
    Ok(library)
}
