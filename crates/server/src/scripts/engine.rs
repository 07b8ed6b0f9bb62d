//! A Lua state that runs scripts.
//!
//! The state's allocator limits memory. Every two hundred instructions a hook is called, which fails once the script is
//! killed. Library functions of Lua that could run without end in one call are replaced (`sandbox.lua`, `texts.rs`).
//! The state is kept for the next script unless it has grown or its script was killed.
//!
//! A function of Rust fails with an [`mlua::Error`], which scripts see as a string or, from `redis.call`, as a table.

use super::json::{self, Encoder, Settings};
use super::replies::{Writer, to_lua};
use super::values::{BYTES_MAX, SANDBOX, check, failure, kind_of, text_of};
use super::{COMMAND_TOO_LONG, Commands, Running, Script, bits, msgpack, sha1_of, structs, texts};
use crate::command::double::format_number;
use crate::command::reply::Version;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value, Variadic, VmState};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A state that takes more memory than this is not kept.
const KEPT_BYTES: usize = 16 << 20;
/// The most compiled scripts that are kept.
const COMPILED_MAX: usize = 500;
/// Instructions between two checks whether the script is killed.
const INSTRUCTIONS: u32 = 200;
const CHUNK: &str = "@user_script";
const KILLED: &[u8] = b"ERR Script killed by user with SCRIPT KILL...";

/// A compiled script.
pub(crate) type Compiled = Function;

/// A Lua state.
pub(crate) struct Engine {
    lua: Lua,
    running: Arc<Running>,
    environment: Table,
    run: Function,
    /// Whether the script chose RESP3 for the replies to it.
    is_resp3: Arc<AtomicBool>,
    /// What the script set for cjson.
    json: Arc<Mutex<Settings>>,
    compiled: RefCell<HashMap<String, Function>>,
    is_spoilt: Cell<bool>,
}

/// The error reply of a command that a script called.
#[derive(Debug)]
struct ErrorReply(Vec<u8>);

impl std::fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl std::error::Error for ErrorReply {}

/// The error reply that an error carries, if any.
fn reply_of(error: &mlua::Error) -> Option<&ErrorReply> {
    match error {
        mlua::Error::CallbackError { cause, .. } => reply_of(cause),
        other => other.downcast_ref(),
    }
}

impl Engine {
    /// Creates a state.
    ///
    /// # Errors
    /// The text of the error reply.
    pub(crate) fn new(running: Arc<Running>, version: &str) -> Result<Engine, String> {
        Engine::build(running, version).map_err(|error| format!("ERR Lua could not be started: {error}"))
    }

