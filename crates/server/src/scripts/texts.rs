//! The functions of Lua's `string` that search: `find`, `match`, and what `gmatch` and `gsub` are made of.

use super::Running;
use super::patterns::{Capture, Search, is_plain, replace};
use super::values::{BYTES_MAX, check, failure, kind_of};
use mlua::{Lua, LuaString, MultiValue, Table, Value, Variadic};
use std::sync::Arc;

type Values = Variadic<Value>;

/// Reads the argument at `index` as a string.
fn text(lua: &Lua, values: &[Value], index: usize, function: &str) -> mlua::Result<LuaString> {
    match values.get(index) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Integer(_) | Value::Number(_)) => {
            let text = lua.coerce_string(values[index].clone())?;
            text.ok_or_else(|| failure(lua, "a number could not be converted"))
        }
        other => {
            let found = other.map_or("no value", kind_of);
            let text = format!("bad argument #{} to '{function}' (string expected, got {found})", index + 1);
            Err(failure(lua, &text))
        }
    }
}

/// Reads the argument at `index` as a whole number.
fn number(lua: &Lua, values: &[Value], index: usize, function: &str, default: i64) -> mlua::Result<i64> {
    match values.get(index) {
        None | Some(Value::Nil) => Ok(default),
        Some(value) => match lua.coerce_number(value.clone())? {
            Some(number) if (-2_147_483_648.0..2_147_483_648.0).contains(&number.trunc()) => Ok(number as i64),
            Some(_) => {
                let text = format!("bad argument #{} to '{function}' (not an integer of 32 bits)", index + 1);
                Err(failure(lua, &text))
            }
            None => {
                let found = kind_of(value);
                let text = format!("bad argument #{} to '{function}' (number expected, got {found})", index + 1);
                Err(failure(lua, &text))
            }
        },
    }
}

fn value_of(lua: &Lua, subject: &[u8], capture: Capture) -> mlua::Result<Value> {
    Ok(match capture {
        Capture::Part(start, end) => Value::String(lua.create_string(&subject[start..end])?),
        Capture::Position(start) => Value::Number((start + 1) as f64),
    })
}

/// `string.find` (`is_find`) and `string.match`.
fn find(lua: &Lua, values: &Values, is_find: bool, is_killed: &dyn Fn() -> bool) -> mlua::Result<MultiValue> {
    let function = if is_find { "find" } else { "match" };
    let (subject, pattern) = (text(lua, values, 0, function)?, text(lua, values, 1, function)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let len = i64::try_from(subject.len()).unwrap_or(i64::MAX);
    let init = number(lua, values, 2, function, 1)?;
    let init = if init < 0 { init.saturating_add(len + 1) } else { init };
    let from = (init.max(1) - 1).min(len) as usize; // at most the length
    let mut found = MultiValue::new();
    let is_wanted_plain = values.get(3).is_some_and(|value| !matches!(value, Value::Nil | Value::Boolean(false)));
    if is_find && (is_wanted_plain || is_plain(&pattern)) {
        match memchr::memmem::find(&subject[from..], &pattern) {
            Some(at) => {
                found.push_back(Value::Number((from + at + 1) as f64));
                found.push_back(Value::Number((from + at + pattern.len()) as f64));
            }
            None => found.push_back(Value::Nil),
        }
        return Ok(found);
    }
    let mut search = Search::new(&subject, &pattern, is_killed);
    let Some(whole) = search.first(from, true).map_err(|text| failure(lua, &text))? else {
        found.push_back(Value::Nil);
        return Ok(found);
    };
    if is_find {
        found.push_back(Value::Number((whole.0 + 1) as f64));
        found.push_back(Value::Number(whole.1 as f64));
    }
    for capture in search.captures((!is_find).then_some(whole)).map_err(|text| failure(lua, &text))? {
        found.push_back(value_of(lua, &subject, capture)?);
    }
    Ok(found)
}

/// Refuses numbers that `string.format` would convert to integers that they do not fit.
fn check_format(lua: &Lua, values: &Values) -> mlua::Result<()> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    let format = text(lua, values, 0, "format")?;
    let format = format.as_bytes();
    let mut items = format.split(|&byte| byte == b'%').skip(1);
    let mut index = 0;
    while let Some(item) = items.next() {
        // `%%`
        if item.is_empty() {
            items.next();
            continue;
        }
        index += 1;
        let code = item.iter().find(|byte| !b"-+ #0123456789.".contains(byte));
        let range = match code {
            Some(b'c') => -2_147_483_648.0..2_147_483_648.0,
            Some(b'd' | b'i') => -TWO_TO_63..TWO_TO_63,
            Some(b'o' | b'u' | b'x' | b'X') => -TWO_TO_63..2.0 * TWO_TO_63,
            _ => continue,
        };
        let number = values.get(index).map(|value| lua.coerce_number(value.clone())).transpose()?.flatten();
        if number.is_some_and(|number| !range.contains(&number.trunc())) {
            let bits = if code == Some(&b'c') { 32 } else { 64 };
            let text = format!("bad argument #{} to 'format' (not an integer of {bits} bits)", index + 1);
            return Err(failure(lua, &text));
        }
    }
    Ok(())
}

/// Puts the functions into `native`. `search` and `replace` are for the sandbox: the first match at an offset or later
/// as its beginning, its end and its captures; and `gsub` with a text.
pub(super) fn add(lua: &Lua, native: &Table, running: &Arc<Running>) -> mlua::Result<()> {
    for (name, is_find) in [("find", true), ("match", false)] {
        let running = running.clone();
        let function = lua.create_function(move |lua, values: Values| {
            check(&running)?;
            find(lua, &values, is_find, &|| running.is_killed())
        })?;
        native.set(name, function)?;
    }
    native.set("check_format", lua.create_function(|lua, values: Values| check_format(lua, &values))?)?;
    let flag = running.clone();
    let search = lua.create_function(move |lua, values: (LuaString, LuaString, usize, bool)| {
        check(&flag)?;
        let (subject, pattern, from, anchored) = values;
        let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
        let is_killed = || flag.is_killed();
        let mut search = Search::new(&subject, &pattern, &is_killed);
        let mut found = MultiValue::new();
        if let Some(whole) = search.first(from, anchored).map_err(|text| failure(lua, &text))? {
            found.push_back(Value::Number(whole.0 as f64));
            found.push_back(Value::Number(whole.1 as f64));
            for capture in search.captures(Some(whole)).map_err(|text| failure(lua, &text))? {
                found.push_back(value_of(lua, &subject, capture)?);
            }
        }
        Ok(found)
    })?;
    native.set("search", search)?;
    let flag = running.clone();
    let replace = lua.create_function(move |lua, values: Values| {
        check(&flag)?;
        let (subject, pattern) = (text(lua, &values, 0, "gsub")?, text(lua, &values, 1, "gsub")?);
        let by = text(lua, &values, 2, "gsub")?;
        let (subject, pattern, by) = (subject.as_bytes(), pattern.as_bytes(), by.as_bytes());
        let most = number(lua, &values, 3, "gsub", i64::MAX)?.max(0) as u64;
        let is_killed = || flag.is_killed();
        let mut search = Search::new(&subject, &pattern, &is_killed);
        let (out, count) = replace(&mut search, &by, most, BYTES_MAX).map_err(|text| failure(lua, &text))?;
        Ok((lua.create_string(out)?, count as f64))
    })?;
    native.set("replace", replace)
}
