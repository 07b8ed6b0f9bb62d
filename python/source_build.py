"""Builds the package from source: by maturin, which needs Rust.

Without Rust, maturin downloads a toolchain of 750 MB, and pip shows nothing meanwhile. Here that is an error that says what
to install, unless SPLITPOINT_FETCH_RUST is set.
"""

import os
import shutil

import maturin
from maturin import *  # noqa: F403  the other hooks are maturin's

MESSAGE = """\
This compiles Splitpoint from source, which takes Rust 1.89 or later, and there is none on PATH.
  * Install Rust (https://rust-lang.org/tools/install, or `apt install rustup`) and repeat, or
  * install a wheel for your platform, which needs no Rust: pip install --only-binary splitpoint splitpoint, or
  * set SPLITPOINT_FETCH_RUST=1 to let the build download a toolchain of its own, about 750 MB."""


def _need_rust():
    if shutil.which("cargo") is None and not os.environ.get("SPLITPOINT_FETCH_RUST"):
        raise SystemExit(MESSAGE)


def get_requires_for_build_wheel(config_settings=None):
    _need_rust()
    return maturin.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings=None):
    _need_rust()
    return maturin.get_requires_for_build_editable(config_settings)
