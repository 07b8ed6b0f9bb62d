"""The lab: how hash functions and tables behave on your own keys.

>>> import splitpoint.lab
>>> study = splitpoint.lab.hash_functions([f"user{i}" for i in range(10_000)], speed=False)
>>> study["xxh3"].level.objects
10000

Results are dataclasses. ``to_frame()`` gives a pandas DataFrame, a notebook shows them as tables and plots, and
``plot()`` draws with matplotlib; each library is needed only where it is used.
"""

from __future__ import annotations

import dataclasses
import html
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from splitpoint import _inputs, _plots, errors
from splitpoint._splitpoint import lab_hash, lab_schemes, lab_tune


@dataclasses.dataclass(frozen=True)
class Size:
    """Buckets of one size: a row of a histogram, with the expectation of the random model (Poisson)."""

    size: int
    buckets: int
    objects: int
    cumulative_percent: float
    expected_buckets: float


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a lookup in one layout: keys compared, slots probed or pages read, and cache lines of a successful one."""

    successful: float
    unsuccessful: float
    cache_lines_successful: float


@dataclasses.dataclass(frozen=True)
class Level:
    """How one function distributes the keys over a table of one size."""

    buckets: int
    objects: int
    empty: int
    largest: int
    histogram: list[Size] = dataclasses.field(repr=False)
    compared_successful: float
    compared_unsuccessful: float
    compared_unsuccessful_uniform: float
    expected_empty: float
    expected_largest: int
    expected_compared_successful: float
    expected_compared_unsuccessful: float
    chi_square: float
    degrees: float
    p_value: float
    #: "chains", "linear" and "pages"; ``None`` where a layout does not apply.
    layouts: dict[str, Optional[Cost]]


@dataclasses.dataclass(frozen=True)
class Avalanche:
    """How evenly a flipped bit of a key flips the bits of its hash. Bias 0: half of the time; 1: always or never."""

    output_bits: int
    mean_bias: float
    worst_bias: float
    expected_mean_bias: float
    #: A row for each bit of the key, with a share for each bit of the hash.
    flips: list[list[float]] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class FunctionReport:
    """One hash function on the keys."""

    name: str
    seed: int
    bits: int
    #: "even", "as random", "fair", "poor" or "bad", by the cost of an unsuccessful lookup against the random model; "too few"
    #: keys to say.
    spread: str
    #: The requested table, then smaller ones.
    levels: list[Level] = dataclasses.field(repr=False)
    largest_keys: list[bytes] = dataclasses.field(repr=False)
    avalanche: Optional[Avalanche]
    ns_per_hash: Optional[float]
    ns_by_length: Optional[list[tuple[int, float]]] = dataclasses.field(repr=False)

    @property
    def level(self) -> Level:
        """The requested table.

        >>> import splitpoint.lab
        >>> splitpoint.lab.hash_functions([b"a", b"b"], functions=["crc32c"], speed=False)["crc32c"].level.objects
        2
        """
        return self.levels[0]

    def to_frame(self) -> Any:
        """The histogram as a pandas DataFrame.

        >>> import splitpoint.lab
        >>> study = splitpoint.lab.hash_functions([b"a", b"b"], functions=["crc32c"], speed=False)
        >>> int(study["crc32c"].to_frame()["objects"].sum())
        2
        """
        import pandas

        return pandas.DataFrame([dataclasses.asdict(size) for size in self.level.histogram])

    def plot(self, axes: Any = None) -> Any:
        """Draws the histogram and the random model with matplotlib; returns the axes.

        >>> import splitpoint.lab
        >>> study = splitpoint.lab.hash_functions([b"a", b"b"], functions=["crc32c"], speed=False)
        >>> axes = study["crc32c"].plot()  # doctest: +SKIP
        """
        from matplotlib import pyplot

        axes = pyplot.subplots()[1] if axes is None else axes
        sizes = [size.size for size in self.level.histogram]
        axes.bar(sizes, [size.buckets for size in self.level.histogram], label=self.name)
        axes.plot(sizes, [size.expected_buckets for size in self.level.histogram], "k.", label="random")
        axes.set_xlabel("keys in a bucket")
        axes.set_ylabel("buckets")
        axes.legend()
        return axes

    def _repr_html_(self) -> str:
        title = f"{self.name}: {self.level.objects:,} keys in {self.level.buckets:,} buckets, {self.spread}"
        return f"<h4>{html.escape(title)}</h4>" + _plots.histogram(
            [(size.size, size.buckets, size.expected_buckets) for size in self.level.histogram]
        )


@dataclasses.dataclass(frozen=True)
class Advice:
    """What to use for these keys, and why."""

    function: str
    buckets: int
    text: str


@dataclasses.dataclass(frozen=True, repr=False)
class HashStudy:
    """Hash functions compared on keys, best first; made by :func:`hash_functions`."""

    keys: int
    key_bytes: int
    shortest: int
    longest: int
    duplicates: int
    duplicates_estimated: bool
    functions: list[FunctionReport]
    advice: Advice

    def __repr__(self) -> str:
        names = ", ".join(function.name for function in self.functions)
        return f"HashStudy({self.keys:,} keys, functions: {names}; {self.advice.text})"

    def __getitem__(self, name: str) -> FunctionReport:
        for function in self.functions:
            if function.name == name:
                return function
        raise errors.AbsentKeyError(name)

    def rows(self) -> list[dict[str, Any]]:
        """One row per function, as the table in a notebook shows them.

        >>> import splitpoint.lab
        >>> study = splitpoint.lab.hash_functions([b"a", b"b"], functions=["crc32c"], speed=False)
        >>> study.rows()[0]["function"]
        'crc32c'
        """
        return [
            {
                "function": function.name,
                "spread": function.spread,
                "buckets": function.level.buckets,
                "empty": function.level.empty,
                "largest": function.level.largest,
                "successful": function.level.compared_successful,
                "unsuccessful": function.level.compared_unsuccessful,
                "chi_square": function.level.chi_square,
                "p_value": function.level.p_value,
                "avalanche": function.avalanche.mean_bias if function.avalanche else None,
                "ns": function.ns_per_hash,
            }
            for function in self.functions
        ]

    def to_frame(self) -> Any:
        """One row per function, as a pandas DataFrame.

        >>> import splitpoint.lab
        >>> study = splitpoint.lab.hash_functions([b"a", b"b"], functions=["crc32c", "xxh3"], speed=False)
        >>> sorted(study.to_frame().index)
        ['crc32c', 'xxh3']
        """
        import pandas

        return pandas.DataFrame(self.rows()).set_index("function")

    def _repr_html_(self) -> str:
        best = self.functions[0]
        summary = f"{self.keys:,} keys of {self.shortest} to {self.longest} bytes. {self.advice.text}"
        return f"<p>{html.escape(summary)}</p>{_plots.table(self.rows())}{best._repr_html_()}"


def hash_functions(
    keys: Any,
    functions: Optional[Sequence[str]] = None,
    *,
    bits: Optional[int] = None,
    buckets: Optional[int] = None,
    seed: int = 0,
    memory_bytes: int = 1 << 30,
    threads: Optional[int] = None,
    keys_shown: int = 10,
    speed: bool = True,
) -> HashStudy:
    """Compares hash functions on ``keys``: buckets, comparisons, chi-square, avalanche, nanoseconds.

    ``keys`` is an iterable of bytes or str (a table or dictionary too), or an Arrow array or stream; all are held in
    memory. ``functions`` has names, by default all of the library. The table has 2 to the power ``bits`` or ``buckets``
    buckets, by default as many as keys. Without ``speed`` equal keys give equal results.

    >>> import splitpoint.lab
    >>> study = splitpoint.lab.hash_functions((str(i) for i in range(1000)), ["xxh3", "crc32c"], speed=False)
    >>> study.advice.function in ("xxh3", "crc32c"), study["xxh3"].level.buckets
    (True, 1024)
    """
    names = None if functions is None else list(functions)
    found = lab_hash(_keys(keys), names, bits, buckets, seed, memory_bytes, threads, keys_shown, speed)
    found["functions"] = [_function(function) for function in found["functions"]]
    found["advice"] = Advice(**found["advice"])
    return HashStudy(**found)


def _keys(keys: Any) -> Any:
    _inputs.refuse_objects(keys)
    # A table has an Arrow stream too, of pairs.
    return iter(keys) if isinstance(keys, Mapping) else keys


def _function(found: dict[str, Any]) -> FunctionReport:
    found["levels"] = [_level(level) for level in found["levels"]]
    if found["avalanche"] is not None:
        found["avalanche"] = Avalanche(**found["avalanche"])
    return FunctionReport(**found)


def _level(found: dict[str, Any]) -> Level:
    found["histogram"] = [Size(*row) for row in found["histogram"]]
    found["layouts"] = {name: cost and Cost(*cost) for name, cost in found["layouts"].items()}
    return Level(**found)


@dataclasses.dataclass(frozen=True)
class Point:
    """A scheme with some of the keys. Costs are in pages for schemes on disk, in entries for schemes in memory."""

    keys: int
    refused: int
    touched_per_successful: Optional[float]
    touched_per_unsuccessful: float
    touched_per_successful_most: int
    pairs: int
    pair_bytes: int
    store_bytes: int
    file_bytes: int
    addressing_bytes: int
    splits: int
    longest_pause: int
    utilisation_percent: float


@dataclasses.dataclass(frozen=True)
class Scheme:
    """One access method, as keys are inserted."""

    name: str
    on_disk: bool
    function: str
    points: list[Point] = dataclasses.field(repr=False)
    #: Reasons why keys could not be stored, and the number of keys for each.
    refusals: list[tuple[str, int]]
    #: The number of keys at which the model became too slow; ``None`` if it never did.
    given_up_at: Optional[int]


@dataclasses.dataclass(frozen=True, repr=False)
class SchemeStudy:
    """A comparison of access methods; made by :func:`schemes`."""

    schemes: list[Scheme]

    def __repr__(self) -> str:
        return f"SchemeStudy({', '.join(scheme.name for scheme in self.schemes)})"

    def __getitem__(self, name: str) -> Scheme:
        for scheme in self.schemes:
            if scheme.name == name:
                return scheme
        raise errors.AbsentKeyError(name)

    def to_frame(self) -> Any:
        """One row per scheme and point, as a pandas DataFrame.

        >>> import splitpoint.lab
        >>> frame = splitpoint.lab.schemes([str(i) for i in range(100)], ["sdbm"]).to_frame()
        >>> int(frame["pairs"].max())
        100
        """
        import pandas

        rows = [
            {"scheme": scheme.name, "function": scheme.function, **dataclasses.asdict(point)}
            for scheme in self.schemes
            for point in scheme.points
        ]
        return pandas.DataFrame(rows)

    def _repr_html_(self) -> str:
        names = (
            "keys",
            "refused",
            "touched_per_successful",
            "touched_per_unsuccessful",
            "addressing_bytes",
            "utilisation_percent",
            "longest_pause",
        )
        rows = [
            {
                "scheme": scheme.name,
                "unit": "pages" if scheme.on_disk else "entries",
                **{name: getattr(scheme.points[-1], name) for name in names},
            }
            for scheme in self.schemes
            if scheme.points
        ]
        lines = [
            (scheme.name, [(point.keys, point.touched_per_successful or 0.0) for point in scheme.points])
            for scheme in self.schemes
        ]
        return _plots.table(rows) + _plots.lines("keys", "pages or entries of a successful lookup", lines)


def schemes(
    keys: Any,
    names: Optional[Sequence[str]] = None,
    *,
    value_bytes: int = 8,
    page_bytes: int = 1024,
    nelem: Optional[int] = None,
    fill_factor: Optional[int] = None,
    function: Optional[str] = None,
    points: int = 12,
) -> SchemeStudy:
    """Inserts ``keys`` into models of dbm, sdbm, gdbm, hsearch, dynahash, the 1991 package and Splitpoint's table.

    ``names`` chooses some of them. All values have ``value_bytes``. ``nelem`` is the declared size for tables that need
    one, by default the number of keys.

    >>> import splitpoint.lab
    >>> study = splitpoint.lab.schemes([str(i) for i in range(5000)], ["splitpoint", "sdbm"])
    >>> study["splitpoint"].points[-1].touched_per_successful < 2
    True
    """
    chosen = None if names is None else list(names)
    found = lab_schemes(_keys(keys), chosen, value_bytes, page_bytes, nelem, fill_factor, function, points)
    for scheme in found:
        scheme["points"] = [Point(**point) for point in scheme["points"]]
    return SchemeStudy([Scheme(**scheme) for scheme in found])


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a table."""

    page_bytes: int
    fill_factor: Optional[int]
    hash: str
    presized: bool

    def options(self, pairs: Optional[int] = None) -> dict[str, Any]:
        """These settings as options of :func:`splitpoint.open`, sized for ``pairs`` pairs if they advise presizing.

        >>> import splitpoint.lab
        >>> splitpoint.lab.Settings(4096, 8, "xxh3", False).options()
        {'page_bytes': 4096, 'hash': 'xxh3', 'fill_factor': 8}
        """
        options: dict[str, Any] = {"page_bytes": self.page_bytes, "hash": self.hash}
        if self.fill_factor is not None:
            options["fill_factor"] = self.fill_factor
        if self.presized and pairs is not None:
            options["expected_len"] = pairs
        return options


