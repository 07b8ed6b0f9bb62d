-- The sandbox of scripts: what they see of Lua, and the functions of `redis`.
--
-- Runs once in each Lua state, before any script. Gets functions written in Rust, and returns what the engine calls.
-- Scripts see libraries only through proxies that cannot be written, so a script leaves nothing behind for the next.
-- An error of a function of Rust is a userdata value, which scripts get as a string or a table.
local native = ...
local error, type, tostring, tonumber, select, next = error, type, tostring, tonumber, select, next
local setmetatable = setmetatable
local raw_pcall, raw_xpcall, raw_resume, raw_rawset, raw_rawget = pcall, xpcall, coroutine.resume, rawset, rawget
local raw_getmetatable = getmetatable
local READONLY = 'Attempt to modify a readonly table'

-- Proxies, and the tables behind them.
local behind = setmetatable({}, { __mode = 'k' })

-- What getmetatable returns instead of the metatables here.
local no_metatable = {}
behind[no_metatable] = {}
setmetatable(no_metatable, { __newindex = function() error(READONLY, 2) end, __metatable = false })

local function protect(original)
    local proxy = {}
    behind[proxy] = original
    return setmetatable(proxy, {
        __index = original,
        __newindex = function() error(READONLY, 2) end,
        __metatable = no_metatable,
    })
end

-- As in Redis, an error that a script catches is its text. One that a killed script catches goes on.
local function caught(ok, problem, ...)
    if ok then return ok, problem, ... end
    if native.is_killed() then error('script killed', 0) end
    if type(problem) == 'table' and type(raw_rawget(problem, 'err')) == 'string' then
        problem = raw_rawget(problem, 'err')
    elseif type(problem) == 'userdata' then
        problem = native.error_of(problem)
    elseif type(problem) == 'string' then
        problem = problem:gsub('^sandbox:%d+: ', '')
    end
    return ok, problem, ...
end

-- For calls that take long: the hook would be called after many of them.
local function check_killed()
    if native.is_killed() then error('script killed', 0) end
end
local LONG = 65536
local function check_long(value)
    local kind = type(value)
    if (kind == 'string' or kind == 'table') and #value > LONG then check_killed() end
end

-- Lua's functions in C cut every number to an int, which made `unpack` write outside the stack (CVE-2025-46817). So an
-- argument that they take as an int is checked first. A fraction is cut, as in Redis. Not checked: the level of `error`
-- and what the iterator of `ipairs` gets; C only compares these.
local function whole(value, index, name)
    local number = tonumber(value)
    if number and not (number > -2147483649 and number < 2147483648) then
        error('bad argument #' .. index .. " to '" .. name .. "' (not an integer of 32 bits)", 3)
    end
    return value
end

local globals = {
    _VERSION = _VERSION, assert = assert, error = error, ipairs = ipairs, next = next, rawequal = rawequal,
    tostring = tostring, type = type, gcinfo = gcinfo,
}
function globals.select(...)
    whole((...), 1, 'select')
    return select(...)
end
function globals.tonumber(...)
    local _, base = ...
    if base ~= nil then whole(base, 2, 'tonumber') end
    return tonumber(...)
end
function globals.pcall(...) return caught(raw_pcall(...)) end
function globals.xpcall(call, handler)
    local function raised(ok, ...)
        if not ok then check_killed() end
        return ok, ...
    end
    return raised(raw_xpcall(call, function(problem)
        -- Within the error of the hook there are no more hooks, so a handler could go on for ever.
        if native.is_killed() then return problem end
        if type(problem) == 'userdata' then
            local text, is_reply = native.error_of(problem)
            problem = is_reply and { err = text } or text
        end
        return handler(problem)
    end))
end
function globals.rawget(t, key) return raw_rawget(behind[t] or t, key) end
function globals.rawset(t, key, value)
    if behind[t] then error(READONLY, 0) end
    return raw_rawset(t, key, value)
end
function globals.setmetatable(t, meta)
    if behind[t] then error(READONLY, 0) end
    return setmetatable(t, meta)
end
function globals.getmetatable(t) return raw_getmetatable(t) end
function globals.pairs(t)
    local original = behind[t]
    if not original then
        if type(t) ~= 'table' then error("bad argument #1 to 'pairs' (table expected, got " .. type(t) .. ')', 2) end
        return next, t, nil
    end
    local copy = {}
    for key, value in next, original do copy[key] = value end
    return next, copy, nil
