#!/usr/bin/env python3
"""The same Lua scripts to Debian's redis and to this server: replies have to be equal, byte for byte.

    scripts_differential.py [--file] [--survey] [SECONDS] [SEED]

First the scripts below, then random values through conversion, cjson, cmsgpack, struct, bit and string functions.
--survey continues after a difference.
"""

import atexit
import os
import random
import re
import shutil
import sys
import tempfile
import time

import servers
from resp import Connection

NUMBERS = [word for word in sys.argv[1:] if not word.startswith("--")]
SECONDS = float(NUMBERS[0]) if NUMBERS else 10
SEED = int(NUMBERS[1]) if len(NUMBERS) > 1 else random.randrange(1 << 32)

# Values.
SCRIPTS = """
return {1,2,nil,3}
return 3.99
return -3.99
return 1e300
return 0/0
return true
return false
return nil
return
return {1,'a',{2,false,true}}
return function() end
return {ok='x'}
return {err='MY x'}
return {err='-MY x'}
return {err='x'}
return {err={}}
return {ok={}}
return {ok='two\\r\\nlines'}
return {err='two\\r\\nlines'}
return {double=3.5}
return {double=1e100}
return {map={a=1}}
return {set={a=true}}
return {big_number='123'}
return {verbatim_string={string='abc', format='txt'}}
return redis.error_reply('x')
return redis.error_reply('MY x')
return redis.error_reply('-MY x')
return redis.error_reply('')
return redis.error_reply()
return redis.error_reply(1)
return redis.status_reply('x')
return redis.status_reply({})
return redis.call('set','a',1.5)
return redis.call('get','a')
return redis.call('set','a',12345678901234567890)
return redis.call('get','a')
return redis.call('set','a',1e17)
return redis.call('get','a')
return redis.call('set','a',-0.0)
return redis.call('get','a')
return redis.call('set','a',0.1)
return redis.call('get','a')
return type(redis.call('get','absent'))
return redis.call('ping')
return redis.call('ping').ok
return redis.call('PING', 'x')
local ok, e = pcall(redis.call, 'incr', 'a') return {tostring(ok), type(e), tostring(e)}
local r = redis.pcall('incr', 'a') return {type(r), r.err}
return redis.pcall('incr', 'a')
return redis.call('incr', 'a')
return xpcall(function() redis.call('incr', 'a') end, function(e) return type(e) end)
local ok, e = xpcall(function() redis.call('incr', 'a') end, function(e) return e end) return {tostring(ok), type(e)}
local ok, e = xpcall(function() error('x') end, function(e) return e end) return {tostring(ok), e}
return {KEYS[1], ARGV[1], #KEYS, #ARGV}
return math.random(1000)
return {math.random(1000), math.random(1000), math.random(5, 10), math.random(1)}
math.randomseed(5) return {math.random(1000), math.random(1000)}
math.randomseed(-5) return {math.random(1000), math.random(1000)}
math.randomseed(1e10) return {math.random(1000), math.random(1000)}
return tostring(math.random())
return math.random(0)
return redis.sha1hex('')
return redis.sha1hex(1)
return redis.sha1hex()
return redis.sha1hex('a', 'b')
return redis.replicate_commands()
return redis.set_repl(redis.REPL_ALL)
return redis.setresp(3)
return redis.setresp('3')
local x = redis.setresp('4')
local x = redis.setresp(4)
local x = redis.setresp()
return redis.log(redis.LOG_NOTICE, 'x')
local x = redis.log('x')
local x = redis.log('x', 'y')
local x = redis.log(9, 'y')
return redis.breakpoint()
return redis.LOG_WARNING
return redis.REDIS_VERSION
return redis.REDIS_VERSION_NUM
return redis.acl_check_cmd('get', 'x')
local x = redis.acl_check_cmd('nosuch', 'x')
local x = redis.acl_check_cmd()
return type(redis.debug)
return bit.band(0xff, 0x0f)
return bit.tohex(bit.lshift(1, 31))
return bit.tohex(-1, -4)
return bit.bor(1.6, 2)
return bit.bnot(2^40 + 1)
return bit.band()
return bit.band('x')
return bit.band('12', 4)
return bit.rol(0x12345678, 36)
return cjson.encode({1,2,{a=1}})
return cjson.encode({[5]=1})
return cjson.encode({[11]=1})
return cjson.encode({1,2,3,[40]=1})
return cjson.encode({[1.5]=1})
return cjson.encode({[0]=1})
return cjson.encode({[true]=1})
return cjson.encode({})
return cjson.encode('')
return cjson.encode(nil)
return cjson.encode()
return cjson.encode(1, 2)
return cjson.encode(1e100)
return cjson.encode(1.1)
return cjson.encode(1/3)
return cjson.encode(123456789012345678)
return cjson.encode(0/0)
return cjson.encode(1/0)
return cjson.encode(print)
cjson.encode_max_depth(1) local ok, what = pcall(function() local x = cjson.encode({{1}}) return x end) cjson.encode_max_depth(1000) return {tostring(ok), what}
cjson.decode_max_depth(2) local ok, what = pcall(function() local x = cjson.decode('[[[1]]]') return x end) cjson.decode_max_depth(1000) return {tostring(ok), what}
local a, b, c = cjson.encode_sparse_array(true, 1, 2) local s = cjson.encode({[7]=1}) cjson.encode_sparse_array(false, 2, 10) return {tostring(a), b, c, s}
cjson.encode_number_precision(3) local s = cjson.encode(1/3) cjson.encode_number_precision(14) return s
local t = {} for _, how in ipairs({'null', true}) do cjson.encode_invalid_numbers(how) for _, n in ipairs({1/0, -1/0, 0/0}) do t[#t + 1] = cjson.encode({n}) end end cjson.encode_invalid_numbers('off') return t
local t = {} for _, how in ipairs({'null', 'on', 'off'}) do t[#t + 1] = tostring(cjson.encode_invalid_numbers(how)) end return t
cjson.decode_invalid_numbers(false) local t = {} for _, s in ipairs({'0x10', '012', '-inf', 'nan', '+1', '0.5', '-0', '7'}) do local ok, v = pcall(function() local x = cjson.decode('[' .. s .. ']') return x end) t[#t + 1] = tostring(ok and v[1] or v) end cjson.decode_invalid_numbers(true) return t
return {cjson.encode_max_depth(), cjson.decode_max_depth(), cjson.encode_number_precision(), tostring(cjson.encode_invalid_numbers()), tostring(cjson.decode_invalid_numbers())}
return cjson.encode(function() end)
return cjson.encode(cjson.null)
return cjson.encode({a=cjson.null})
return cjson.encode('\\0\\1\\127\\128"\\\\/')
return cjson.encode({a={b={c={}}}})
local t = {} for i = 1, 1001 do t = {t} end return cjson.encode(t)
local t = {} for i = 1, 998 do t = {t} end return #cjson.encode(t)
local t = {} for i = 1, 999 do t = {t} end return #cjson.encode(t)
local t = {} for i = 1, 1000 do t = {t} end return #cjson.encode(t)
return cjson.decode('{"a":[1,2,null]}').a[2]
return cjson.decode('[1,2,null,true,false,"x"]')
return cjson.decode('[1,2,null]')[3] == cjson.null
return cjson.decode('1')
return cjson.decode('"x"')
return cjson.decode('null')
return cjson.decode('')
return cjson.decode(' ')
return cjson.decode('{')
return cjson.decode('{"a"')
return cjson.decode('{"a":')
return cjson.decode('{"a":}')
return cjson.decode('{"a":1,}')
return cjson.decode('{a:1}')
return cjson.decode('[1,]')
return cjson.decode('[1')
return cjson.decode('[1 2]')
return cjson.decode('1 2')
return cjson.decode('tru')
return cjson.decode('nul')
return cjson.decode('01')
return cjson.decode('0x10')
return cjson.decode('+1')
return cjson.decode('-')
return cjson.decode('.5')
return cjson.decode('1.')
return cjson.decode('1e5')
return cjson.decode('1e')
return cjson.decode('-1.5e-3')
return cjson.decode('1e400')
return tostring(cjson.decode('nan'))
return tostring(cjson.decode('-Infinity'))
return cjson.decode('"\\\\u00e9\\\\ud83d\\\\ude00"')
return cjson.decode('"\\\\ud83d"')
return cjson.decode('"\\\\u12"')
return cjson.decode('"\\\\x"')
return cjson.decode('"abc')
return cjson.decode('"a\\nb"')
return cjson.decode('a\\0')
return cjson.decode('[1,2]\\0')
return cjson.decode(nil)
return cjson.decode()
return cjson.decode(12)
return cjson.decode({})
return cjson.decode(('['):rep(1001) .. (']'):rep(1001))
return #cjson.decode(('['):rep(999) .. (']'):rep(999))
return #cjson.decode(('['):rep(1000) .. (']'):rep(1000))
return cmsgpack.pack(1, 'x')
return cmsgpack.pack()
return cmsgpack.pack({})
return cmsgpack.pack({a={b={1,2,3}}})
return cmsgpack.pack(2^40, -2^40, 255, 256, 65536, -33, -129, -40000, 0.1, 0.5, 1/0)
return {cmsgpack.unpack(cmsgpack.pack(1, 'x', {1,2}))}
return {cmsgpack.unpack_one(cmsgpack.pack(1, 'x'))}
return {cmsgpack.unpack_one(cmsgpack.pack(1, 'x'), 1)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}
return cmsgpack.unpack('\\193')
return cmsgpack.unpack('\\217\\200')
return cmsgpack.unpack('')
local t = {} for i = 1, 20 do t = {t} end return cmsgpack.pack(t)
return struct.pack('>I2i4Bd', 1, -2, 255, 1.5)
return struct.pack('<bhlfs', 1, 2, 3, 0.5, 'x')
return {struct.unpack('>I2i4', struct.pack('>I2i4', 65535, -2))}
return {struct.unpack('Bc0s', struct.pack('Bc0s', 3, 'abc', 'tail'))}
return struct.size('!8bi8d')
return struct.pack('!4 b i', 1, 2)
return struct.pack('c5', 'abc')
return struct.pack('z', 1)
return struct.pack('i33', 1)
return struct.pack('!3i', 1)
return struct.unpack('i', 'abc')
return struct.unpack('s', 'abc')
return struct.unpack('c0', 'abc')
return struct.unpack('i', 'abcd', 0)
return struct.size('s')
return struct.size('c0')
return struct.pack('B', 300)
return struct.pack('B', -1)
return struct.pack('I8', 2^60)
return struct.pack()
return struct.pack('i')
return loadstring('return 1')()
return {loadstring('x =')}
return {loadstring('x =', '@name')}
return load(function() return nil end)
return tostring(1e15)
return tostring(0.1)
return 10 / 3 .. ''
return ('x'):rep(3)
return ('x'):rep(-1)
return #('x'):rep(1000)
return ('%d %s %5.2f %q %x %c'):format(3.7, 'a', 1.005, 'q"\\n', 255, 65)
return string.format('%d', 'x')
return string.format('%s')
return string.format('%y', 1)
return table.concat({1, 2, 'x'}, ',')
return table.concat({1, {}, 'x'}, ',')
local t = {3, 1, 2} table.sort(t) return t
local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t
local t = {3, 'x', 2} table.sort(t) return t
local t = {1, 2, 3} table.remove(t, 1) return t
local t = {1, 2, 3} table.insert(t, 1, 0) return t
table.insert({}, 1, 2, 3)
table.insert(nil, 1)
return unpack({1, 2, 3}, 2)
return {unpack({1, 2, 3}, 2)}
local x = unpack()
return {select('#', 1, 2), select(2, 'a', 'b')}
return tonumber('0x10')
return tonumber('z', 36)
return tostring(nil)
return next({})
return type(next)
return rawequal(1, 1)
return {rawget({5}, 1)}
return #rawset({}, 1, 2)
return getmetatable('')
local x = setmetatable(1, {})
return collectgarbage('count') > 0
return collectgarbage()
return gcinfo() > 0
return coroutine.wrap(function() coroutine.yield(5) end)()
local co = coroutine.create(function() error('x') end) return {coroutine.resume(co)}
local co = coroutine.create(function() error('x') end) local ok, e = coroutine.resume(co) return {tostring(ok), e}
return coroutine.status(coroutine.create(function() end))
return _VERSION
return type(_G)
return _G.redis == redis
return pairs({})
local n = 0 for k in pairs(redis) do n = n + 1 end return n > 10
error('a')
error('a', 0)
error('a', 2)
error({err='MY thing'})
error({err='thing'})
error()
error(5)
error(nil)
error(true)
redis.call('nosuch')
return redis.call('nosuch')
redis.call('get')
redis.call()
return redis.call()
return redis.pcall()
redis.call({})
redis.call('get', true)
redis.call('set', 'a', nil)
redis.call('multi')
redis.call('exec')
redis.call('subscribe', 'a')
redis.call('wait', 1, 0)
redis.call('eval', 'return 1', 0)
redis.call('config', 'get', 'x')
redis.call('client', 'id')
redis.call('script', 'flush')
redis.call('blah blah')
redis.call('set', 'a')
return redis.call('get', 'a', 'b')
return redis.pcall('nosuch')
return redis.pcall('get')
return x
x = 1
string.x = 1
redis.x = 1
redis.call = 1
KEYS[1] = 'changed' return KEYS[1]
ARGV[3] = 'changed' return #ARGV
rawset(string, 'x', 1)
rawset(_G, 'x', 1)
_G.x = 1
setmetatable(_G, {})
setmetatable(redis, {})
getmetatable(_G).__index = 1
local a = nil + 1
local a = nil .. 'x'
local a = {} < 1
local a = 1 < 'x'
local a; a.b = 1
local a = {} a.b.c = 1
nosuch()
local a = 5 a()
string.rep()
string.rep('x')
string.rep({}, 2)
string.sub()
return string.sub('hello', 2, -2)
return string.byte('hello', 1, -1)
return {string.byte('hello', 1, -1)}
return string.char(104, 105)
return string.char(256)
return ('x'):bad()
return #nil
for i = 1, 'x' do end
for i in 5 do end
local function f() error('deep') end f()
local function f() return redis.call('incr', 'a') end return f()
\\n\\n\\nerror('line four')
\\nlocal x = redis.call('incr', 'a')\\nreturn x
syntax error here
return (
x = = 1
return 'unfinished
return [[unfinished
goto = 1 return goto
return 0x10 + 1e2
--[[ comment ]] return 1 -- another
return "a\\\\65\\\\n"
local f = function(...) return select('#', ...), ... end return {f(1, nil, 3)}
return ... 
return arg
return os
return os.clock() >= 0
return io
return print
return dofile
return require
return package
return debug
return module
return getfenv
return setfenv
return newproxy
return string.dump ~= nil
return string.dump(function() end) ~= nil
return table.getn({1, 2})
return table.maxn({1, 2, [10] = 1})
return table.foreach({1, 2}, function(k, v) return v end)
return math.floor(-1.5)
return math.fmod(7, 3)
return math.mod(7, 3)
return math.pow(2, 10)
return math.huge
return math.max()
return math.max(1, 2)
return math.floor('x')
return tostring(2^53)
return 2^53
return 2^63
return -2^63
return 2^62
return '10' + 5
return '0x10' + 0
return 7 % -3
return -7 % 3
return #'abc'
return not nil
return 1 and 2
#!lua\\nreturn 1
#!lua flags=no-writes\\nreturn redis.call('set', 'a', 1)
#!lua flags=no-writes\\nreturn redis.call('get', 'absent')
#!lua flags=no-writes,allow-oom\\nreturn 1
#!lua flags=bad\\nreturn 1
#!lua name=x\\nreturn 1
#!lua what\\nreturn 1
#!python\\nreturn 1
#!lua
#!lua flags=no-writes
#!lua flags=\\nreturn 1
#!lua  flags=no-writes  \\nreturn redis.call('incr', 'b')
#!lua flags=no-writes\\nerror('line two')
return redis.call('select', 5)
return redis.call('exists', 'a')
return redis.call('time')[3]
return redis.call('dbsize')
return redis.call('mset', 'x', 1, 'y', 2)
return redis.call('mget', 'x', 'absent', 'y')
return redis.call('set', 'x', 1, 'NX')
return redis.call('set', 'x', 5, 'GET')
return redis.call('ttl', 'x')
return redis.call('pexpire', 'x', 1000000)
return redis.call('del', 'x', 'y')
return redis.call('object', 'encoding', 'absent')
return redis.call('command', 'getkeys', 'get', 'a')
return redis.call('echo', 'two\\r\\nlines')
return redis.call('incrbyfloat', 'f', 1.5)
return redis.call('type', 'f')
return redis.call('type', 'f').ok
return redis.call('setrange', 'r', 5, 'x')
return redis.call('getrange', 'r', 0, -1)
return redis.call('publish', 'c', 'm')
return redis.call('flushall')
redis.setresp(3) return redis.call('get', 'absent')
redis.setresp(3) return redis.call('get', 'absent') == nil
redis.setresp(3) return true
redis.setresp(3) return {map={a=1}}
redis.setresp(3) return {set={a=1}}
redis.setresp(3) return {double=3.5}
redis.setresp(3) return {double=1/0}
redis.setresp(3) return {double=100}
redis.setresp(3) return {big_number='12\\r3'}
redis.setresp(3) return {verbatim_string={string='abc', format='mkd'}}
redis.setresp(3) return {verbatim_string={string='abc'}}
redis.setresp(3) return {nil, false, true}
redis.setresp(2) return true
return string.find('hello world', 'o w')
return {string.find('hello world', '(o) (w)')}
return {string.find('hello', 'l+')}
return {string.find('hello', 'xyz')}
return {string.find('hello', '', 10)}
return {string.find('hello', '', 3)}
return {string.find('a.b', '.', 2, true)}
return {string.match('key=value', '(%w+)=(%w+)')}
return {string.match('  trim  ', '^%s*(.-)%s*$')}
return {string.match('2024-01-02', '(%d+)-(%d+)-(%d+)')}
return {string.match('hello', '()ll()')}
return {string.match('[[x]]', '%[(%b[])%]')}
return {string.match('THE (quick) fox', '%f[%a]%a+%f[%A]')}
return {string.match('abcabc', '(abc)%1')}
return {string.gsub('hello world', 'o', '0')}
return {string.gsub('hello world', '(o)', '<%1>')}
return {string.gsub('hello', '', '-')}
return {string.gsub('abc', '%w', '%0%0')}
return {string.gsub('abc', '%w', {a='1', b=false})}
return {string.gsub('abc', '%w', function(c) if c ~= 'b' then return c:upper() end end)}
return {string.gsub('abc', '%w', 'x', 2)}
return {string.gsub('abc', '%w*', 'x')}
return {string.gsub('abc', '^%w', 'x')}
return {string.gsub('abc', 'b', '%')}
return {string.gsub('abc', 'b', '%2')}
return {string.gsub('abc', 'b', {})}
return {string.gsub('abc', 'b', function() return {} end)}
return {string.gsub('abc', 'b')}
return {string.gsub('abc', 'b', true)}
return string.gsub('a b c', '%s', '') 
local t = {} for w in string.gmatch('one two  three', '%a+') do t[#t+1] = w end return t
local t = {} for k, v in string.gmatch('a=1, b=2', '(%w+)=(%w+)') do t[#t+1] = k .. v end return t
local t = {} for w in string.gmatch('abc', '') do t[#t+1] = #t end return t
local t = {} for w in ('x1y2'):gmatch('%d') do t[#t+1] = w end return t
return string.find('a', '[')
return string.find('a', '%')
return string.find('a', '(')
return string.find('a', ')')
return string.find('a', '%1')
return string.find('a', '%b')
return string.find('a', '%f')
return string.find()
return string.find('a')
return string.find(nil, 'a')
return string.find({}, 'a')
return string.find('a', 'a', 'x')
return string.find(123, 2)
return string.match()
local x = string.gmatch()
local x = string.gsub()
local x = string.gsub('a')
local x = string.gsub({}, 'a', 'b')
return {string.find('a]b', '[]]')}
return {string.find('a-b', '[a%-]', 2)}
return {string.find('a^b', '[b^]')}
return {string.find('ab', '[^a]')}
return {string.find('a\\0b', '%z')}
return {string.find('\\200', '%a')}
return {string.find('x', '[a-]')}
return {('x'):find('x', -10)}
return string.upper('aé') .. string.lower('AB') .. string.reverse('abc') .. string.len('abc')
""".strip().split("\n")

