"""Packages of the wheel: the repository's top-level packages, below one of our own name.

An environment that has the server may belong to a project with folders such as `auth` or `gateway`.
So the wheel has `packetboat_server`, and in it what lies at the top of this repository; only
processes of the server have that folder on their path. All else is in pyproject.toml.
"""

from setuptools import find_packages, setup

ABOVE = "packetboat_server"
NOT_INSTALLED = ("benchmarks*", "examples*", "harness*", "tests*")
parts = find_packages(exclude=NOT_INSTALLED)
tops = [part for part in parts if "." not in part]
setup(
    packages=[ABOVE, *(f"{ABOVE}.{part}" for part in parts)],
    package_dir={ABOVE: f"deploy/{ABOVE}"} | {f"{ABOVE}.{top}": top for top in tops},
)