end
-- Scripts share the collector, so they may not stop it.
function globals.collectgarbage(what)
    if what ~= nil and what ~= 'collect' and what ~= 'count' then return 0 end
    check_killed()
    return collectgarbage(what)
end

-- Only text is compiled: bytecode can do anything.
local function compile(source, name)
    if type(source) ~= 'string' then error("bad argument #1 to 'loadstring' (string expected)", 3) end
    check_long(source)
    return native.compile(source, type(name) == 'string' and name or source)
end
function globals.loadstring(source, name) return compile(source, name) end
function globals.load(pieces, name)
    local source = {}
    while true do
        local piece = pieces()
        if piece == nil or piece == '' then break end
        if type(piece) ~= 'string' then return nil, 'reader function must return a string' end
        source[#source + 1] = piece
    end
    return compile(table.concat(source), name or '=(load)')
end

-- One call of these in Lua's own libraries could take hours, or more memory than there is, or writes outside of it.
-- Lua names them in errors as they are called here.
local rep, sub, byte, char, format = string.rep, string.sub, string.byte, string.char, string.format
local upper, lower, reverse = string.upper, string.lower, string.reverse
local insert, remove, sort, concat, maxn = table.insert, table.remove, table.sort, table.concat, table.maxn
local foreach, foreachi, ldexp, unpack = table.foreach, table.foreachi, math.ldexp, unpack
function string.rep(...)
    local s, count = ...
    local kind, times = type(s), tonumber(whole(count, 2, 'rep'))
    if times and (kind == 'string' or kind == 'number') then
        local len = #(s .. '')
        if len == 0 or times < 1 then return '' end
        if len * times > native.bytes_max then error('not enough memory', 2) end
        check_killed()
    end
    return rep(...)
end
function string.sub(...)
    local s, first, last = ...
    whole(first, 2, 'sub')
    whole(last, 3, 'sub')
    check_long(s)
    return sub(...)
end
function string.byte(...)
    local _, first, last = ...
    whole(first, 2, 'byte')
    whole(last, 3, 'byte')
    return byte(...)
end
function string.char(...)
    local codes = { ... }
    for index = 1, select('#', ...) do whole(codes[index], index, 'char') end
    return char(...)
end
function string.format(...)
    local values = { ... }
    for index = 1, select('#', ...) do
        check_long(values[index])
        local number = tonumber(values[index])
        if number and not (number > -2147483649 and number < 2147483648) then
            -- Whether it is the argument of an item that takes an integer.
            native.check_format(...)
            break
        end
    end
    return format(...)
end
function string.upper(...)
    check_long((...))
    return upper(...)
end
function string.lower(...)
    check_long((...))
    return lower(...)
end
function string.reverse(...)
    check_long((...))
    return reverse(...)
end
string.find, string.match = native.find, native.match
local function as_text(value, index, name)
    local kind = type(value)
    if kind == 'string' then return value end
    if kind == 'number' then return tostring(value) end
    if value == nil then kind = 'no value' end
    error('bad argument #' .. index .. " to '" .. name .. "' (string expected, got " .. kind .. ')', 3)
end
function string.gmatch(s, pattern)
    s, pattern = as_text(s, 1, 'gmatch'), as_text(pattern, 2, 'gmatch')
    local at = 0
    local function step(first, last, ...)
        at = first and (last == first and last + 1 or last)
        return ...
    end
    return function()
        if at and at <= #s then return step(native.search(s, pattern, at, false)) end
    end
end
string.gfind = string.gmatch
function string.gsub(s, pattern, by, most)
    local kind = type(by)
    whole(most, 4, 'gsub')
    if type(s) ~= 'string' or type(pattern) ~= 'string' then
        s, pattern = as_text(s, 1, 'gsub'), as_text(pattern, 2, 'gsub')
    end
    if kind == 'string' or kind == 'number' then return native.replace(s, pattern, by, most) end
    if kind ~= 'table' and kind ~= 'function' then
        error("bad argument #3 to 'gsub' (string/function/table expected)", 2)
    end
    most = tonumber(most) or #s + 1
    local pieces, at, count = {}, 0, 0
    local function replaced(whole, ...)
        local value
        if kind == 'table' then value = by[(...)] else value = by(...) end
        if not value then return whole end
        if type(value) ~= 'string' and type(value) ~= 'number' then
            error('invalid replacement value (a ' .. type(value) .. ')', 3)
        end
        return value
    end
    local function step(first, last, ...)
        if not first then return false end
        count = count + 1
        pieces[#pieces + 1] = s:sub(at + 1, first)
        pieces[#pieces + 1] = replaced(s:sub(first + 1, last), ...)
        at = last
        if first == last then
            -- After an empty match the search goes on one byte later.
            pieces[#pieces + 1] = s:sub(at + 1, at + 1)
            at = at + 1
        end
        return at <= #s and pattern:sub(1, 1) ~= '^'
    end
    while count < most and step(native.search(s, pattern, at, true)) do end
    pieces[#pieces + 1] = s:sub(at + 1)
    return concat(pieces), count
end
function table.insert(t, ...)
    if behind[t] then error(READONLY, 2) end
    if select('#', ...) == 2 then
        local position = tonumber(whole((...), 2, 'insert'))
        if position and position < 1 then error("bad argument #2 to 'insert' (position out of bounds)", 2) end
        check_long(t)
    end
    return insert(t, ...)
end
function table.remove(t, ...)
    if behind[t] then error(READONLY, 2) end
    whole((...), 2, 'remove')
    check_long(t)
    return remove(t, ...)
end
function table.concat(...)
    local _, _, first, last = ...
    whole(first, 3, 'concat')
    whole(last, 4, 'concat')
    check_killed()
    return concat(...)
end
local function has_long_string(t)
    for index = 1, #t do
        local value = raw_rawget(t, index)
        if type(value) == 'string' and #value > 1000 then return true end
    end
    return false
end
function table.sort(t, less)
    if behind[t] then error(READONLY, 2) end
    if type(t) == 'table' and (#t > 10000 or has_long_string(t)) then
        -- Quadratic for some orders, so every comparison must be counted as an instruction.
        local given = less
        if given == nil then
            less = function(a, b) return a < b end
        elseif type(given) == 'function' then
            less = function(a, b) return (given(a, b)) end
        end
    end
    check_killed()
    return sort(t, less)
end
function table.maxn(...)
    check_killed()
    return maxn(...)
end
function table.foreach(...)
    check_killed()
    return foreach(...)
end
function table.foreachi(...)
    check_killed()
    return foreachi(...)
end
function globals.unpack(...)
    local t, first, last = ...
    local from = tonumber(whole(first, 2, 'unpack')) or 1
    local to = tonumber(whole(last, 3, 'unpack')) or type(t) == 'table' and #t or 0
    if to - from >= 8000 then error('too many results to unpack', 2) end
    return unpack(...)
end
function coroutine.resume(...) return caught(raw_resume(...)) end

function math.ldexp(...)
    local _, exponent = ...
    whole(exponent, 2, 'ldexp')
    return ldexp(...)
end
-- Not a function of Lua, which would not know its caller after `return math.random(0)`.
math.random = native.random
math.randomseed = native.seed

local redis = {
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
    REPL_NONE = 0, REPL_SLAVE = 1, REPL_REPLICA = 1, REPL_AOF = 2, REPL_ALL = 3,
    REDIS_VERSION = native.version, REDIS_VERSION_NUM = native.version_number,
}
local function reply_of(ok, reply)
    if ok then return reply end
    local text, is_reply = native.error_of(reply)
    if not is_reply then error(text, 0) end
    return { err = text }
end
-- `redis.call` and `redis.acl_check_cmd` are set for each script.
function redis.pcall(...) return reply_of(raw_pcall(redis.call, ...)) end
local function one_field(field, ...)
    local text = ...
    if select('#', ...) ~= 1 or type(text) ~= 'string' then return { err = 'ERR wrong number or type of arguments' } end
    return { [field] = text }
end
function redis.status_reply(...) return one_field('ok', ...) end
function redis.error_reply(...)
    local reply = one_field('err', ...)
    local text = reply.err:gsub('%z.*', ''):gsub('^%-', '')
    local code, message = text:match('^([^ ]*) (.*)$')
    message = (message or text):gsub('^[\r\n]+', ''):gsub('[\r\n]+$', '')
    reply.err = (code or 'ERR') .. ' ' .. message
    return reply
end
redis.sha1hex = native.sha1hex
function redis.log(level, ...)
    if select('#', ...) == 0 then error('redis.log() requires two arguments or more.', 0) end
    if type(level) ~= 'number' then error('First argument must be a number (log level).', 0) end
    if not (level >= 0 and level < 4) then error('Invalid debug level.', 0) end
    local words = {}
    for index = 1, select('#', ...) do words[index] = tostring((select(index, ...))) end
    native.log(level, table.concat(words, ' '))
end
function redis.setresp(...)
    if select('#', ...) ~= 1 then error('redis.setresp() requires one argument.', 0) end
    local version = tonumber((...))
    if version ~= 2 and version ~= 3 then error('RESP version must be 2 or 3.', 0) end
    native.setresp(version)
end
-- Effects are always replicated; there is no debugger.
function redis.replicate_commands() return true end
function redis.set_repl() end
function redis.breakpoint() return false end
function redis.debug() end

-- Options of cjson. What a script sets holds until it ends; in Redis until the server does.
local function json_number(name, value, least, most)
    if value == nil then return native.json_option(name) end
    local number = tonumber(value)
    if not number then error('bad argument to ' .. name .. ' (number expected, got ' .. type(value) .. ')', 3) end
    if not (number >= least and number <= most) then
        error('bad argument to ' .. name .. ' (expected integer between ' .. least .. ' and ' .. most .. ')', 3)
    end
    return native.json_option(name, math.floor(number))
end
local function json_choice(name, value, choices)
    local number
    if value ~= nil then
        number = choices[value]
        if not number then error('bad argument to ' .. name .. " (invalid option '" .. tostring(value) .. "')", 3) end
    end
    number = native.json_option(name, number)
    if number > 1 then return 'null' end
    return number == 1
end
local SWITCH = { [false] = 0, [true] = 1, off = 0, on = 1 }
local INVALID = { [false] = 0, [true] = 1, off = 0, on = 1, null = 2 }
local INTEGER_MAX = 2147483647

local libraries = {
    redis = redis, string = string, table = table, math = math, coroutine = coroutine, bit = native.bit,
    cmsgpack = native.cmsgpack, struct = native.struct,
    cjson = {
        encode = native.json_encode, decode = native.json_decode, null = native.null, _NAME = 'cjson', _VERSION = '2.1.0',
        -- The buffer is never kept, which a script cannot see.
        encode_keep_buffer = function(keep) return keep ~= false end,
        encode_max_depth = function(depth) return json_number('encode_max_depth', depth, 1, INTEGER_MAX) end,
        decode_max_depth = function(depth) return json_number('decode_max_depth', depth, 1, INTEGER_MAX) end,
        encode_number_precision = function(digits)
            return json_number('encode_number_precision', digits, 1, 14)
        end,
        encode_invalid_numbers = function(how) return json_choice('encode_invalid_numbers', how, INVALID) end,
        decode_invalid_numbers = function(how) return json_choice('decode_invalid_numbers', how, SWITCH) end,
        encode_sparse_array = function(convert, ratio, safe)
            return json_choice('sparse_convert', convert, SWITCH), json_number('sparse_ratio', ratio, 0, INTEGER_MAX),
                json_number('sparse_safe', safe, 0, INTEGER_MAX)
        end,
    },
}
for name, library in next, libraries do globals[name] = protect(library) end

setmetatable(globals, { __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end })
local environment = protect(globals)
globals._G = environment
raw_getmetatable('').__metatable = no_metatable

-- What the engine reports of an error: its text, and where the script was.
local function explain(problem)
    local line = native.script_line()
    if type(problem) == 'string' then
        -- The script called a function of this file, which is none of its business.
        problem = problem:gsub('^sandbox:%d+: ', line and 'user_script:' .. line .. ': ' or '')
    end
    if type(problem) == 'userdata' then
        local text, is_reply = native.error_of(problem)
        return { text = is_reply and text or 'ERR ' .. text, line = line }
    end
    if type(problem) == 'table' then
        local text = raw_rawget(problem, 'err')
        return { text = type(text) == 'string' and text or 'ERR unknown error', line = line }
    end
    return { text = 'ERR ' .. tostring(problem), line = line }
end

local function run(script, keys, args, call, may_call)
    redis.call, redis.acl_check_cmd = call, may_call
    raw_rawset(globals, 'KEYS', keys)
    raw_rawset(globals, 'ARGV', args)
    return raw_xpcall(script, explain)
end

return environment, run