PIECES = ["a", "b", "é", "\\0", "\\r\\n", "%%", "(", ")", ".", "-", "[", "]", "^", "$", "1", "9", " ", "/", "\\\"", "\\\\", "\\127", "\\200"]


def text(r, most=8):
    return "".join(r.choice(PIECES) for _ in range(r.randrange(most)))


def number(r):
    return r.choice(["0", "1", "-1", "1.5", "-0.1", "1e15", "1e17", "123456789012", "2^53", "1e300", "-1e-7", "0.1", "100", str(r.randrange(-(2**40), 2**40)), repr(r.uniform(-1e6, 1e6)), repr(r.uniform(-1, 1) * 10 ** r.randrange(-20, 20))])


def value(r, depth=0):
    kind = r.randrange(9 if depth < 4 else 6)
    if kind < 2:
        return number(r)
    if kind < 4:
        return '"%s"' % text(r)
    if kind < 6:
        return r.choice(["true", "false", "nil"])
    if kind < 8:
        return "{%s}" % ",".join(value(r, depth + 1) for _ in range(r.randrange(5)))
    # One pair, as the order of several is Lua's own.
    return '{["%s"]=%s}' % (text(r), value(r, depth + 1))


def pattern(r):
    items = ["a", "b", ".", "%%a", "%%d", "%%w", "%%s", "%%S", "[ab]", "[^a]", "[a-c]", "[%%w_]", "(", ")", "()", "%%1", "%%b()", "%%f[%%a]", "^", "$", "%%", "[", "1", "-", "%%z", "%%."]
    return "".join(r.choice(items) + r.choice(["", "", "", "*", "+", "-", "?"]) for _ in range(r.randrange(6))).replace("%%", "%")


