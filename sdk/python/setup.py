"""A build in a checkout packs the modules that are there, and none that an earlier build left.

setuptools copies modules into `build/lib` and packs all that it finds in that folder, so a module
that was deleted since the last build would come back. All else is in pyproject.toml.
"""

from __future__ import annotations

import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildAnew(build_py):
    """The step that copies the modules, into an empty folder."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": BuildAnew})
