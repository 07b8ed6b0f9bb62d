//! Scripts: the bodies that clients send, what a script may do, and what stops one.

#![cfg(feature = "scripts")]

use splitpoint_server::keyspace::{Eviction, KeySpace, Patience, SpaceOptions};
use splitpoint_server::memcached::session::MemcachedSession;
use splitpoint_server::resp::session::RespSession;
use splitpoint_server::server::Server;
use splitpoint_server::session::{Flow, Session};
use splitpoint_server::settings::Settings;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

fn session() -> RespSession {
    let space = Arc::new(KeySpace::open(SpaceOptions::default()).unwrap());
    another(&Arc::new(Server::new(space, Settings::default(), false)))
}

fn another(server: &Arc<Server>) -> RespSession {
    let client = server.clients.add("test".into(), "test".into(), 0, 100).unwrap();
    RespSession::new(server.clone(), client, server.add_figures())
}

/// The reply to one request, with blanks for line ends.
fn call(session: &mut RespSession, words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    let mut out = Vec::new();
    let (used, _) = session.execute(&request, &mut out, Patience::MayWait);
    assert_eq!(used, request.len(), "{words:?}");
    String::from_utf8_lossy(&out).replace("\r\n", " ").trim().to_owned()
}

fn number(reply: &str) -> u64 {
    reply.trim_start_matches(':').parse().unwrap()
}

fn eval(session: &mut RespSession, script: &str, keys: &[&str], args: &[&str]) -> String {
    let count = keys.len().to_string();
    call(session, &[&["EVAL", script, &count], keys, args].concat())
}

#[test]
fn locks_of_redis_py_and_redsync_are_released_by_their_owner_only() {
    // redis-py's Lock; redsync's release is the same.
    let release = "local token = redis.call('get', KEYS[1])\nif not token or token ~= ARGV[1] then\n return 0\nend\n\
                   redis.call('del', KEYS[1])\nreturn 1";
    let extend = "local token = redis.call('get', KEYS[1])\nif not token or token ~= ARGV[1] then return 0 end\n\
                  local expiration = redis.call('pttl', KEYS[1])\nif not expiration then expiration = 0 end\n\
                  if expiration < 0 then return 0 end\nlocal newttl = ARGV[2]\n\
                  if ARGV[3] == '0' then newttl = ARGV[2] + expiration end\n\
                  redis.call('pexpire', KEYS[1], newttl)\nreturn 1";
    let mut session = session();
    assert_eq!(call(&mut session, &["SET", "lock", "mine", "NX", "PX", "100000"]), "+OK");
    assert_eq!(eval(&mut session, extend, &["lock"], &["other", "5000000", "0"]), ":0");
    assert_eq!(eval(&mut session, extend, &["lock"], &["mine", "5000000", "0"]), ":1");
    assert!(number(&call(&mut session, &["TTL", "lock"])) > 5000);
    assert_eq!(eval(&mut session, release, &["lock"], &["other"]), ":0");
    assert_eq!(eval(&mut session, release, &["lock"], &["mine"]), ":1");
    assert_eq!(eval(&mut session, release, &["lock"], &["mine"]), ":0");
}

#[test]
fn rate_limiters_count_and_expire() {
    let fixed = "local n = redis.call('INCR', KEYS[1])\nif n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end\n\
                 if n > tonumber(ARGV[2]) then return 0 end\nreturn 1";
    let bucket = "local tokens = tonumber(redis.call('get', KEYS[1]) or ARGV[1])\n\
                  local last = tonumber(redis.call('get', KEYS[2]) or 0)\nlocal now = tonumber(ARGV[3])\n\
                  tokens = math.min(tonumber(ARGV[1]), tokens + math.max(0, now - last) * ARGV[2])\n\
                  local allowed = tokens >= 1\nif allowed then tokens = tokens - 1 end\n\
                  redis.call('setex', KEYS[1], 60, tokens)\nredis.call('setex', KEYS[2], 60, now)\n\
                  return { allowed, tokens }";
    let sliding = "local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])\nlocal slot = math.floor(now / window)\n\
                   local current = tonumber(redis.call('get', KEYS[1] .. slot) or 0)\n\
                   local before = tonumber(redis.call('get', KEYS[1] .. (slot - 1)) or 0)\n\
                   local part = (now % window) / window\nif before * (1 - part) + current >= tonumber(ARGV[3]) then \
                   return -1 end\nredis.call('incr', KEYS[1] .. slot)\n\
                   redis.call('expire', KEYS[1] .. slot, window * 2)\nreturn current + 1";
    let mut session = session();
    let replies: Vec<String> = (0..4).map(|_| eval(&mut session, fixed, &["f"], &["100", "3"])).collect();
    assert_eq!(replies, [":1", ":1", ":1", ":0"]);
    assert!(number(&call(&mut session, &["TTL", "f"])) > 50);
    let tries: Vec<String> =
        ["10", "10", "10", "11"].iter().map(|now| eval(&mut session, bucket, &["t", "l"], &["2", "1", now])).collect();
    assert_eq!(tries, ["*2 :1 :1", "*2 :1 :0", "*2 $-1 :0", "*2 :1 :0"]);
    let tries: Vec<String> =
        ["100", "101", "102", "115"].iter().map(|now| eval(&mut session, sliding, &["s"], &[now, "10", "2"])).collect();
    assert_eq!(tries, [":1", ":2", ":-1", ":1"]);
}

#[test]
fn the_incr_of_django_redis_keeps_lifetimes_and_refuses_absent_keys() {
    let script = "local exists = redis.call('EXISTS', KEYS[1])\nif (exists == 1) then\n\
                  return redis.call('INCRBY', KEYS[1], ARGV[1])\nelse return false end";
    let mut session = session();
    assert_eq!(eval(&mut session, script, &[":1:n"], &["2"]), "$-1");
    call(&mut session, &["SET", ":1:n", "40", "EX", "1000"]);
    assert_eq!(eval(&mut session, script, &[":1:n"], &["2"]), ":42");
    assert!(number(&call(&mut session, &["TTL", ":1:n"])) > 900);
}

/// Redisson's RedissonLock: a hash from owner to count.
#[test]
fn the_lock_of_redisson_is_taken_again_by_its_owner_or_names_what_is_missing() {
    let lock = "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
                redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
                return redis.call('pttl', KEYS[1]);";
    let unlock = "if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; \
                  local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); \
                  if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; \
                  else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end; return nil;";
    let mut session = session();
    let taken = eval(&mut session, lock, &["lock"], &["30000000", "a"]);
    if taken != "$-1" {
        assert!(taken.contains("this server has no hashes"), "{taken}");
        return;
    }
    assert_eq!(eval(&mut session, lock, &["lock"], &["30000000", "a"]), "$-1");
    assert!(number(&eval(&mut session, lock, &["lock"], &["30000000", "b"])) > 20_000);
    let mut release = |owner| eval(&mut session, unlock, &["lock", "channel"], &["0", "30000000", owner]);
    assert_eq!([release("b"), release("a"), release("a"), release("a")], ["$-1", ":0", ":1", "$-1"]);
}

