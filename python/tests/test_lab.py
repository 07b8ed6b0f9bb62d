"""The lab: the same results as on the command line, as dataclasses, frames and plots."""

from __future__ import annotations

import dataclasses
import os
import xml.etree.ElementTree

import pytest
import splitpoint
from splitpoint import lab

WORDS = [f"user:{i}:name" for i in range(20_000)]


def test_hash_functions_on_keys_of_every_source():
    table = splitpoint.memory()
    table.update((word, "") for word in WORDS)
    study = lab.hash_functions(WORDS, ["xxh3", "djb2"], speed=False)
    assert (study.keys, study.duplicates, study.shortest, study.longest) == (20_000, 0, 11, 15)
    for source in (iter(WORDS), [word.encode() for word in WORDS]):
        assert lab.hash_functions(source, ["xxh3", "djb2"], speed=False) == study
    level = study["xxh3"].level
    assert (level.buckets, level.objects) == (32768, 20_000)
    assert sum(size.buckets for size in level.histogram) == level.buckets
    assert sum(size.objects for size in level.histogram) == level.objects
    assert level.histogram[0].buckets == level.empty and level.histogram[-1].size == level.largest
    assert level.empty == pytest.approx(level.expected_empty, rel=0.05)
    assert study["xxh3"].spread == "as random" and 0 < study["xxh3"].level.p_value < 1
    assert {cost for cost in level.layouts} == {"chains", "linear", "pages"}
    of_table = lab.hash_functions(table, ["xxh3"], speed=False)["xxh3"].level
    assert of_table == level
    pa = pytest.importorskip("pyarrow")
    assert lab.hash_functions(pa.array(WORDS), ["xxh3", "djb2"], speed=False) == study


def test_options_and_what_is_wrong():
    study = lab.hash_functions(WORDS[:100], bits=4, keys_shown=2, seed=5)
    assert all(function.level.buckets == 16 and len(function.largest_keys) == 2 for function in study.functions)
    assert all(function.ns_per_hash and function.ns_by_length for function in study.functions)
    assert lab.hash_functions(WORDS[:100], buckets=7, speed=False).functions[0].level.buckets == 7
    for wrong in (
        lambda: lab.hash_functions([]),
        lambda: lab.hash_functions(WORDS, ["md5"]),
        lambda: lab.hash_functions(WORDS, []),
        lambda: lab.hash_functions(WORDS, bits=3, buckets=4),
        lambda: lab.schemes([]),
        lambda: lab.schemes(WORDS, ["btree"]),
        lambda: lab.schemes(WORDS, page_bytes=5),
        lambda: lab.tune({}),
        lambda: lab.tune({"a": "b"}, seconds=-1),
    ):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError):
        lab.hash_functions([5])
    with pytest.raises(KeyError):
        study["nothing"]


def test_reports_have_short_representations():
    keys = [os.urandom(300) for _ in range(200)]
    study = lab.hash_functions(keys, speed=False)
    tuning = lab.tune({key: "" for key in keys}, seconds=0)
    table = splitpoint.memory()
    table.update((key, key * 100) for key in keys)
    found = table.get_many(numpy_array(keys))
    for report in (study, *study.functions, study.functions[0].level, lab.schemes(keys), tuning, table.stats(), found):
        assert len(repr(report)) < 1500, repr(report)[:2000]
    assert "200 keys" in repr(study) and "xxh3" in repr(study)


def numpy_array(keys):
    return pytest.importorskip("numpy").array(keys)


def test_schemes_and_tuning():
    study = lab.schemes(WORDS[:5000], page_bytes=512, points=5)
    assert {"dbm", "gdbm", "hsearch", "dynahash", "splitpoint"} <= {scheme.name for scheme in study.schemes}
    ours = study["splitpoint"].points[-1]
    assert (ours.keys, ours.pairs, ours.refused) == (5000, 5000, 0)
    tuning = lab.tune({word: word for word in WORDS[:1000]}, seconds=0)
    assert tuning.pairs >= 500 and tuning.rounds == 1 and len(tuning.caches) > 1
    assert splitpoint.memory(**tuning.advice.options(1000)).stats().page_bytes == tuning.advice.page_bytes


def test_notebooks_show_tables_and_plots():
    study = lab.hash_functions(WORDS[:2000] + ["<script>"], ["xxh3", "crc32c"])
    shown = [study, study["xxh3"], lab.schemes(WORDS[:2000]), lab.tune({word: "" for word in WORDS[:600]}, seconds=0)]
    for report in shown:
        page = report._repr_html_()
        assert "<script>" not in page
        xml.etree.ElementTree.fromstring(f"<div>{page}</div>")
    assert all("<svg" in report._repr_html_() for report in shown[:3])
    assert dataclasses.asdict(study)["functions"][0]["name"] in ("xxh3", "crc32c")


def test_frames_and_plots_of_other_libraries():
    pandas = pytest.importorskip("pandas")
    study = lab.hash_functions(WORDS, ["xxh3", "crc32c"], speed=False)
    assert isinstance(study.to_frame(), pandas.DataFrame)
    assert int(study["xxh3"].to_frame()["buckets"].sum()) == study["xxh3"].level.buckets
    assert set(lab.schemes(WORDS[:100], ["dbm"]).to_frame()["scheme"]) == {"dbm"}
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = study["xxh3"].plot()
    assert len(axes.patches) == len(study["xxh3"].level.histogram)
    matplotlib.pyplot.close(axes.figure)
