//! Values of Lua as Rust sees them: numbers, the names of types, the texts of errors.

use super::Running;
use mlua::{Lua, Value};

/// The most memory of a script.
pub(super) const BYTES_MAX: usize = 256 << 20;
/// The most values that a function returns: Lua's stack has room for no more.
pub(super) const RESULTS_MAX: usize = 8000;
/// The message of a function that would return more.
pub(super) const TOO_MANY_RESULTS: &str = "stack overflow (too many results)";
/// The name of the chunk `sandbox.lua`.
pub(super) const SANDBOX: &str = "@sandbox";

/// Creates an error of a Rust function, with the location of its caller.
pub(super) fn failure(lua: &Lua, message: &str) -> mlua::Error {
    let location = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let is_script = source.what != "C" && source.source.as_deref() != Some(SANDBOX);
            let line = frame.current_line().filter(|_| is_script)?;
            Some(format!("{}:{line}: ", source.short_src.unwrap_or_default()))
        })
    };
    let location = (1..10).map_while(location).flatten().next().unwrap_or_default();
    mlua::Error::runtime(location + message)
}

/// Fails once the script is killed. Functions that may take long call it: the hook counts each as one instruction.
/// Functions that create many strings call it for each, since clients can choose strings whose hashes in Lua are equal.
pub(super) fn check(running: &Running) -> mlua::Result<()> {
    if running.is_killed() { Err(mlua::Error::runtime("script killed")) } else { Ok(()) }
}

/// A value as a number if it is one. Whole ones are integers to mlua.
pub(super) fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// What Lua calls the type of a value.
pub(super) fn kind_of(value: &Value) -> &'static str {
    if matches!(value, Value::Integer(_)) { "number" } else { value.type_name() }
}

/// The first line of an error's message.
pub(super) fn text_of(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => message.clone(),
        mlua::Error::MemoryError(_) => "not enough memory".into(),
        mlua::Error::StackError => "stack overflow".into(),
        mlua::Error::CallbackError { cause, .. } => text_of(cause),
        other => other.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}