    fn build(running: Arc<Running>, version: &str) -> mlua::Result<Engine> {
        let random = Arc::new(AtomicU64::new(0x1234_abcd_330e)); // as drand48 begins
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let native = lua.create_table()?;
        native.set("bytes_max", BYTES_MAX)?;
        native.set("version", version)?;
        native.set("version_number", 0x0007_000f)?;
        native.set("null", Value::NULL)?;
        let flag = running.clone();
        native.set("is_killed", lua.create_function(move |_, ()| Ok(flag.is_killed()))?)?;
        native.set("error_of", lua.create_function(error_of)?)?;
        native.set("script_line", lua.create_function(|lua, ()| Ok(script_line(lua)))?)?;
        native.set("bit", bits::library(&lua)?)?;
        let is_resp3: Arc<AtomicBool> = Arc::default();
        let flag = is_resp3.clone();
        native.set(
            "setresp",
            lua.create_function(move |_, version: u8| {
                flag.store(version == 3, Relaxed);
                Ok(())
            })?,
        )?;
        add_redis(&lua, &native, &running)?;
        add_random(&lua, &native, &random)?;
        let json: Arc<Mutex<Settings>> = Arc::default();
        add_json(&lua, &native, &running, &json)?;
        native.set("cmsgpack", msgpack_library(&lua, &running)?)?;
        native.set("struct", struct_library(&lua, &running)?)?;
        texts::add(&lua, &native, &running)?;
        let place: Arc<OnceLock<Table>> = Arc::default();
        let environment = place.clone();
        native.set(
            "compile",
            lua.create_function(move |lua, (source, name): (LuaString, LuaString)| {
                let source = source.as_bytes().to_vec();
                // Compiled functions see what scripts see.
                Ok(match compile_text(lua, source, &name.to_string_lossy(), environment.get()) {
                    Ok(function) => (Value::Function(function), Value::Nil),
                    Err(error) => (Value::Nil, Value::String(lua.create_string(text_of(&error))?)),
                })
            })?,
        )?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name(SANDBOX).set_mode(ChunkMode::Text);
        let (environment, run): (Table, Function) = sandbox.call(native)?;
        let _ = place.set(environment.clone());
        lua.set_memory_limit(BYTES_MAX)?;
        let flag = running.clone();
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(INSTRUCTIONS), move |_, _| {
            check(&flag).map(|()| VmState::Continue)
        })?;
        Ok(Engine {
            lua,
            running,
            environment,
            run,
            is_resp3,
            json,
            compiled: RefCell::default(),
            is_spoilt: Cell::new(false),
        })
    }

    /// Whether the state should be replaced by a new one.
    pub(crate) fn is_worn(&self) -> bool {
        self.is_spoilt.get()
            || self.lua.used_memory() > KEPT_BYTES
                && (self.lua.gc_collect().is_err() || self.lua.used_memory() > KEPT_BYTES)
    }

    /// Compiles a script.
    ///
    /// # Errors
    /// The text of the error reply.
    pub(crate) fn compile(&self, script: &Script) -> Result<Compiled, Vec<u8>> {
        if let Some(function) = self.compiled.borrow().get(&script.name) {
            return Ok(function.clone());
        }
        // A first line that begins with `#!` describes the script and is not compiled.
        let at = if script.body.starts_with(b"#!") { script.body.iter().position(|&b| b == b'\n') } else { Some(0) };
        let source = script.body[at.unwrap_or(script.body.len())..].to_vec();
        let function = compile_text(&self.lua, source, CHUNK, Some(&self.environment))
            .map_err(|error| format!("ERR Error compiling script (new function): {}", text_of(&error)).into_bytes())?;
        let mut compiled = self.compiled.borrow_mut();
        if compiled.len() >= COMPILED_MAX {
            compiled.clear();
        }
        compiled.insert(script.name.clone(), function.clone());
        Ok(function)
    }

    /// Runs a script with keys and arguments, and appends its reply. A reply longer than the limit is an error.
    ///
    /// # Errors
    /// The text of the error reply.
    pub(crate) fn run(
        &mut self,
        (script, function): (&Script, Compiled),
        [keys, args]: [&[&[u8]]; 2],
        commands: &mut dyn Commands,
        (out, version, bytes_max): (&mut Vec<u8>, Version, usize),
    ) -> Result<(), Vec<u8>> {
        self.is_resp3.store(false, Relaxed);
        *self.json.lock().unwrap_or_else(PoisonError::into_inner) = Settings::default();
        let commands = RefCell::new(commands);
        let reply_to = |words: &[Value]| match words_of(words, bytes_max) {
            Ok(words) => commands.borrow_mut().call(&words, self.is_resp3.load(Relaxed)),
            Err(refusal) => format!("-{refusal}\r\n").into_bytes(),
        };
        let outcome = self.lua.scope(|scope| {
            let list = |words: &[&[u8]]| {
                let list = self.lua.create_table_with_capacity(words.len(), 0)?;
                for (index, word) in words.iter().enumerate() {
                    check(&self.running)?;
                    list.raw_set(index + 1, self.lua.create_string(word)?)?;
                }
                Ok::<Table, mlua::Error>(list)
            };
            let call = scope.create_function(|lua, words: Variadic<Value>| {
                check(&self.running)?;
                let reply = reply_to(&words);
                match reply.strip_prefix(b"-") {
                    Some(text) => {
                        let text = text.strip_suffix(b"\r\n").unwrap_or(text);
                        Err(mlua::Error::external(ErrorReply(text.to_vec())))
                    }
                    None => to_lua(lua, &mut reply.as_slice(), &self.running),
                }
            })?;
            let may_call = scope.create_function(|_, words: Variadic<Value>| {
                let answer = words_of(&words, bytes_max).and_then(|words| {
                    let answer = commands.borrow_mut().may_call(&words);
                    answer.ok_or("ERR Invalid command passed to redis.acl_check_cmd()")
                });
                answer.map_err(|refusal| mlua::Error::external(ErrorReply(refusal.into())))
            })?;
            self.run.call::<(bool, Value)>((function, list(keys)?, list(args)?, call, may_call))
        });
        let (text, line) = match outcome {
            Ok((true, value)) => {
                let mut writer = Writer::new(out, version, self.is_resp3.load(Relaxed), bytes_max);
                return writer.reply(&value).map_err(String::into_bytes);
            }
            Ok((false, Value::Table(problem))) => {
                let text = problem.get::<LuaString>("text").map(|text| text.as_bytes().to_vec());
                (text.unwrap_or_default(), problem.get::<Option<i64>>("line").ok().flatten())
            }
            Ok((false, Value::String(text))) => ([b"ERR ".as_slice(), &text.as_bytes()].concat(), None),
            Ok((false, other)) => (format!("ERR error object of type {}", kind_of(&other)).into_bytes(), None),
            Err(error) => (format!("ERR {}", text_of(&error)).into_bytes(), None),
        };
        let is_killed = self.running.is_killed();
        self.is_spoilt.set(is_killed);
        let mut text = if is_killed { KILLED.to_vec() } else { text };
        text.extend_from_slice(format!(" script: {}", script.name).as_bytes());
        if let Some(line) = line {
            text.extend_from_slice(format!(", on {CHUNK}:{line}.").as_bytes());
        }
        Err(text)
    }
}

