"""Figures of tables and dictionaries, as dataclasses."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Optional


@dataclasses.dataclass(frozen=True)
class TableStats:
    """The figures of a table, made by :meth:`Table.stats <splitpoint.Table.stats>`; bytes unless the name says else."""

    pairs: int
    buckets: int
    page_bytes: int
    frame_bytes: int
    file_bytes: int
    payload_bytes: int
    bucket_bytes: int
    overflow_pages: int
    overflow_bytes: int
    overflow_pairs: int
    extents: int
    extent_bytes: int
    free_bytes: int
    fill_percent: float
    fill_target_percent: float
    fill_factor: Optional[int]
    hash: str
    seed: int
    histogram: list[tuple[int, int]] = dataclasses.field(repr=False)
    largest_bucket: int
    empty_buckets: int
    memory_bytes: int
    splits: int
    merges: int

    def to_frame(self) -> Any:
        """The number of buckets for each number of pairs, as a pandas DataFrame.

        >>> import splitpoint
        >>> list(splitpoint.memory().stats().to_frame().columns)
        ['pairs', 'buckets']
        """
        import pandas

        return pandas.DataFrame(self.histogram, columns=["pairs", "buckets"])


@dataclasses.dataclass(frozen=True)
class TableCounters:
    """Activity since a table was opened, and its size now, by :meth:`Table.counters <splitpoint.Table.counters>`.

    Figures of lookups are estimates from samples, multiples of 512; the rest is counted exactly.
    """

    pairs: int
    payload_bytes: int
    buckets: int
    file_bytes: int
    memory_bytes: int
    hits: int
    hit_pages: int
    hit_keys: int
    misses: int
    miss_pages: int
    miss_keys: int
    overflow_lookups: int
    puts: int
    removals: int
    splits: int
    merges: int
    checkpoints: int
    frames_read: int
    frames_written: int
    evictions: int
    latch_waits: int


@dataclasses.dataclass(frozen=True)
class SalvageReport:
    """The result of :func:`splitpoint.salvage`."""

    #: Pairs that checksums prove to be right, and other pairs, which are most likely right.
    verified: int
    unverified: int
    #: The number of pairs according to the file's header; ``None`` if that is damaged.
    counted: Optional[int]
    lost_buckets: int
    losses: int
    conflicts: int
    #: Whether the log has, or may have, changes since the last checkpoint, which are not salvaged.
    log_unread: bool
    #: What is damaged, in words.
    faults: list[str]

    @property
    def missing(self) -> Optional[int]:
        """The number of pairs of the last checkpoint that are lost; ``None`` if the header is damaged."""
        return None if self.counted is None else max(self.counted - self.verified - self.unverified, 0)

    @property
    def is_whole(self) -> bool:
        """Whether it is certain that every pair was found."""
        return not self.log_unread and self.unverified == 0 and self.counted == self.verified


@dataclasses.dataclass(frozen=True)
class DictionaryStats:
    """The sizes of a dictionary, made by :meth:`Dictionary.stats <splitpoint.Dictionary.stats>`."""

    shards: int
    pairs: int
    file_bytes: int
    data_bytes: int
    key_bytes: int
    value_bytes: int
    pages: int
    page_bytes: int
    index: str
    index_details: dict[str, float]
    index_bytes: int
    ranks_bytes: int
    index_bits_per_key: float
    filter_bits: int
    filter_bytes: int
    fixed_lengths: Optional[tuple[int, int]]
    key_len: tuple[int, int]
    value_len: tuple[int, int]
    compression: str
    order: str
    hash: str
    hash_seed: int


@dataclasses.dataclass(frozen=True)
class ShardInfo:
    """A file of a dictionary, and the slots whose keys it has: :meth:`Dictionary.shards <splitpoint.Dictionary.shards>`."""

    number: int
    path: os.PathLike[str]
    first_slot: int
    last_slot: int
    pairs: int