@dataclasses.dataclass(frozen=True)
class Tried:
    """Settings and their figures: the medians of the rounds. A score below 1 is better than the default."""

    settings: Settings
    load_ns: float
    get_ns: float
    file_bytes_per_pair: float
    score: float


@dataclasses.dataclass(frozen=True)
class TriedFunction:
    """A hash function on the keys, and the score of tables with it."""

    name: str
    hash_ns: float
    dispersion: float
    uneven: bool
    largest_bucket: int
    score: float


@dataclasses.dataclass(frozen=True)
class Cached:
    """Lookups with a cache of one size."""

    share: float
    cache_bytes: int
    get_ns: float
    reads_per_get: float


@dataclasses.dataclass(frozen=True)
class Tuning:
    """Which settings suit the pairs; made by :func:`tune`."""

    pairs: int
    rounds: int
    sweep: list[Tried] = dataclasses.field(repr=False)
    functions: list[TriedFunction] = dataclasses.field(repr=False)
    caches: list[Cached] = dataclasses.field(repr=False)
    #: Scores closer to 1 than this do not differ from the default.
    noise: float
    advice: Settings

    def to_frame(self) -> Any:
        """The sweep of page sizes and fill factors, as a pandas DataFrame.

        >>> import splitpoint.lab
        >>> tuning = splitpoint.lab.tune({str(i): "v" for i in range(600)}, seconds=0)
        >>> "get_ns" in tuning.to_frame().columns
        True
        """
        import pandas

        rows = [{**dataclasses.asdict(tried.settings), **_figures(tried)} for tried in self.sweep]
        return pandas.DataFrame(rows)

    def _repr_html_(self) -> str:
        best = sorted((tried for tried in self.sweep if tried.score == tried.score), key=lambda tried: tried.score)
        rows = [{**dataclasses.asdict(tried.settings), **_figures(tried)} for tried in best[:10]]
        advice = f"Advice: {self.advice.options()}. Scores within {self.noise:.2f} of 1 do not differ."
        return f"<p>{html.escape(advice)}</p>{_plots.table(rows)}"


