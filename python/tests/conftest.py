"""Tables of both kinds for the tests, and directories for their files."""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Iterator

import pytest
import splitpoint


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "table.spt")


@pytest.fixture(params=["memory", "file"])
def table(request: pytest.FixtureRequest, path: str) -> Iterator[splitpoint.Table]:
    with splitpoint.memory(page_bytes=512) if request.param == "memory" else splitpoint.open(path) as table:
        yield table


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """Restores Ctrl-C as in a terminal: a shell starts background jobs with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def hypothesis_profile() -> None:
    from hypothesis import HealthCheck, settings

    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile("table", deadline=None, suppress_health_check=checks, print_blob=True)
    settings.load_profile("table")