/// What Redis 7.0.15 answers.
#[test]
fn values_are_converted_as_redis_converts_them() {
    let mut session = session();
    for (script, expected) in [
        ("return {1,2,nil,3}", "*2 :1 :2"),
        ("return 3.99", ":3"),
        ("return -3.99", ":-3"),
        ("return true", ":1"),
        ("return false", "$-1"),
        ("return {1,'a',{2,false,true}}", "*3 :1 $1 a *3 :2 $-1 :1"),
        ("return function() end", "$-1"),
        ("return {ok='x'}", "+x"),
        ("return {err='MY x'}", "-MY x"),
        ("return redis.error_reply('x')", "-ERR x"),
        ("return redis.error_reply('MY x')", "-MY x"),
        ("return redis.status_reply('x')", "+x"),
        ("return {double=3.5}", "$3 3.5"),
        ("return {map={a=1}}", "*2 $1 a :1"),
        ("return redis.call('set','a',1.5)", "+OK"),
        ("return redis.call('get','a')", "$3 1.5"),
        ("redis.call('set','a',12345678901234567890)", "$-1"),
        ("return redis.call('get','a')", "$22 1.2345678901234567e+19"),
        ("return type(redis.call('get','absent'))", "$7 boolean"),
        ("return redis.call('ping').ok", "$4 PONG"),
        ("local ok, e = pcall(redis.call, 'incr', 'a') return e", "$43 ERR value is not an integer or out of range"),
        ("return redis.pcall('incr', 'a')", "-ERR value is not an integer or out of range"),
        ("return math.random(1000)", ":397"),
        ("math.randomseed(5) return math.random(1000)", ":525"),
        ("return redis.sha1hex('')", "$40 da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("return bit.band(0xff, 0x0f)", ":15"),
        ("return bit.tohex(bit.lshift(1, 31))", "$8 80000000"),
        ("return cjson.encode({1,2,{a=1}})", "$13 [1,2,{\"a\":1}]"),
        ("return cjson.encode({[5]=1})", "$23 [null,null,null,null,1]"),
        ("return cjson.encode(1e100)", "$6 1e+100"),
        ("return cjson.decode('{\"a\":[1,2,null]}').a[2]", ":2"),
        ("return loadstring('return 1')()", ":1"),
        ("return cmsgpack.unpack(cmsgpack.pack({1, 'a', {x = 2}}))[3].x", ":2"),
        ("return struct.unpack('>I2', struct.pack('>I2', 258))", ":258"),
        ("return {string.find('key=value', '(%w+)=(%w+)')}", "*4 :1 :9 $3 key $5 value"),
        ("return {string.gsub('abc', '%w', '%0%0', 2)}", "*2 $5 aabbc :2"),
        ("redis.call('select', 5) redis.call('set', 'there', 1)", "$-1"),
        ("return redis.call('exists', 'there')", ":0"),
    ] {
        assert_eq!(eval(&mut session, script, &[], &[]), expected, "{script}");
    }
    call(&mut session, &["HELLO", "3"]);
    for (script, expected) in [
        ("return true", ":1"),
        ("redis.setresp(3) return true", "#t"),
        ("redis.setresp(3) return {map={a=1}}", "%1 $1 a :1"),
        ("redis.setresp(3) return {double=3.5}", ",3.5"),
        ("redis.setresp(3) return redis.call('get','absent') == nil", "#t"),
        ("return redis.call('get','absent')", "_"),
    ] {
        assert_eq!(eval(&mut session, script, &[], &[]), expected, "{script}");
    }
}

#[test]
fn errors_say_where_the_script_failed() {
    let mut session = session();
    for (script, expected) in [
        ("error('a')", "-ERR user_script:1: a script: "),
        ("error({err='MY thing'})", "-MY thing script: "),
        ("redis.call('nosuch')", "-ERR Unknown Redis command called from script script: "),
        ("redis.call('get')", "-ERR Wrong number of args calling Redis command from script script: "),
        ("redis.call('multi')", "-ERR This Redis command is not allowed from script script: "),
        ("return x", "-ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: "),
        ("x = 1", "-ERR user_script:1: Attempt to modify a readonly table script: "),
        ("string.x = 1", "-ERR user_script:1: Attempt to modify a readonly table script: "),
        ("rawset(string, 'x', 1)", "-ERR Attempt to modify a readonly table script: "),
        (
            "local v = cjson.decode('{\"a\":}')",
            "-ERR user_script:1: Expected value but found T_OBJ_END at character 6 script",
        ),
        ("local v = cjson.encode(0/0)", "-ERR user_script:1: Cannot serialise number: must not be NaN or Inf script: "),
    ] {
        let reply = eval(&mut session, script, &[], &[]);
        assert!(reply.starts_with(expected) && reply.ends_with(", on @user_script:1."), "{script}: {reply}");
    }
    let unfinished = eval(&mut session, "syntax error here", &[], &[]);
    assert_eq!(unfinished, "-ERR Error compiling script (new function): user_script:1: '=' expected near 'error'");
    for hidden in ["os", "io", "require", "dofile", "loadfile", "debug", "package", "getfenv", "setfenv", "newproxy"] {
        let reply = eval(&mut session, &format!("return {hidden}"), &[], &[]);
        assert!(reply.contains("nonexistent global variable"), "{reply}");
    }
}

/// Numbers at the limits of C's integers, as Lua numbers and as text.
const BORDERS: [&str; 19] = [
    "0/0",
    "1/0",
    "-1/0",
    "2^31 - 1",
    "2^31",
    "-2^31",
    "-2^31 - 1",
    "2^31 * 3",
    "2^32",
    "-2^32",
    "2^53",
    "2^63",
    "-2^63",
    "1e300",
    "-0.5",
    "'2147483648'",
    "'-4294967296'",
    "'0x80000000'",
    "'nan'",
];

/// Calls of all functions that take integers; N is one of [`BORDERS`].
const TAKE_INTEGERS: [&str; 55] = [
    "unpack({}, N)",
    "unpack({}, N, N)",
    "unpack({}, -2147483648, N)",
    "unpack({}, N, -4294967296)",
    "unpack({}, 1, N)",
    "select(N, 1, 2)",
    "tonumber('10', N)",
    "string.rep('x', N)",
    "string.rep('', N)",
    "string.rep(12, N)",
    "string.sub('abc', N)",
    "string.sub('abc', 1, N)",
    "('abc'):sub(N, N)",
    "string.byte('abc', N)",
    "string.byte('abc', N, N)",
    "string.byte('abc', 1, N)",
    "string.char(N)",
    "string.char(65, N)",
    "string.format('%c', N)",
    "string.format('%d', N)",
    "string.format('%i%%%s%5.2x', 1, 'a', N)",
    "string.format('%o', N)",
    "string.format('%u', N)",
    "string.format('%X', N)",
    "string.format('%99.99f', N)",
    "string.find('abc', 'b', N)",
    "string.find('abc', 'b', N, true)",
    "string.match('abc', 'b', N)",
    "string.gsub('abc', 'b', 'c', N)",
    "string.gsub('abc', 'b', {}, N)",
    "table.insert({}, N, 1)",
    "table.insert({1, 2, 3}, N, 1)",
    "table.remove({1, 2, 3}, N)",
    "table.concat({1, 2, 3}, '', N)",
    "table.concat({1, 2, 3}, '', 1, N)",
    "table.concat({}, '', N, N)",
    "math.ldexp(1, N)",
    "math.random(N)",
    "math.random(1, N)",
    "math.random(N, N)",
    "math.randomseed(N)",
    "redis.log(N, 'x')",
    "redis.setresp(N)",
    "bit.tohex(1, N)",
    "bit.tohex(N, 2)",
    "bit.lshift(1, N)",
    "bit.bswap(N)",
    "cmsgpack.unpack_one('\\1\\2', N)",
    "cmsgpack.unpack_limit('\\1\\2', N, N)",
    "struct.pack('i4', N)",
    "struct.unpack('b', 'abc', N)",
    "cjson.encode_max_depth(N)",
    "cjson.encode({[N] = 1})",
    "({ipairs({1})})[1]({1}, N)",
    "select('#', pcall(error, 'x', N), collectgarbage('count', N))",
];

#[test]
fn functions_that_take_an_integer_refuse_what_none_holds() {
    let mut session = session();
    for call in TAKE_INTEGERS {
        for border in BORDERS {
            let expression = call.replace('N', border);
            eval(&mut session, &format!("return {{{expression}}}"), &[], &[]);
            assert_eq!(eval(&mut session, "return ('ok'):format()", &[], &[]), "$2 ok", "{expression}");
        }
    }
    // Numbers that a C function would truncate to 32 bits.
    for call in TAKE_INTEGERS
        .iter()
        .filter(|call| !["bit.", "cmsgpack.", "struct.", "cjson."].iter().any(|name| call.starts_with(name)))
    {
        if ["%d", "%i", "%o", "%u", "%X", "%99", "randomseed", "setresp", "redis.log", "ipairs", "pcall"]
            .iter()
            .any(|part| call.contains(part))
        {
            continue;
        }
        for border in ["0/0", "1/0", "-1/0", "2^31", "-2^31 - 1", "2^31 * 3", "2^53", "'2147483648'", "'nan'"] {
            let expression = call.replace('N', border);
            let reply = eval(&mut session, &format!("return {{{expression}}}"), &[], &[]);
            assert!(reply.contains("(not an integer of 32 bits)"), "{expression}: {reply}");
        }
    }
    for (script, expected) in [
        // What Redis answers.
        ("string.sub('abc', 1.9)", "$3 abc"),
        ("string.sub('abc', -0.5)", "$3 abc"),
        ("string.sub('abc', '2', '2')", "$1 b"),
        ("string.sub('abc', -2147483648, 2147483647)", "$3 abc"),
        ("string.byte('abc', -1)", ":99"),
        ("string.rep(12, '2')", "$4 1212"),
        ("string.rep('x', 2.9)", "$2 xx"),
        ("string.rep('x', -2147483648)", "$0"),
        ("string.char(65.9, '66')", "$2 AB"),
        ("string.format('%d %d', 2^53, -2^63)", "$37 9007199254740992 -9223372036854775808"),
        ("string.format('%x %u', 2^63, 2^31)", "$27 8000000000000000 2147483648"),
        ("string.format('%.0f %g', 2^63, 1/0)", "$23 9223372036854775808 inf"),
        ("string.format('%%%d', 1700000000000)", "$14 %1700000000000"),
        ("select(-1, 1, 2)", ":2"),
        ("select('#', 1, 2)", ":2"),
        ("tonumber('ff', 16)", ":255"),
        ("unpack({1, 2}, 2, 2.5)", ":2"),
        ("#{unpack({}, 2147483647, 2147483647)}", ":0"),
        ("table.concat({1, 2, 3}, '-', '2')", "$3 2-3"),
        ("table.remove({1, 2, 3}, 1.5)", ":1"),
        ("math.ldexp(1, 10.5)", ":1024"),
        ("string.gsub('aaa', 'a', 'b', 2.5)", "$3 bba"),
    ] {
        let reply = eval(&mut session, &format!("return ({script})"), &[], &[]);
        assert_eq!(reply.trim(), expected, "{script}");
    }
    for (script, expected) in [
        ("string.format('%d', 0/0)", "bad argument #2 to 'format' (not an integer of 64 bits)"),
        ("string.format('%s %d', 'a', 2^63)", "bad argument #3 to 'format' (not an integer of 64 bits)"),
        ("string.format('%%%5.2x', 2^64)", "bad argument #2 to 'format' (not an integer of 64 bits)"),
        ("string.format('%c', 2^31)", "bad argument #2 to 'format' (not an integer of 32 bits)"),
        ("string.format('%d')", "bad argument #2 to 'format' (no value)"),
        ("string.sub('abc', {})", "bad argument #2 to 'sub' (number expected, got table)"),
        ("string.byte()", "bad argument #1 to 'byte' (string expected, got no value)"),
        ("redis.log(0/0, 'x')", "Invalid debug level."),
        ("struct.unpack('b', 'abc', 0/0)", "bad argument #3 to 'unpack' (offset must be 1 or greater)"),
        ("cjson.encode_max_depth(0/0)", "expected integer between 1 and 2147483647"),
        ("unpack({}, 1, 8001)", "too many results to unpack"),
    ] {
        let reply = eval(&mut session, &format!("local x = {script}"), &[], &[]);
        assert!(reply.contains(expected), "{script}: {reply}");
    }
}

/// Every table that a script can reach, by any path, rejects changes that would reach the next script (CVE-2022-24735,
/// CVE-2025-46818).
#[test]
fn a_script_leaves_no_mark_for_the_next() {
    let walk = "local seen, marks = {}, {} local function visit(t, name) \
         if type(t) ~= 'table' or seen[t] or t == KEYS or t == ARGV then return end \
         seen[t] = true marks[#marks + 1] = name \
         local _, mark2 = pcall(function() return t.mark2 == 1 end) \
         if rawget(t, 'mark') or mark2 == true then error('marked: ' .. name) end MARK(t) \
         for key, value in pairs(t) do visit(value, name .. '.' .. tostring(key)) end \
         for key, value in next, t do visit(value, name .. '.' .. tostring(key)) end \
         visit(getmetatable(t), name .. ' meta') end \
         visit(_G, '_G') local thread = coroutine.create(function() end) \
         for _, value in ipairs({'', 0, true, function() end, cjson.null, thread}) do \
         visit(getmetatable(value), type(value) .. ' meta') end visit(getmetatable(nil), 'nil meta') return #marks";
    let mark = "pcall(rawset, t, 'mark', 1) pcall(function() t.mark = 1 end) pcall(function() t.mark2 = 1 end) \
         pcall(setmetatable, t, {__index = {mark2 = 1}}) pcall(table.insert, t, 1) pcall(table.insert, t, 1, 1) \
         pcall(function() getmetatable(t).__index = {mark2 = 1} end) pcall(rawset, getmetatable(t), 'mark', 1) \
         pcall(rawset, getmetatable(t), '__index', {mark2 = 1}) pcall(table.sort, t) pcall(table.remove, t) \
         pcall(table.setn, t, 5) pcall(next, t) if rawget(t, 1) ~= nil then error('changed: ' .. name) end";
    let mut session = session();
    let count = eval(&mut session, &walk.replace("MARK(t)", mark), &[], &[]);
    assert!(number(&count) > 8, "{count}");
    assert_eq!(eval(&mut session, &walk.replace("MARK(t)", ""), &[], &[]), count);
    assert!(eval(&mut session, "rawset(getmetatable(redis), 'x', 1)", &[], &[]).contains("readonly table"));
    assert_eq!(eval(&mut session, "return tostring(rawget(getmetatable(redis), 'x'))", &[], &[]), "$3 nil");
}

#[test]
fn hostile_scripts_are_stopped_and_leave_nothing_behind() {
    let mut session = session();
    for script in [
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000000) .. #t end",
        "return ('x'):rep(1e12)",
        "return string.rep('', 1e18)",
        "local function f() return f() + 1 end return f()",
        "local t = {} for i = 1, 60 do t = {t, t} end return t",
        "local t = {} t[1] = t return t",
        "return loadstring('\\27Lua')",
        "error({})",
        "error()",
        "error(function() end)",
        "return {err = {}}",
        "collectgarbage('stop') return 1",
        "table.insert({}, -1e9, 1)",
        "getmetatable('').__index = nil",
        "string.format = nil",
        "return cjson.decode(('['):rep(100000))",
        "local t = {} for i = 1, 1100 do t = {t} end return cjson.encode(t)",
        "return coroutine.wrap(function() error('x') end)()",
        "return unpack({}, 1, 1e8)",
        "return unpack({}, -2147483648, 2147483647)",
        "local t = {} for i = 1, 7900 do t[i] = 'k' .. i end return redis.call('del', unpack(t))",
        "local t = {} for i = 1, 20000 do t[i] = {i} end return t",
        "local t = {} for i = 1, 20000 do t['k' .. i] = {i} end return {map = t}",
        "local t = {} for i = 1, 20000 do t['k' .. i] = {i} end return cjson.encode(t)",
        "return cjson.decode('[' .. ('[],'):rep(20000) .. '1]')",
        "local t = {} for i = 1, 20000 do t[i] = 'x' .. i end return select('#', unpack(t))",
        "return ('a'):rep(300000):find(('a?'):rep(300000))",
        "return ('a'):rep(300000):find(('('):rep(300000))",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local function f() return pcall(f) end return f()",
        "local function f(s) return (s:gsub('.', f)) end return f('x')",
        "local function f(a, b) table.sort({1, 2, 3}, f) end return f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end return t[1]",
        "return setmetatable({}, {__index = function() error({}) end}).x",
        "return tostring(setmetatable({}, {__tostring = function() error('x') end}))",
        "error(setmetatable({}, {__tostring = function() error('x') end}))",
        "redis.call(setmetatable({}, {}))",
        "redis.call('set', 'k', function() end)",
        "redis.call()",
        "return loadstring(('('):rep(100000))",
        "return loadstring('return ' .. ('{'):rep(100000))",
        "return loadstring('x = 1', ('n'):rep(100000))",
        "return load(function() error('x') end)",
        "coroutine.yield(1)",
        "return coroutine.wrap(function() coroutine.yield(redis.call('get', 'k')) end)()",
        "redis.setresp(3) return redis.call('command', 'docs')",
        "return string.format('%99.99f', 1e308)",
        "return string.format('%s', ('x'):rep(1000000)):byte(1, -1)",
        "string.char(256)",
        "return math.random(0)",
        "for k, v in pairs(_G) do if type(v) == 'table' then for n in pairs(v) do v[n] = nil end end end",
        "rawset(_G, 'x', 1)",
        "setmetatable(_G, nil)",
        "_G.KEYS = nil",
        "debug.getregistry()",
        "return redis.sha1hex()",
        "return redis.log(9, 'x')",
        "return bit.band()",
        "return cjson.encode({[1] = 1, [1e15] = 2})",
        "return cjson.encode(setmetatable({}, {__index = error}))",
        "return cjson.encode(redis.call)",
    ] {
        eval(&mut session, script, &[], &[]);
        assert_eq!(eval(&mut session, "return ('ok'):format()", &[], &[]), "$2 ok", "{script}");
    }
}