/// Compiles source text. Bytecode is refused: it can do anything.
fn compile_text(lua: &Lua, source: Vec<u8>, name: &str, environment: Option<&Table>) -> mlua::Result<Function> {
    // While Lua 5.1 compiles, nothing else keeps the name of the chunk from being collected (CVE-2025-49844). Equal
    // strings are one object.
    let anchor = lua.create_string(name)?;
    let mut chunk = lua.load(source).set_name(name).set_mode(ChunkMode::Text);
    if let Some(environment) = environment {
        chunk = chunk.set_environment(environment.clone());
    }
    let function = chunk.into_function();
    drop(anchor);
    function
}

/// Finds the line of the script where the stack is now.
fn script_line(lua: &Lua) -> Option<usize> {
    let line_at = |level| {
        lua.inspect_stack(level, |frame| {
            (frame.source().source.as_deref() == Some(CHUNK)).then(|| frame.current_line()).flatten()
        })
    };
    // The script is not far from the top of the stack.
    (1..20).map_while(line_at).flatten().next()
}

/// An error of a function of Rust: its text, and whether it is an error reply.
fn error_of(lua: &Lua, problem: Value) -> mlua::Result<(LuaString, bool)> {
    let Value::Error(error) = &problem else { return Ok((lua.create_string("unknown error")?, false)) };
    match reply_of(error) {
        Some(reply) => Ok((lua.create_string(&reply.0)?, true)),
        None => Ok((lua.create_string(text_of(error))?, false)),
    }
}

fn add_redis(lua: &Lua, native: &Table, running: &Arc<Running>) -> mlua::Result<()> {
    let flag = running.clone();
    let sha1hex = lua.create_function(move |lua, values: MultiValue| match values.front() {
        Some(value) if values.len() == 1 => {
            check(&flag)?;
            let text = lua.coerce_string(value.clone())?;
            Ok(sha1_of(&text.map_or(Vec::new(), |text| text.as_bytes().to_vec())))
        }
        _ => Err(mlua::Error::runtime("wrong number of arguments")),
    })?;
    native.set("sha1hex", sha1hex)?;
    let log = lua.create_function(|_, (level, text): (u8, LuaString)| {
        let text = text.to_string_lossy();
        match level {
            3 => tracing::warn!(%text, "a script"),
            2 => tracing::info!(%text, "a script"),
            _ => tracing::debug!(%text, "a script"),
        }
        Ok(())
    })?;
    native.set("log", log)
}

