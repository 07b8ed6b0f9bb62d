"""Other projects' own tests against the server: `make test-server-programs`.

    Redis        its units in Tcl, by its runtest in external mode
    memcached    t/, in Perl, with a program of memcached's name and options in front of the server
    libmemcached memccapable, in text and in binary mode
    redis-py, pymemcache   their tests, from their source packages

Sources come from Debian by `apt-get source`, and from PyPI by pip, into target/server-upstream, and stay there for the next
run. Nothing of theirs is in this repository. What cannot be had is skipped, and that is said. `upstream.skip` has the tests
that do not apply, each with the reason; any other failure is one. `upstream.py redis unit/type/hash` runs a part.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

from servers import BUILT, PROGRAM, Server, free_port

UNITS = """type/string type/incr type/hash type/set type/list type/list-2 type/list-3 type/zset type/stream type/stream-cgroups
    expire keyspace scan bitops bitfield hyperloglog geo sort dump multi pubsub pubsubshard scripting tracking introspection
    introspection-2 info-command slowlog acl acl-v2 protocol quit other""".split()
# Redis's own tags of tests that need what this server does not have: replicas, an append-only file, DEBUG.
DENIED = "-needs:repl -needs:debug -needs:save -needs:pfdebug"
FOLDER = os.path.abspath(f"{BUILT}/server-upstream")
SKIP = f"{os.path.dirname(os.path.abspath(__file__))}/upstream.skip"
# A test that waits for what does not come ends its unit.
SECONDS_MAX = 1200
failures = []


def run(command, **more):
    """The exit status and the output, without colours."""
    more = {"cwd": FOLDER, "timeout": SECONDS_MAX, "text": True, "errors": "replace"} | more
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **more)
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout or b""
        return 124, output.decode(errors="replace") if isinstance(output, bytes) else output
    return done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)


def skipped(suite, unit):
    """The names, and expressions after a slash, of the tests of this unit that are skipped."""
    names, applies = [], False
    with open(SKIP) as file:
        for line in file.read().splitlines():
            if line.startswith("== "):
                of, *units = line[3:].split(":")[0].split()
                applies = of == suite and ("*" in units or unit in units)
            elif applies and line and not line.startswith("#"):
                names.append(line)
    return names


def is_skipped(name, names):
    return any(re.search(one[1:], name) if one.startswith("/") else one == name for one in names)


def source(package):
    """The source of a Debian package, unpacked; None if it cannot be had."""
    folder = f"{FOLDER}/{package}"
    if os.path.isdir(folder):
        return folder
    if not shutil.which("apt-get"):
        return None
    for part in ["lists/partial", "parts", "packages"]:
        os.makedirs(f"{FOLDER}/{part}", exist_ok=True)
    with open(f"{FOLDER}/sources.list", "w") as to:
        for path in glob.glob("/etc/apt/sources.list") + glob.glob("/etc/apt/sources.list.d/*.list"):
            to.writelines(re.sub("^deb ", "deb-src ", line) for line in open(path) if line.startswith("deb "))
    for path in glob.glob("/etc/apt/sources.list.d/*.sources"):
        with open(f"{FOLDER}/parts/{os.path.basename(path)}", "w") as to:
            to.write(re.sub("(?m)^Types:.*", "Types: deb-src", open(path).read()))
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={FOLDER}/sources.list", "-o"]
    apt += [f"Dir::Etc::sourceparts={FOLDER}/parts", "-o", f"Dir::State::lists={FOLDER}/lists"]
    run([*apt, "update"])
    run([*apt, "source", "--download-only", package], cwd=f"{FOLDER}/packages")
    archives = glob.glob(f"{FOLDER}/packages/{package}_*.orig.tar.*[!c]")
    if not archives:
        return None
    os.makedirs(f"{folder}.part", exist_ok=True)
    if run(["tar", "-xf", archives[0], "-C", f"{folder}.part", "--strip-components=1"])[0] != 0:
        return None
    os.rename(f"{folder}.part", folder)
    return folder


def edit(path, *changes):
    """Replaces texts of a fetched file, which contains each of them until the first run."""
    text = open(path).read()
    for old, new in changes:
        text = text.replace(old, new)
    with open(path, "w") as file:
        file.write(text)


def report(suite, unit, passed, left_out, failed, output):
    print(f"{suite} {unit}: {passed} passed, {left_out} left out" + (f", {len(failed)} FAILED" if failed else ""), flush=True)
    for name in failed:
        print(f"    {name}")
    if failed:
        failures.append(unit)
        path = f"{FOLDER}/{suite}-{os.path.basename(unit)}.log"
        with open(path, "w") as file:
            file.write(output)
        print(f"    all of it: {path}")


def redis(wanted):
    folder = source("redis")
    if not folder or not shutil.which("tclsh"):
        print("SKIPPED: Redis's tests, which need their source by apt-get and tclsh (apt install tcl)")
        return
    helper, server = f"{folder}/tests/test_helper.tcl", f"{folder}/tests/support/server.tcl"
    # Settings of encodings do not exist here, and functions are not offered.
    edit(
        helper,
        (
            '    [srv $level "client"] {*}$args\n}\n\n# Returns a Redis',
            '    set failed [catch {[srv $level "client"] {*}$args} reply options]\n'
            "    if {$failed && [string match {*Unknown option*CONFIG SET*} $reply]} { return OK }\n"
            "    return -options $options $reply\n}\n\n# Returns a Redis",
        ),
    )
    edit(
        server,
        ("\n    r function flush", "\n    catch {r function flush}"),
        ("\n        r config set $param $val", "\n        catch {r config set $param $val}"),
    )
    # Two blocks begin with what does not exist here: replication, and a setting of DEBUG.
    blocks = [('"scripting"}} {\n            set repl', '"scripting external:skip"}} {\n            set repl')]
    blocks += [('"scripting needs:debug"}} {\n    r debug set-', '"scripting external:skip"}} {\n    r debug set-')]
    edit(f"{folder}/tests/unit/scripting.tcl", ("foreach is_eval {0 1}", "foreach is_eval {1}"), *blocks)
    # These make users, which each run has for itself, as each has a new server.
    for unit in ["acl", "acl-v2"]:
        edit(f"{folder}/tests/unit/{unit}.tcl", ('start_server {tags {"acl external:skip"}} {', 'start_server {tags {"acl"}} {'))
    for unit in wanted or [f"unit/{name}" for name in UNITS]:
        port = free_port()
        # One thread, as Redis: the tests send on two connections and expect that order.
        server = Server([*PROGRAM, "--resp", f"127.0.0.1:{port}", "--threads", "1"], port, "splitpoint")
        with open(f"{FOLDER}/skip", "w") as file:
            file.write("\n".join(skipped("redis", unit)))
        command = ["tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1", "--port", str(port), "--durable", "--no-latency"]
        command += ["--baseport", str(free_port()), "--ignore-encoding", "--ignore-digest", "--skipfile", f"{FOLDER}/skip"]
        command += ["--tags", DENIED]
        status, output = run([*command, "--single", unit], cwd=folder)
        server.kill()
        failed = re.findall(r"(?m)^\[(?:err|exception)\]: (.*)", output)
        if status != 0 and not failed or "The End" not in output:
            failed.append("it did not end: " + (output.splitlines() or [""])[-1])
        report("redis", unit, output.count("\n[ok]"), len(re.findall(r"\n\[(?:skip|ignore)\]", output)), failed, output)


# A program of memcached's name and options.
WRAPPER = r"""#!/bin/sh
memory=64m eviction=allkeys-lru value=1m port=11211 clients=1024 idle=0
while test $# -gt 0; do
    case $1 in
        -h) echo 'memcached 1.6.18'; exit 0;;
        -V) echo 'memcached 1.6.18'; exit 0;;
        -p) port=$2; shift;;
        -m) memory=${2}m; shift;;
        -M) eviction=noeviction;;
        -I) value=$2; shift;;
        -c) clients=$2; shift;;
        -o) case $2 in *idle_timeout=*) idle=${2#*idle_timeout=}; idle=${idle%%,*};; esac; shift;;
        -[UutlfnbRBDL]) shift;;
    esac
    shift
