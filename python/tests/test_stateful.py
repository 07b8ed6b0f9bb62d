"""A table behaves like a dict, in whatever order it is called; and a file like one that was never closed."""

from __future__ import annotations

import os
import shutil
import tempfile

import hypothesis.strategies as st
import splitpoint
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

# Few keys, so that they meet; long values, so that small pages overflow and some go to extents.
KEYS = st.integers(0, 40).map(lambda n: str(n).encode() * (1 + n % 5))
LENGTHS = st.sampled_from([0, 1, 20, 300, 5000])
VALUES = st.builds(lambda byte, length: bytes([byte]) * length, st.integers(0, 255), LENGTHS)


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.path = os.path.join(self.directory, "t.spt")
        self.table = self.open()
        self.model: dict[bytes, bytes] = {}

    def open(self) -> splitpoint.Table:
        return splitpoint.open(self.path, page_bytes=512, fill_factor=2, log_bytes=1 << 20)

    def teardown(self) -> None:
        self.table.close()
        shutil.rmtree(self.directory)

    @rule(key=KEYS, value=VALUES)
    def put(self, key: bytes, value: bytes) -> None:
        self.table[key] = self.model[key] = value

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        assert self.table.remove(key) == (self.model.pop(key, None) is not None)

    @rule(key=KEYS, value=VALUES)
    def append(self, key: bytes, value: bytes) -> None:
        self.model[key] = self.model.get(key, b"") + value
        assert self.table.append(key, value) == len(self.model[key])

    @rule(key=KEYS, value=VALUES)
    def insert(self, key: bytes, value: bytes) -> None:
        assert self.table.insert_new(key, value) == (key not in self.model)
        self.model.setdefault(key, value)

    @rule(key=KEYS, value=VALUES)
    def set_default(self, key: bytes, value: bytes) -> None:
        assert self.table.setdefault(key, value) == self.model.setdefault(key, value)

    @rule(key=KEYS)
    def pop(self, key: bytes) -> None:
        assert self.table.pop(key, None) == self.model.pop(key, None)

    @rule(key=KEYS, expected=st.none() | VALUES, new=st.none() | VALUES, right=st.booleans())
    def compare_and_set(self, key: bytes, expected: bytes | None, new: bytes | None, right: bool) -> None:
        expected = self.model.get(key) if right else expected
        same = self.model.get(key) == expected
        assert self.table.compare_and_set(key, expected, new) == same
        if same and new is None:
            self.model.pop(key, None)
        elif same and new is not None:
            self.model[key] = new

    @rule(pairs=st.dictionaries(KEYS, VALUES, max_size=20))
    def update(self, pairs: dict[bytes, bytes]) -> None:
        self.table.update(pairs)
        self.model.update(pairs)

    @rule(pairs=st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=10), fails=st.booleans())
    def batch(self, pairs: list[tuple[bytes, bytes | None]], fails: bool) -> None:
        changed = dict(self.model)
        try:
            with self.table.batch() as batch:
                for key, value in pairs:
                    if value is None:
                        del batch[key]
                        changed.pop(key, None)
                    else:
                        batch[key] = changed[key] = value
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return
        self.model = changed

    @rule()
    def clear(self) -> None:
        self.table.clear()
        self.model.clear()

    @rule()
    def compact(self) -> None:
        self.table.compact()

    @rule()
    def reopen(self) -> None:
        self.table.close()
        self.table = self.open()

    @rule(keys=st.lists(KEYS, max_size=50))
    def get_many(self, keys: list[bytes]) -> None:
        assert self.table.get_many(keys, b"-") == [self.model.get(key, b"-") for key in keys]

    @rule()
    def freeze(self) -> None:
        path = os.path.join(self.directory, "t.spd")
        self.table.freeze(path, page_bytes=512)
        with splitpoint.Dictionary(path) as frozen:
            assert dict(frozen) == self.model

    @rule()
    def verify(self) -> None:
        assert self.table.verify() == []

    @invariant()
    def same(self) -> None:
        assert (len(self.table), dict(self.table.items())) == (len(self.model), self.model)
        assert list(self.table) == [key for key, _ in self.table.scan()]


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