#[test]
fn a_script_that_has_not_written_can_be_killed() {
    let session = session();
    let server = session.server();
    let mut other = another(&server);
    call(&mut other, &["CONFIG", "SET", "busy-reply-threshold", "1"]);
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "return (' '):rep(100000):match('.-.-.-.-b')",
        "return ('a'):rep(60):find(('a?'):rep(60) .. ('a'):rep(60))",
        "xpcall(function() while true do end end, function() while true do end end)",
        "while true do ('x'):rep(10000000) end",
        "while true do redis.call('get', 'absent') end",
        "while true do redis.pcall('nosuch') end",
        "local t = {} for i = 1, 30000 do t[i] = i % 7 end while true do table.sort(t) end",
        "local t = {} for i = 1, 100 do t = {t, t} end while true do pcall(cjson.encode, t) end",
        "local function f() pcall(f) while true do end end f()",
        "while true do loadstring('while true do end')() end",
        "return ('x'):gsub('x', function() while true do end end)",
        "setmetatable({}, {__index = function() while true do end end}).x = nil local y = \
         setmetatable({}, {__index = function() while true do end end}).x",
        // One call, or one instruction, that takes long.
        "local s = ('x'):rep(10000000) while true do s:upper() end",
        "local s = ('x'):rep(10000000) while true do s:sub(2) end",
        "local s = ('x'):rep(10000000) while true do string.format('%s', s) end",
        "local s = ('x'):rep(10000000) while true do local is_less = s < s end",
        "local s = ('x'):rep(10000000) while true do local t = s .. 'y' end",
        "local s, t = ('x'):rep(1000000), {} for i = 1, 9000 do t[i] = s end table.sort(t) while true do end",
        "local t = {} for i = 1, 1000000 do t[i] = 1 end while true do table.insert(t, 1, 1) table.remove(t, 1) end",
        "local t = {} for i = 1, 1000000 do t[i] = 1 end while true do table.foreachi(t, type) end",
        "local t = {} for i = 1, 1000000 do t[i] = 'x' end while true do table.concat(t) end",
        "local s = ('x'):rep(10000000) while true do cjson.decode('\"' .. s .. '\"') end",
        "local s = ('x'):rep(10000000) while true do cmsgpack.unpack(cmsgpack.pack(s)) end",
        "local s = ('x'):rep(10000000) while true do redis.sha1hex(s) end",
        "while true do pcall(table.insert, {}, 2^31, 1) end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    ] {
        assert!(call(&mut other, &["SCRIPT", "KILL"]).starts_with("-NOTBUSY"));
        std::thread::scope(|scope| {
            let mut runner = another(&server);
            let running = scope.spawn(move || eval(&mut runner, script, &[], &[]));
            while !call(&mut other, &["GET", "k"]).starts_with("-BUSY") {
                assert!(!running.is_finished());
            }
            assert_eq!(call(&mut other, &["SCRIPT", "KILL"]), "+OK");
            assert!(running.join().unwrap().contains("Script killed by user"));
        });
        assert_eq!(call(&mut other, &["GET", "k"]), "$-1");
    }
}

