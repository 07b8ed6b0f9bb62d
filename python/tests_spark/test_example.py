"""The example of Spark and three servers, at a small size."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "spark_to_cluster.py"


@pytest.mark.timeout(300)
def test_three_servers_give_back_what_spark_wrote():
    program = os.environ.get("SPLITPOINT")
    if program is None:
        pytest.skip("SPLITPOINT does not name the program splitpoint")
    arguments = ["--rows", "20000", "--master", "local[2]", "--splitpoint", program]
    done = subprocess.run([sys.executable, EXAMPLE, *arguments], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Spark built a dictionary of 20,000 pairs" in done.stdout
    assert "3 servers gave all of them back" in done.stdout