done
exec PROGRAM --resp none --memcached 127.0.0.1:$port --max-memory $memory --eviction $eviction --max-clients $clients \
    --idle-timeout $idle --max-value $value --log-level error
"""


def memcached(wanted):
    folder = source("memcached")
    if not folder or not shutil.which("perl"):
        print("SKIPPED: memcached's tests, which need their source by apt-get and perl")
        return
    programs = {"memcached-debug": WRAPPER.replace("PROGRAM", " ".join(PROGRAM)), "timedrun": '#!/bin/sh\nshift\nexec "$@"\n'}
    for name, text in programs.items():
        with open(f"{folder}/{name}", "w") as file:
            file.write(text)
        os.chmod(f"{folder}/{name}", 0o755)
    # The clock of the server cannot be moved.
    moved = '    print $sock "debugtime $move\\r\\n";\n    <$sock>;\n'
    edit(f"{folder}/t/lib/MemcachedTest.pm", (moved, "    select undef, undef, undef, $move + 0.2 if $move > 0;\n"))
    for unit in wanted or sorted(os.path.basename(path) for path in glob.glob(f"{folder}/t/*.t")):
        names = skipped("memcached", unit)
        if "*" in names or is_skipped(unit, skipped("memcached", "files")):
            continue
        status, output = run(["perl", "-It/lib", f"t/{unit}"], cwd=folder)
        bad = re.findall(r"(?m)^not ok \d+ ?-? ?(.*)", output)
        failed = [name for name in bad if not is_skipped(name, names)]
        left_out = len(bad) - len(failed)
        if status != 0 and not bad:
            failed.append("it did not end")
        report("memcached", unit, len(re.findall("(?m)^ok", output)), left_out, failed, output)


def memccapable(_):
    if not shutil.which("memccapable"):
        print("SKIPPED: memccapable (apt install libmemcached-tools)")
        return
    for mode in ["-a", "-b"]:
        port = free_port()
        server = Server([*PROGRAM, "--resp", "none", "--memcached", f"127.0.0.1:{port}"], port, "splitpoint")
        status, output = run(["memccapable", "-h", "127.0.0.1", "-p", str(port), mode])
        server.kill()
        failed = [line for line in output.splitlines() if "[FAIL]" in line.upper()]
        if status != 0 and not failed:
            failed.append(f"exit status {status}")
        report("memccapable", mode, output.count("[pass]"), 0, failed, output)


def python_tests(suite, requirement, packages, files, options, wanted):
    """The tests of a package of PyPI, in an environment of its own."""
    venv, folder = f"{FOLDER}/venv", f"{FOLDER}/{suite}"
    if not os.path.isdir(folder):
        made = os.path.isdir(venv) or run([sys.executable, "-m", "venv", venv])[0] == 0
        download = [f"{venv}/bin/pip", "download", "-q", "--no-binary", ":all:", "--no-deps", "-d", f"{folder}.part", requirement]
        if not made or run(download)[0] != 0:
            print(f"SKIPPED: the tests of {suite}, whose source cannot be had by pip")
            return
        (archive,) = glob.glob(f"{folder}.part/*.tar.gz")
        run([f"{venv}/bin/pip", "install", "-q", "pytest", "pytest-asyncio", "pytest-timeout", "mock", archive, *packages])
        run(["tar", "-xf", archive, "-C", f"{folder}.part", "--strip-components=1"])
        os.rename(f"{folder}.part", folder)
    resp, port = free_port(), free_port()
    listen = ["--resp", f"127.0.0.1:{resp}", "--memcached", f"127.0.0.1:{port}"]
    server = Server([*PROGRAM, *listen, "--max-value", "1m" if suite == "pymemcache" else "512m"], resp, "splitpoint")
    command = [f"{venv}/bin/python", "-m", "pytest", "-q", "--tb=line", "-o", "addopts=", "-p", "no:cacheprovider"]
    command += ["--timeout", "30", f"--junitxml={folder}.xml"]
    options = [option.format(resp=resp, port=port) for option in options]
    _, output = run([*command, *options, *(wanted or files)], cwd=folder)
    server.kill()
    passed, left_out, failed = 0, 0, []
    cases = xml.etree.ElementTree.parse(f"{folder}.xml").iter("testcase") if os.path.exists(f"{folder}.xml") else []
    names = skipped(suite, "*")
    for case in cases:
        name = f"{case.get('classname').split('.')[-1]}.{case.get('name')}"
        if case.find("failure") is None and case.find("error") is None:
            passed, left_out = passed + (case.find("skipped") is None), left_out + (case.find("skipped") is not None)
        elif is_skipped(name, names):
            left_out += 1
        else:
            failed.append(name)
    report(suite, "tests", passed, left_out, failed or ([] if passed else ["nothing was run"]), output)


def redis_py(wanted):
    names = "commands lock pipeline pubsub scripting connection connection_pool encoding monitor cache command_parser"
    files = [f"tests/test_{name}.py" for name in names.split()]
    options = ["--redis-url", "redis://127.0.0.1:{resp}/0", "-m", "not redismod and not onlycluster and not fixed_client"]
    needs = ["pytest-mock", "numpy", "PyJWT", "cryptography", "requests", "pybreaker", "aiohttp", "xxhash"]
    needs += ["opentelemetry-api", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http", "ujson"]
    python_tests("redis-py", "redis>=8,<9", needs, files, options, wanted)


def pymemcache(wanted):
    options = ["-m", "integration", "-k", "not tls", "--server", "127.0.0.1", "--port", "{port}"]
    python_tests("pymemcache", "pymemcache>=4,<5", ["zstd", "faker"], ["pymemcache/test"], options, wanted)


SUITES = {"redis": redis, "memcached": memcached, "memccapable": memccapable, "redis-py": redis_py, "pymemcache": pymemcache}

os.makedirs(FOLDER, exist_ok=True)
for name in sys.argv[1:2] or SUITES:
    SUITES[name](sys.argv[2:])
if failures:
    sys.exit(f"failed: {' '.join(failures)}")