fn add_json(lua: &Lua, native: &Table, running: &Arc<Running>, settings: &Arc<Mutex<Settings>>) -> mlua::Result<()> {
    fn of(settings: &Mutex<Settings>) -> Settings {
        *settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
    let of_option = settings.clone();
    let option = lua.create_function(move |_, (name, value): (LuaString, Option<u32>)| {
        Ok(of_option.lock().unwrap_or_else(PoisonError::into_inner).option(&name.as_bytes(), value))
    })?;
    native.set("json_option", option)?;
    let expected_one =
        |lua: &Lua, name: &str| failure(lua, &format!("bad argument #1 to '{name}' (expected 1 argument)"));
    let (flag, next) = (running.clone(), lua.globals().get::<Function>("next")?);
    let (of_encode, of_decode) = (settings.clone(), settings.clone());
    let encode = lua.create_function(move |lua, values: MultiValue| {
        let (Some(value), 1) = (values.front(), values.len()) else { return Err(expected_one(lua, "encode")) };
        check(&flag)?;
        let is_killed = || flag.is_killed();
        let (settings, next) = (of(&of_encode), &next);
        let mut encoder = Encoder { out: Vec::new(), bytes_max: BYTES_MAX, settings, next, is_killed: &is_killed };
        encoder.encode(value).map_err(|text| failure(lua, &text))?;
        lua.create_string(encoder.out)
    })?;
    let flag = running.clone();
    let decode = lua.create_function(move |lua, values: MultiValue| {
        check(&flag)?;
        let (Some(value), 1) = (values.front(), values.len()) else { return Err(expected_one(lua, "decode")) };
        match value {
            Value::String(text) => {
                json::decode(lua, &text.as_bytes(), of(&of_decode), &flag).map_err(|text| failure(lua, &text))
            }
            Value::Integer(_) | Value::Number(_) => Ok(value.clone()),
            other => {
                let text = format!("bad argument #1 to 'decode' (string expected, got {})", kind_of(other));
                Err(failure(lua, &text))
            }
        }
    })?;
    native.set("json_encode", encode)?;
    native.set("json_decode", decode)
}

fn msgpack_library(lua: &Lua, running: &Arc<Running>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let located = |lua: &Lua, error: mlua::Error| failure(lua, &text_of(&error));
    let flag = running.clone();
    let pack = lua.create_function(move |lua, values: MultiValue| {
        check(&flag)?;
        if values.is_empty() {
            return Err(failure(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)"));
        }
        let mut out = Vec::new();
        let packed = values.iter().try_for_each(|value| msgpack::pack(&mut out, value, 0, BYTES_MAX));
        packed.map_err(|error| located(lua, error))?;
        lua.create_string(out)
    })?;
    library.set("pack", pack)?;
    // The values of a text; with a limit, after the offset of the next one, -1 at the end.
    let flag = running.clone();
    let unpack = move |lua: &Lua, text: LuaString, limit: Option<i64>, offset: i64| {
        check(&flag)?;
        let text = text.as_bytes();
        let (Ok(at), Ok(most)) = (usize::try_from(offset), usize::try_from(limit.unwrap_or(i64::MAX))) else {
            let limit = limit.unwrap_or_default();
            let message = format!("Invalid request to unpack with offset of {offset} and limit of {limit}.");
            return Err(failure(lua, &message));
        };
        if at > text.len() {
            let message = format!("Start offset {at} greater than input length {}.", text.len());
            return Err(failure(lua, &message));
        }
        let (mut values, end) = msgpack::unpack(lua, &text, at, most, &flag).map_err(|error| located(lua, error))?;
        if limit.is_some() {
            values.push_front(Value::Number(if end < text.len() { end as f64 } else { -1.0 }));
        }
        Ok(values)
    };
    let unpack = Arc::new(unpack);
    let all = unpack.clone();
    library.set("unpack", lua.create_function(move |lua, text: LuaString| all(lua, text, None, 0))?)?;
    let unpack_one = unpack.clone();
    let one = lua.create_function(move |lua, (text, offset): (LuaString, Option<i64>)| {
        unpack_one(lua, text, Some(1), offset.unwrap_or(0))
    })?;
    library.set("unpack_one", one)?;
    let some = lua.create_function(move |lua, (text, limit, offset): (LuaString, i64, Option<i64>)| {
        unpack(lua, text, Some(limit), offset.unwrap_or(0))
    })?;
    library.set("unpack_limit", some)?;
    library.set("_NAME", "cmsgpack")?;
    library.set("_VERSION", "lua-cmsgpack 0.4.0")?;
    Ok(library)
}

fn struct_library(lua: &Lua, running: &Arc<Running>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let flag = running.clone();
    let pack = lua.create_function(move |lua, values: Variadic<Value>| {
        check(&flag)?;
        let bytes = structs::pack(lua, &values, BYTES_MAX, &flag).map_err(|text| failure(lua, &text))?;
        lua.create_string(bytes)
    })?;
    library.set("pack", pack)?;
    let flag = running.clone();
    let unpack = lua.create_function(move |lua, values: Variadic<Value>| {
        check(&flag)?;
        structs::unpack(lua, &values, &flag).map_err(|text| failure(lua, &text))
    })?;
    library.set("unpack", unpack)?;
    let size = lua.create_function(|lua, values: Variadic<Value>| {
        structs::size(lua, &values).map_err(|text| failure(lua, &text))
    })?;
    library.set("size", size)?;
    Ok(library)
}

/// Converts the arguments of `redis.call` to the words of a command. Copies at most `bytes_max` bytes of strings: many
/// arguments may be the same long string.
fn words_of(values: &[Value], bytes_max: usize) -> Result<Vec<Vec<u8>>, &'static str> {
    if values.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    let (mut words, mut left) = (Vec::with_capacity(values.len()), bytes_max);
    for value in values {
        words.push(match value {
            Value::String(text) => {
                let text = text.as_bytes();
                left = left.checked_sub(text.len()).ok_or(COMMAND_TOO_LONG)?;
                text.to_vec()
            }
            Value::Integer(number) => format_number(*number as f64, 17).into_bytes(),
            Value::Number(number) => format_number(*number, 17).into_bytes(),
            _ => return Err("ERR Lua redis lib command arguments must be strings or integers"),
        });
    }
    Ok(words)
}

/// The generator of drand48, which Redis uses, so that scripts get the same numbers.
fn add_random(lua: &Lua, native: &Table, random: &Arc<AtomicU64>) -> mlua::Result<()> {
    let state = random.clone();
    let next = lua.create_function(move |lua, (low, high): (Option<f64>, Option<f64>)| {
        let next = state.load(Relaxed).wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        state.store(next, Relaxed);
        let part = ((next >> 17) % 0x7fff_ffff) as f64 / f64::from(0x7fff_ffff);
        let whole = |value: Option<f64>, number: usize| match value {
            Some(value) if !(value > -2_147_483_649.0 && value < 2_147_483_648.0) => {
                Err(failure(lua, &format!("bad argument #{number} to 'random' (not an integer of 32 bits)")))
            }
            value => Ok(value.map(f64::trunc)),
        };
        let (low, high, number) = match (whole(low, 1)?, whole(high, 2)?) {
            (None, _) => return Ok(part),
            (Some(high), None) => (1.0, high, 1),
            (Some(low), Some(high)) => (low, high, 2),
        };
        if low > high {
            return Err(failure(lua, &format!("bad argument #{number} to 'random' (interval is empty)")));
        }
        Ok((part * (high - low + 1.0)).floor() + low)
    })?;
    native.set("random", next)?;
    let state = random.clone();
    native.set(
        "seed",
        lua.create_function(move |_, number: f64| {
            seed(&state, number);
            Ok(())
        })?,
    )
}

fn seed(state: &AtomicU64, number: f64) {
    state.store((number as i64 as u32 as u64) << 16 | 0x330e, Relaxed);
}
