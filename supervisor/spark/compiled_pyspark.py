"""Has a driver import pyspark from files that are compiled already.

``spark-submit`` puts ``SPARK_HOME/python/lib/pyspark.zip`` on the path, and Python compiles what it imports from an archive
each time: 0.4 s of a start (docs/spark.md S36). Spark's installation has the same files in a directory, where Python keeps
the compiled ones beside them: in Spark's own distribution, or as the package that pip has installed.

``bootstrap`` loads this before the application, under whatever Python that runs (3.9 and later), and it imports nothing
outside the standard library. ``sys.path`` stays as it is: only where ``pyspark`` is found below the archive's entry is
another, so the files of its modules have other names.
"""

from __future__ import annotations

import importlib.util
import sys
import zipimport
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from typing import Any

ARCHIVE = Path("python", "lib", "pyspark.zip")
PACKAGE = "pyspark"
PROOF = Path(PACKAGE, "sql", "session.py")
"""A module that every driver needs: is it compiled for this Python, so is the rest."""
VERSION = Path(PACKAGE, "version.py")


class PySparkArchive(zipimport.zipimporter):
    """Finds what is in the archive ``path``, and the package pyspark in ``directory``."""

    def __init__(self, path: str, directory: Path) -> None:
        super().__init__(path)
        self._directory = FileFinder(str(directory), (SourceFileLoader, SOURCE_SUFFIXES))

    def find_spec(self, fullname: str, target: Any = None) -> Any:
        found = self._directory.find_spec(fullname) if fullname == PACKAGE else None
        return found or super().find_spec(fullname, target)


def use_compiled_pyspark() -> None:
    """Has pyspark imported from the directory, if that is of the same version and compiled for this Python. Raises OSError
    and ZipImportError; then it is imported from the archive, as ever."""
    entry = next((each for each in sys.path if Path(each).parts[-3:] == ARCHIVE.parts), None)
    if entry is None or not hasattr(zipimport.zipimporter, "find_spec"):  # before Python 3.10
        return
    home = Path(entry).parents[2]
    is_of_pip = home.name == PACKAGE and (home / "__init__.py").is_file()
    directory = home.parent if is_of_pip else home / "python"
    if not _is_compiled(directory):
        return
    archive = PySparkArchive(entry, directory)
    if archive.get_data(str(VERSION)) == (directory / VERSION).read_bytes():
        sys.path_importer_cache[entry] = archive


def _is_compiled(directory: Path) -> bool:
    return Path(importlib.util.cache_from_source(str(directory / PROOF))).is_file()