#[test]
fn scripts_are_known_by_their_sha1_until_they_are_flushed() {
    let mut session = session();
    let name = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; // of "return 1"
    assert!(call(&mut session, &["EVALSHA", name, "0"]).starts_with("-NOSCRIPT"));
    assert_eq!(call(&mut session, &["SCRIPT", "LOAD", "return 1"]), format!("$40 {name}"));
    assert_eq!(call(&mut session, &["EVALSHA", &name.to_uppercase(), "0"]), ":1");
    assert_eq!(call(&mut session, &["SCRIPT", "EXISTS", name, "x"]), "*2 :1 :0");
    assert_eq!(call(&mut session, &["SCRIPT", "FLUSH"]), "+OK");
    assert!(call(&mut session, &["EVALSHA", name, "0"]).starts_with("-NOSCRIPT"));
    assert_eq!(eval(&mut session, "return 1", &[], &[]), ":1");
    assert_eq!(call(&mut session, &["EVALSHA_RO", name, "0"]), ":1");
    for script in ["redis.call('set', 'a', 'b')", "redis.call('incr', 'a')"] {
        let reply = call(&mut session, &["EVAL_RO", script, "0"]);
        assert!(reply.starts_with("-ERR Write commands are not allowed from read-only scripts."), "{reply}");
    }
    assert_eq!(call(&mut session, &["EVAL", "return 1", "-1"]), "-ERR Number of keys can't be negative");
    assert_eq!(
        call(&mut session, &["EVAL", "return 1", "5"]),
        "-ERR Number of keys can't be greater than number of args"
    );
    assert_eq!(call(&mut session, &["FCALL", "f", "0"]), "-ERR Function not found");
    assert!(call(&mut session, &["FUNCTION", "LOAD", "#!lua name=f"]).contains("EVAL"));
}