def _figures(tried: Tried) -> dict[str, Any]:
    names = ("load_ns", "get_ns", "file_bytes_per_pair", "score")
    return {name: getattr(tried, name) for name in names}


def tune(
    pairs: Any,
    *,
    key: Optional[str] = None,
    value: Optional[str] = None,
    seconds: float = 20.0,
    sample_bytes: int = 256 << 20,
    directory: Optional[_inputs.Path] = None,
) -> Tuning:
    """Measures for about ``seconds`` which page size, fill factor, cache and hash function suit ``pairs``.

    ``pairs``, ``key`` and ``value`` are what :meth:`Table.update_many <splitpoint.Table.update_many>` takes; a random
    sample of at most ``sample_bytes`` is kept. A file for the caches is written in ``directory``.

    >>> import splitpoint.lab
    >>> tuning = splitpoint.lab.tune({str(i): "value" for i in range(600)}, seconds=0)
    >>> tuning.advice.page_bytes >= 512
    True
    """
    source = _inputs.pairs_of(pairs, key, value)
    with tempfile.TemporaryDirectory(dir=None if directory is None else _inputs.path_of(directory)) as place:
        found = lab_tune(source, key, value, seconds, sample_bytes, place)
    found["sweep"] = [Tried(Settings(*settings), *figures) for settings, figures in found["sweep"]]
    found["functions"] = [TriedFunction(*function) for function in found["functions"]]
    found["caches"] = [Cached(*cache) for cache in found["caches"]]
    found["advice"] = Settings(*found["advice"])
    return Tuning(**found)


__all__ = [
    "Advice",
    "Avalanche",
    "Cached",
    "Cost",
    "FunctionReport",
    "HashStudy",
    "Level",
    "Point",
    "Scheme",
    "SchemeStudy",
    "Settings",
    "Size",
    "Tried",
    "TriedFunction",
    "Tuning",
    "hash_functions",
    "schemes",
    "tune",
]
