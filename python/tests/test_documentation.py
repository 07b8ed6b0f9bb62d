"""Every public function is documented with an example that runs, and the stubs match the module."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import subprocess
import sys

import pytest
import splitpoint
import splitpoint.dbm
import splitpoint.lab

PYTHON_FOLDER = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
CONFIGURATION = os.path.join(PYTHON_FOLDER, "pyproject.toml")


def public_items():
    """Each public class and function, and the methods of the classes that are ours, by name."""
    yield "splitpoint.dbm", splitpoint.dbm
    yield "splitpoint.dbm.open", splitpoint.dbm.open
    yield "splitpoint.dbm.use_by_default", splitpoint.dbm.use_by_default
    for module in (splitpoint, splitpoint.lab):
        yield module.__name__, module
        for name in module.__all__:
            item = getattr(module, name)
            yield f"{module.__name__}.{name}", item
            if not inspect.isclass(item) or issubclass(item, (Exception, dict, int)):
                continue
            for owner in item.__mro__:
                if owner.__module__.startswith("splitpoint"):
                    for method, value in vars(owner).items():
                        if not method.startswith("_"):
                            yield f"{module.__name__}.{name}.{method}", value


ITEMS = dict(public_items())


@pytest.mark.parametrize("name", ITEMS)
def test_examples_run(name):
    item = getattr(ITEMS[name], "__func__", ITEMS[name])
    doc = inspect.getdoc(item) or ""
    if callable(item) or inspect.isroutine(item) or isinstance(item, property) or inspect.isgetsetdescriptor(item):
        assert doc, f"{name} has no documentation"
    wants_example = inspect.isroutine(item) or (callable(item) and not inspect.isclass(item))
    assert ">>>" in doc or not wants_example, f"{name} has no example"
    examples = doctest.DocTestParser().get_doctest(doc, {}, name, None, None)
    if "numpy" in doc:
        pytest.importorskip("numpy")
    if "to_frame" in doc:
        pytest.importorskip("pandas")
    said = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=said.append)
    assert result.failed == 0, "".join(said)


def test_examples_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open(os.path.join(PYTHON_FOLDER, "README.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    assert len(blocks) >= 3
    for module in ("numpy", "pandas", "pyarrow", "polars"):
        if any(re.search(rf"\b{module}\b", block) for block in blocks):
            pytest.importorskip(module)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # its asserts check the results


def run_mypy(*arguments):
    pytest.importorskip("mypy")
    # Not from the source folder, whose package has no native module.
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=os.sep, timeout=300)


@pytest.mark.timeout(300)
def test_stubs_are_those_of_the_module():
    allowed = ["--ignore-unused-allowlist", "--allowlist", os.path.join(PYTHON_FOLDER, "tests", "stubtest-allowlist.txt")]
    given = ["--ignore-disjoint-bases", *allowed, "--mypy-config-file", CONFIGURATION]
    done = run_mypy("mypy.stubtest", "splitpoint", *given)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_types_of_the_package_and_of_its_users(tmp_path):
    program = tmp_path / "user.py"
    program.write_text(
        """
from collections.abc import MutableMapping
from typing import Optional
import shelve
import splitpoint

table: MutableMapping[bytes, bytes] = splitpoint.memory(page_bytes=512)
with splitpoint.open("users.spt", "c", durability="sync") as users:
    users["alice"] = "admin"
    value: bytes = users[b"alice"]
    maybe: Optional[bytes] = users.get("bob")
    either: bytes | int = users.get("bob", 5)
    with users.batch() as batch:
        batch["a"] = b"1"
    for key, text in users.scan():
        key.upper(), text.upper()
    number: int = users.append("log", "x")
    shelf: shelve.Shelf[object] = shelve.Shelf(users)
words = splitpoint.Dictionary.build({"a": "1"}, "words.spd", index="trie")
first: bytes = words["a"]
splitpoint.memory(page_byte=512)  # error: no such option
users["a"] = 5  # error: no bytes
"""
    )
    done = run_mypy("mypy", "--config-file", CONFIGURATION, "-p", "splitpoint")
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_mypy("mypy", "--config-file=", "--cache-dir", os.devnull, "--strict", str(program))
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 2, done.stdout + done.stderr
    assert "page_byte" in errors[0] and "[assignment]" not in errors[0]