#[test]
fn scripts_that_are_loaded_leave_the_others_their_memory() {
    let mut session = session();
    // A script may take 256 MiB; each of these takes 8 MB when it is compiled.
    let list = "1,".repeat(1_000_000);
    for number in 0..40 {
        let reply = call(&mut session, &["SCRIPT", "LOAD", &format!("return {{{list}{number}}}")]);
        assert!(!reply.contains("not enough memory"), "{number}: {reply}");
    }
    assert_eq!(eval(&mut session, &format!("return #{{{list}}}"), &[], &[]), ":1000000");
}

#[test]
fn other_clients_see_all_changes_of_a_script_or_none() {
    let session = session();
    let server = session.server();
    std::thread::scope(|scope| {
        let mut writer = another(&server);
        let writing = scope.spawn(move || {
            for number in 1..=2000 {
                let script = "redis.call('incr', KEYS[1]) return redis.call('incr', KEYS[2])";
                assert_eq!(eval(&mut writer, script, &["a", "b"], &[]), format!(":{number}"));
            }
        });
        let mut reader = another(&server);
        while !writing.is_finished() {
            let values = call(&mut reader, &["MGET", "a", "b"]);
            let words: Vec<&str> = values.split(' ').collect();
            assert_eq!(words[1..words.len() / 2 + 1], words[words.len() / 2 + 1..], "{values}");
        }
    });
}

#[test]
fn the_words_of_a_command_are_together_no_longer_than_a_request() {
    let settings = Settings::default();
    settings.request_bytes.store(1_000_000, Relaxed);
    let space = Arc::new(KeySpace::open(SpaceOptions::default()).unwrap());
    let mut session = another(&Arc::new(Server::new(space, settings, false)));
    for function in ["call", "acl_check_cmd"] {
        let script =
            format!("local s = ('x'):rep(400000) return tostring(redis.{function}(unpack({{'del', s, s, s}})))");
        let refused = eval(&mut session, &script, &[], &[]);
        assert!(refused.starts_with("-ERR the command is longer than a request may be"), "{function}: {refused}");
    }
    assert_eq!(eval(&mut session, "local s = ('x'):rep(400000) return redis.call('del', s, s)", &[], &[]), ":0");
}

#[test]
fn scripts_that_are_known_are_counted() {
    let mut session = session();
    let count = |session: &mut RespSession| {
        let info = call(session, &["INFO", "memory"]);
        info.split("number_of_cached_scripts:").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    };
    assert_eq!(count(&mut session), "0");
    call(&mut session, &["SCRIPT", "LOAD", "return 1"]);
    eval(&mut session, "return cjson.encode_keep_buffer(false)", &[], &[]);
    assert_eq!(count(&mut session), "2");
    assert_eq!(eval(&mut session, "return cjson.encode_keep_buffer()", &[], &[]), ":1");
}