def random_script(r):
    subject = "".join(r.choice("aabbc1 ()_.-") for _ in range(r.randrange(14)))
    return r.choice(
        [
            lambda: "return %s" % value(r),
            lambda: "return cjson.encode(%s)" % value(r),
            lambda: "return cjson.encode(cjson.decode(cjson.encode(%s)))" % value(r),
            lambda: "return cjson.decode('%s')" % "".join(r.choice('{}[],:"ab1-.e \\\\tfn') for _ in range(r.randrange(12))).replace("'", ""),
            lambda: "return cmsgpack.pack(%s)" % value(r),
            lambda: "return {cmsgpack.unpack(cmsgpack.pack(%s, %s))}" % (value(r), value(r)),
            lambda: "return struct.pack('%s', %s, %s)" % (r.choice("<>") + r.choice("bBhHlLfd") + r.choice("iI") + r.choice("12348"), r.randrange(-200, 200), r.randrange(0, 2**40)),
            lambda: "return tostring(%s)" % number(r),
            lambda: "return redis.call('echo', %s)" % number(r),
            lambda: "return {string.find('%s', '%s')}" % (subject, pattern(r)),
            lambda: "return {string.match('%s', '%s', %s)}" % (subject, pattern(r), r.randrange(-3, 5)),
            lambda: "return {string.gsub('%s', '%s', '%s')}" % (subject, pattern(r), r.choice(["x", "%0", "%1", "%1%2", "%%", ""])),
            lambda: "return {string.gsub('%s', '%s', function(a, b) return (a or '') .. '|' .. (b or '') end)}" % (subject, pattern(r)),
            lambda: "local t = {} for a, b in string.gmatch('%s', '%s') do t[#t+1] = a t[#t+1] = b or '' if #t > 30 then break end end return t" % (subject, pattern(r)),
            lambda: "return bit.%s(%s, %s)" % (r.choice(["band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "tohex"]), number(r), r.choice([number(r), str(r.randrange(40))])),
            lambda: "return {ok=\"%s\"}" % text(r),
            lambda: "return {err=\"%s\"}" % text(r),
            lambda: "return redis.error_reply(\"%s\")" % text(r),
        ]
    )()


def main():
    redis = servers.redis()
    if redis is None:
        print("SKIPPED: comparison with redis-server, which is not installed (apt install redis-server)")
        return
    file_options = []
    if "--file" in sys.argv:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        file_options = ["--file", os.path.join(folder, "t.spt")]
    mine = servers.splitpoint(*file_options)
    pairs = [[Connection(server.port) for server in (mine, redis)] for _ in range(2)]
    for connection in pairs[1]:
        connection.call("HELLO", "3")
    differences, r, count = 0, random.Random(SEED), 0

    def compare(script):
        nonlocal differences, count
        for version, (here, there) in enumerate(pairs, 2):
            words = [r.choice(["EVAL", "EVAL", "EVAL_RO"]) if "\\" not in script else "EVAL", script, "1", "key", "arg1", "arg2"]
            ours, theirs = raw(here, words), raw(there, words)
            count += 1
            if ours != theirs and not is_without_line(script, ours, theirs):
                differences += 1
                print(f"RESP{version} {words[0]} {script!r} (seed {SEED})\n  here  {ours!r}\n  redis {theirs!r}")
                if "--survey" not in sys.argv:
                    sys.exit(1)

    for script in SCRIPTS:
        # Doubled backslashes are Lua's.
        compare(script.replace("\\\\", "\0").replace("\\r", "\r").replace("\\n", "\n").replace("\0", "\\"))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        compare(random_script(r))
    print(f"scripts: {count} replies equal to redis's (seed {SEED})" if not differences else f"{differences} differences")


LOCATION = re.compile(rb"^-ERR user_script:\d+: (.*), on @user_script:\d+\.\r\n$", re.DOTALL)


def is_without_line(script, ours, theirs):
    """Whether the replies are equal except for the line number, which Lua forgets at a call after `return`. In Redis
    these functions are C, and their caller is still known."""
    return "return " in script and ours == LOCATION.sub(rb"-ERR \1\r\n", theirs)


ADDRESS = re.compile(rb"(function|table|thread): 0x[0-9a-f]+")


def raw(connection, words):
    """The bytes of the reply."""
    connection.send(words)
    bytes_read = []

    def line():
        text = Connection.line(connection)
        bytes_read.append(text + b"\r\n")
        return text

    def take(length):
        data = Connection.take(connection, length)
        bytes_read.append(data)
        return data

    connection.line, connection.take = line, take
    try:
        connection.reply()
    except ValueError:
        pass
    del connection.line, connection.take
    return ADDRESS.sub(rb"\1: 0x", b"".join(bytes_read))


main()
