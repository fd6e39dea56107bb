"""All settings are in pyproject.toml; this says the one thing that cannot be said there.

The lessons are scripts to be read and changed: they belong to a clone, where an editable install finds them. A wheel
leaves them out, so that nobody gets a top-level package `lessons` into an environment."""

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

CLONE_ONLY = "lessons"


class BuildWithoutLessons(build_py):
    def run(self):
        if not self.editable_mode:
            self.packages = [name for name in self.packages if name.partition(".")[0] != CLONE_ONLY]
        super().run()


class EggInfo(egg_info):
    """top_level.txt without what the wheel does not have."""

    def run(self):
        super().run()
        self.write_file("top level names", f"{self.egg_info}/top_level.txt", "autograd\nkernels\nminitransformer\n")


setup(cmdclass={"build_py": BuildWithoutLessons, "egg_info": EggInfo})