#[test]
fn long_scripts_that_were_evaluated_are_forgotten_before_they_take_much_memory() {
    let mut session = session();
    let script = |number: usize| format!("return {number} --{}", "x".repeat(5 << 20));
    let bytes = |session: &mut RespSession| {
        let info = call(session, &["INFO", "memory"]);
        info.split("used_memory_scripts:").nth(1).unwrap().split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    for number in 0..10 {
        assert_eq!(eval(&mut session, &script(number), &[], &[]), format!(":{number}"));
        assert!(bytes(&mut session) <= 16 << 20);
    }
    assert!(bytes(&mut session) > 10 << 20, "the last ones are kept");
    // One that is longer than that is kept alone, and what is loaded stays.
    call(&mut session, &["SCRIPT", "LOAD", &script(0)]);
    let longest = "return 7 --".to_owned() + &"x".repeat(20 << 20);
    assert_eq!(eval(&mut session, &longest, &[], &[]), ":7");
    assert!((25 << 20..26 << 20).contains(&bytes(&mut session)));
    call(&mut session, &["SCRIPT", "LOAD", &longest]);
    assert!((25 << 20..26 << 20).contains(&bytes(&mut session)));
    call(&mut session, &["SCRIPT", "FLUSH"]);
    assert_eq!(bytes(&mut session), 0);
}

#[test]
fn the_time_after_which_a_script_is_busy_may_be_without_limit() {
    let mut session = session();
    for name in ["busy-reply-threshold", "lua-time-limit"] {
        assert_eq!(call(&mut session, &["CONFIG", "SET", name, "0"]), "+OK");
        assert!(call(&mut session, &["CONFIG", "GET", name]).ends_with(" $1 0"));
    }
}

#[test]
fn a_transaction_that_meets_a_long_script_ends_whole() {
    let session = session();
    let server = session.server();
    let (mut other, mut queued) = (another(&server), another(&server));
    call(&mut other, &["CONFIG", "SET", "busy-reply-threshold", "1"]);
    assert_eq!(call(&mut other, &["MULTI"]), "+OK");
    assert_eq!(call(&mut queued, &["MULTI"]), "+OK");
    assert_eq!(call(&mut queued, &["INCR", "n"]), "+QUEUED");
    std::thread::scope(|scope| {
        let mut runner = another(&server);
        let running = scope.spawn(move || eval(&mut runner, "while true do end", &[], &[]));
        while !call(&mut other, &["INCR", "n"]).starts_with("-BUSY") {
            assert!(!running.is_finished());
        }
        // EXEC fails and ends the transaction, as after a command that failed to queue.
        assert!(call(&mut queued, &["EXEC"]).starts_with("-EXECABORT Transaction discarded because of: BUSY"));
        assert_eq!(call(&mut another(&server), &["SCRIPT", "KILL"]), "+OK");
        running.join().unwrap();
    });
    assert!(call(&mut other, &["EXEC"]).starts_with("-EXECABORT"));
    assert_eq!(call(&mut queued, &["EXISTS", "n"]), ":0");
}

#[test]
fn memcached_clients_wait_for_a_long_script_without_a_thread() {
    let session = session();
    let server = session.server();
    let mut other = another(&server);
    call(&mut other, &["CONFIG", "SET", "busy-reply-threshold", "1"]);
    std::thread::scope(|scope| {
        let mut runner = another(&server);
        let running = scope.spawn(move || eval(&mut runner, "while true do end", &[], &[]));
        while !call(&mut other, &["GET", "k"]).starts_with("-BUSY") {
            assert!(!running.is_finished());
        }
        let client = server.clients.add("test".into(), "test".into(), 0, 100).unwrap();
        let mut memcached = MemcachedSession::new(server.clone(), client, server.add_figures());
        for request in ["get k\r\n", "set k 0 0 1\r\n1\r\n", "incr k 1\r\n"] {
            let (used, flow) = memcached.execute(request.as_bytes(), &mut Vec::new(), Patience::MayWait);
            assert!(used == 0 && matches!(flow, Flow::Sleep(_)), "{request}: {used}, {flow:?}");
        }
        assert_eq!(call(&mut other, &["SCRIPT", "KILL"]), "+OK");
        running.join().unwrap();
    });
}

#[test]
fn a_script_that_has_written_cannot_be_killed_and_its_changes_are_whole() {
    let session = session();
    let server = session.server();
    let mut other = another(&server);
    call(&mut other, &["CONFIG", "SET", "busy-reply-threshold", "1"]);
    let script = "redis.call('set', 'a', 1) local begun = redis.call('time')[1] \
                  repeat until redis.call('time')[1] ~= begun redis.call('set', 'b', 1) return 7";
    // On a busy machine a script may be killed before it has written.
    let mut is_killed = true;
    while is_killed {
        is_killed = false;
        std::thread::scope(|scope| {
            let mut runner = another(&server);
            let running = scope.spawn(move || eval(&mut runner, script, &[], &[]));
            while !running.is_finished() {
                match call(&mut other, &["SCRIPT", "KILL"]) {
                    reply if reply == "+OK" => is_killed = true,
                    reply => assert!(reply.starts_with("-UNKILLABLE") || reply.starts_with("-NOTBUSY"), "{reply}"),
                }
            }
            assert_eq!(running.join().unwrap() == ":7", !is_killed);
        });
        assert_eq!(call(&mut other, &["EXISTS", "a"]) == ":0", is_killed, "only what has not written is killed");
    }
    assert_eq!(call(&mut other, &["MGET", "a", "b"]), "*2 $1 1 $1 1");
}

#[test]
fn a_flush_within_a_transaction_is_part_of_it() {
    for in_file in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let file = in_file.then(|| folder.path().join("t.spt"));
        let space = Arc::new(KeySpace::open(SpaceOptions { file, ..SpaceOptions::default() }).unwrap());
        let mut session = another(&Arc::new(Server::new(space, Settings::default(), false)));
        call(&mut session, &["MSET", "a", "1", "b", "2", "\0sp\u{fffd}", "3"]);
        call(&mut session, &["SET", "timed", "1", "EX", "1000"]);
        for command in [&["MULTI"][..], &["SET", "c", "1"], &["FLUSHALL"], &["EXISTS", "a", "b", "c", "timed"]] {
            call(&mut session, command);
        }
        for command in [&["DBSIZE"][..], &["SET", "d", "1", "EX", "1000"], &["KEYS", "*"], &["DBSIZE"]] {
            call(&mut session, command);
        }
        assert_eq!(call(&mut session, &["EXEC"]), "*7 +OK +OK :0 :0 +OK *1 $1 d :1", "{in_file}");
        assert_eq!(call(&mut session, &["KEYS", "*"]), "*1 $1 d");
        let script = "redis.call('set', 'e', 1) redis.call('flushdb') return redis.call('dbsize')";
        assert_eq!(eval(&mut session, script, &[], &[]), ":0");
        assert_eq!(call(&mut session, &["DBSIZE"]), ":0");
    }
}

#[test]
fn a_flush_of_all_databases_that_is_refused_in_a_transaction_removes_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions { file: Some(folder.path().join("t.spt")), ..SpaceOptions::default() };
    let space = Arc::new(KeySpace::open(options).unwrap());
    let mut session = another(&Arc::new(Server::new(space, Settings::default(), false)));
    call(&mut session, &["SET", "first", "1"]);
    call(&mut session, &["SELECT", "1"]);
    let keys: Vec<String> = (0..100_001).map(|number| number.to_string()).collect();
    for keys in keys.chunks(1000) {
        let pairs: Vec<&str> = ["MSET"].into_iter().chain(keys.iter().flat_map(|key| [key.as_str(), "v"])).collect();
        assert_eq!(call(&mut session, &pairs), "+OK");
    }
    call(&mut session, &["SELECT", "0"]);
    call(&mut session, &["MULTI"]);
    call(&mut session, &["FLUSHALL"]);
    assert!(call(&mut session, &["EXEC"]).starts_with("*1 -ERR more than 100000 keys cannot be flushed"));
    assert_eq!(call(&mut session, &["GET", "first"]), "$1 1");
    let refused = eval(&mut session, "return redis.pcall('flushall')", &[], &[]);
    assert!(refused.starts_with("-ERR more than 100000 keys cannot be flushed"), "{refused}");
    assert_eq!(call(&mut session, &["GET", "first"]), "$1 1");
    assert_eq!(call(&mut session, &["FLUSHALL"]), "+OK");
    assert_eq!(call(&mut session, &["EXISTS", "first"]), ":0");
}

#[test]
fn scripts_in_a_transaction_are_part_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions { file: Some(folder.path().join("t.spt")), ..SpaceOptions::default() };
    let space = Arc::new(KeySpace::open(options).unwrap());
    let mut session = another(&Arc::new(Server::new(space, Settings::default(), false)));
    call(&mut session, &["MULTI"]);
    call(&mut session, &["SET", "a", "1"]);
    call(&mut session, &["EVAL", "redis.call('incr', KEYS[1]) return redis.call('get', KEYS[1])", "1", "a"]);
    call(&mut session, &["INCR", "a"]);
    assert_eq!(call(&mut session, &["EXEC"]), "*3 +OK $1 2 :3");
    // What a script changed before it failed stays, as in Redis.
    assert!(eval(&mut session, "redis.call('set', 'b', 1) error('x')", &[], &[]).starts_with("-ERR"));
    assert_eq!(call(&mut session, &["MGET", "a", "b"]), "*2 $1 3 $1 1");
}

#[test]
fn a_script_never_waits_for_an_element() {
    let mut session = session();
    for script in
        ["return redis.call('BLPOP', KEYS[1], 0)", "return redis.call('BLMOVE', KEYS[1], 'b', 'LEFT', 'LEFT', 0)"]
    {
        let reply = eval(&mut session, script, &["list"], &[]);
        assert!(reply.starts_with("-ERR This Redis command is not allowed from script"), "{reply}");
    }
    assert_eq!(eval(&mut session, "return redis.call('RPUSH', KEYS[1], 'a', 'b')", &["list"], &[]), ":2");
    assert_eq!(call(&mut session, &["BLPOP", "list", "0"]), "*2 $4 list $1 a");
}

#[test]
fn what_a_script_sets_for_cjson_holds_until_it_ends() {
    let mut session = session();
    let nested = "return cjson.encode({{1}})";
    let shallow = format!("cjson.encode_max_depth(1) {nested}");
    assert!(eval(&mut session, &shallow, &[], &[]).starts_with("-ERR"));
    assert_eq!(eval(&mut session, nested, &[], &[]), "$5 [[1]]");
    let sparse = "cjson.encode_sparse_array(true) return cjson.encode({[100]=1/0})";
    assert!(eval(&mut session, sparse, &[], &[]).contains("must not be NaN or Inf"));
    let null = format!("cjson.encode_invalid_numbers('null') {sparse}");
    assert_eq!(eval(&mut session, &null, &[], &[]), r#"$12 {"100":null}"#);
    let precise = "cjson.encode_number_precision(3) return cjson.encode(1/3)";
    assert_eq!(eval(&mut session, precise, &[], &[]), "$5 0.333");
    let strict = "cjson.decode_invalid_numbers(false) return pcall(cjson.decode, '0x10') and 1 or 0";
    assert_eq!(eval(&mut session, strict, &[], &[]), ":0");
    assert_eq!(eval(&mut session, "return cjson.decode('0x10')", &[], &[]), ":16");
}

#[test]
fn a_script_learns_what_its_user_may_call_and_no_denial_is_recorded() {
    let mut session = session();
    let rules = ["~app:*", "%R~ro:*", "resetchannels", "&ch:*", "+@all", "-flushall", "-config", "+config|get"];
    assert_eq!(call(&mut session, &[&["ACL", "SETUSER", "bob", "on", "nopass"], &rules[..]].concat()), "+OK");
    assert_eq!(call(&mut session, &["AUTH", "bob", "x"]), "+OK");
    let ask = "return tostring(redis.acl_check_cmd(unpack(ARGV)))";
    for (words, expected) in [
        ("get app:x", "true"),
        ("GET other", "false"),
        ("get ro:x", "true"),
        ("set ro:x 1", "false"),
        ("flushall", "false"),
        ("config get x", "true"),
        ("config set x y", "false"),
        ("config", "false"),
        ("publish ch:1 m", "true"),
        ("publish zz m", "false"),
        ("zunionstore app:1 2 app:2 other", "false"),
        ("zunionstore app:1 2 app:2 app:3", "true"),
        ("object encoding other", "false"),
        ("sort app:1 by w_*", "true"),
        // Too few arguments.
        ("get", "true"),
        ("zunionstore", "true"),
        ("zunionstore app:1 5 app:2", "true"),
        ("mset app:1 v x", "false"),
        ("xread streams", "true"),
        ("migrate", "true"),
        ("lmpop", "true"),
        ("eval", "true"),
        ("sort app:1 limit", "true"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(eval(&mut session, ask, &[], &words), format!("${} {expected}", expected.len()), "{words:?}");
    }
    for words in [["nosuch", "x"], ["config", "nosuch"], ["", ""], ["config|get", "x"]] {
        let refused = eval(&mut session, ask, &[], &words);
        assert!(refused.starts_with("-ERR Invalid command passed to redis.acl_check_cmd() script: "), "{refused}");
    }
    let caught = eval(&mut session, "return {pcall(redis.acl_check_cmd, 'nosuch')}", &[], &[]);
    assert!(caught.contains("ERR Invalid command passed to redis.acl_check_cmd()"), "{caught}");
    let refused = eval(&mut session, "return redis.acl_check_cmd('get', {})", &[], &[]);
    assert!(refused.starts_with("-ERR Lua redis lib command arguments must be strings or integers"), "{refused}");
    let refused = eval(&mut session, "return redis.acl_check_cmd()", &[], &[]);
    assert!(refused.starts_with("-ERR Please specify at least one argument for this redis lib call"), "{refused}");
    assert_eq!(call(&mut session, &["AUTH", "default", ""]), "+OK");
    assert_eq!(call(&mut session, &["ACL", "LOG"]), "*0");
    assert_eq!(eval(&mut session, ask, &[], &["get", "other"]), "$4 true");
}

#[test]
fn the_memory_limit_counts_the_scripts() {
    let options = SpaceOptions { max_memory_bytes: 8 << 20, ..SpaceOptions::default() };
    let space = Arc::new(KeySpace::open(options).unwrap());
    let mut session = another(&Arc::new(Server::new(space, Settings::default(), false)));
    let used = |session: &mut RespSession| {
        let info = call(session, &["INFO", "memory"]);
        number(info.split("used_memory:").nth(1).unwrap().split(' ').next().unwrap())
    };
    for (name, words) in [("LOAD", ["SCRIPT", "LOAD", ""]), ("EVAL", ["EVAL", "", "0"])] {
        let before = used(&mut session);
        for number in 0..5 {
            assert_eq!(call(&mut session, &["SET", "key", "value"]), "+OK", "{name} {number}");
            let body = format!("return {number} --{}", "x".repeat(2_000_000));
            let reply = call(&mut session, &words.map(|word| if word.is_empty() { &body } else { word }));
            assert!(!reply.starts_with('-'), "{reply}");
        }
        assert!((9_000_000..12_000_000).contains(&(used(&mut session) - before)), "{name}");
        let refused = call(&mut session, &["SET", "key", "value"]);
        assert!(refused.starts_with("-OOM "), "{name}: {refused}");
        assert_eq!(call(&mut session, &["SCRIPT", "FLUSH"]), "+OK");
        assert_eq!(call(&mut session, &["SET", "key", "value"]), "+OK", "{name}");
        assert!(used(&mut session) < before + 1_000_000, "{name}");
    }
}

/// A session over a file in a new folder, with a memory limit.
fn limited(folder: &Path, max_memory_bytes: u64, eviction: Eviction) -> RespSession {
    std::fs::create_dir_all(folder).unwrap();
    let options =
        SpaceOptions { file: Some(folder.join("t.spt")), max_memory_bytes, eviction, ..SpaceOptions::default() };
    let space = Arc::new(KeySpace::open(options).unwrap());
    another(&Arc::new(Server::new(space, Settings::default(), false)))
}

fn info(session: &mut RespSession, name: &str) -> u64 {
    let info = call(session, &["INFO"]);
    number(info.split(name).nth(1).unwrap().split(' ').next().unwrap())
}

#[test]
fn a_script_over_a_file_evicts_keys_before_and_after_it_runs() {
    const LIMIT: u64 = 8 << 20;
    let folder = tempfile::tempdir().unwrap();
    let mut session = limited(folder.path(), LIMIT, Eviction::AllKeysLru);
    let value = "v".repeat(1000);
    // Stores ARGV[1] values and returns how many keys that adds.
    let fill = "local before = redis.call('dbsize') \
                for number = 1, ARGV[1] do redis.call('set', ARGV[2] .. number, ARGV[3]) end \
                return redis.call('dbsize') - before";
    assert_eq!(eval(&mut session, fill, &[], &["6000", "first", &value]), ":6000");
    // A value that exceeds the limit.
    let long = "redis.call('set', 'long', ('v'):rep(4000000)) return redis.call('dbsize')";
    assert_eq!(eval(&mut session, long, &[], &[]), ":6001");
    call(&mut session, &["DEL", "long"]);
    for number in 0..10 {
        let before = info(&mut session, "evicted_keys:");
        assert_eq!(eval(&mut session, fill, &[], &["3000", &format!("{number}-"), &value]), ":3000");
        let (evicted, used) = (info(&mut session, "evicted_keys:") - before, info(&mut session, "used_memory:"));
        assert!(evicted < 4000 && used < LIMIT + LIMIT / 8, "{number}: {evicted} evicted, {used} bytes");
    }
    // Room for the arguments.
    let before = info(&mut session, "evicted_keys:");
    assert_eq!(eval(&mut session, "return redis.call('set', 'long', ARGV[1])", &[], &[&"v".repeat(2_000_000)]), "+OK");
    assert!(info(&mut session, "evicted_keys:") > before + 1000);
    // In a transaction.
    call(&mut session, &["MULTI"]);
    call(&mut session, &["EVAL", fill, "0", "3000", "exec", &value]);
    call(&mut session, &["EVAL", fill, "0", "20", "last", &value]);
    assert_eq!(call(&mut session, &["EXEC"]), "*2 :3000 :20");
    assert!(info(&mut session, "used_memory:") < LIMIT + LIMIT / 8);
}

#[test]
fn a_script_over_a_file_that_is_full_reads_and_may_not_write() {
    let folder = tempfile::tempdir().unwrap();
    for eviction in [Eviction::None, Eviction::VolatileLru] {
        let mut session = limited(&folder.path().join(format!("{eviction:?}")), 64 << 20, eviction);
        for number in 0..2000 {
            call(&mut session, &["SET", &number.to_string(), &"v".repeat(1000)]);
        }
        let script = "redis.call('del', KEYS[1]) return {redis.call('dbsize'), redis.pcall('set', 'new', 1)}";
        let mut queued = another(&session.server());
        call(&mut queued, &["MULTI"]);
        call(&mut queued, &["EVAL", script, "1", "absent"]);
        assert_eq!(call(&mut session, &["CONFIG", "SET", "maxmemory", "1000000"]), "+OK");
        let refused = "-OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(call(&mut queued, &["EXEC"]), format!("*1 *2 :2000 {refused}"), "{eviction:?}");
        assert_eq!(eval(&mut session, script, &["0"], &[]), format!("*2 :1999 {refused}"), "{eviction:?}");
        call(&mut session, &["FLUSHALL"]);
        assert_eq!(eval(&mut session, "return redis.call('set', 'new', 1)", &[], &[]), "+OK");
    }
}

#[test]
fn a_set_that_a_script_sorts_by_nothing_is_in_alphabetic_order() {
    let mut session = session();
    let members: Vec<String> = (0..60).map(|number| format!("m{:02}", number * 37 % 101)).collect();
    let words: Vec<&str> = ["SADD", "s"].into_iter().chain(members.iter().map(String::as_str)).collect();
    assert_eq!(call(&mut session, &words), ":60");
    let mut expected: Vec<&str> = members.iter().map(String::as_str).collect();
    expected.sort_unstable();
    let join = "return table.concat(redis.call(ARGV[1], 's', 'by', 'nosort', unpack(ARGV, 2)), ' ')";
    let reply = |words: &[&str]| format!("${} {}", words.join(" ").len(), words.join(" "));
    for command in ["SORT", "SORT_RO"] {
        assert_eq!(eval(&mut session, join, &[], &[command]), reply(&expected));
        let limited = eval(&mut session, join, &[], &[command, "limit", "2", "3"]);
        assert_eq!(limited, reply(&expected[2..5]));
        let mut reversed = expected.clone();
        reversed.reverse();
        assert_eq!(eval(&mut session, join, &[], &[command, "desc"]), reply(&reversed));
    }
    // Lists and sorted sets have an order of their own.
    call(&mut session, &["RPUSH", "l", "3", "1", "22"]);
    call(&mut session, &["ZADD", "z", "1", "c", "2", "a"]);
    for (key, order, expected) in
        [("l", "asc", "3 1 22"), ("l", "desc", "22 1 3"), ("z", "asc", "c a"), ("z", "desc", "a c")]
    {
        let script = "return table.concat(redis.call('sort', KEYS[1], 'by', 'nosort', ARGV[1]), ' ')";
        assert_eq!(eval(&mut session, script, &[key], &[order]), format!("${} {expected}", expected.len()));
    }
    assert_eq!(call(&mut session, &["SORT", "l", "BY", "x", "DESC", "LIMIT", "1", "1"]), "*1 $1 1");
}
