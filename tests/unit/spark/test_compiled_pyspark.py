"""Where a driver finds pyspark: in compiled files of the same installation, and in the archive where there are none."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

MODULE = Path(__file__).parents[3] / "supervisor" / "spark" / "compiled_pyspark.py"
FILES = {
    "pyspark/__init__.py": "",
    "pyspark/version.py": "__version__ = '4.3.0'\n",
    "pyspark/sql/__init__.py": "",
    "pyspark/sql/session.py": "WHERE = __file__\n",
}
SAYS = """
import importlib.util, pkgutil, sys
before = list(sys.path)
spec = importlib.util.spec_from_file_location("compiled_pyspark", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.use_compiled_pyspark()
assert sys.path == before
import beside_it, pyspark.sql.session
assert beside_it.__file__.startswith(sys.argv[2]), beside_it.__file__
assert {each.name for each in pkgutil.iter_modules([sys.argv[2]])} == {"beside_it", "pyspark"}
importlib.invalidate_caches()
print(pyspark.sql.session.WHERE)
"""


def write_files(directory: Path) -> None:
    for name, text in FILES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


class Installation:
    """A SPARK_HOME with the archive, and its files in ``directory``."""

    def __init__(self, home: Path, directory: Path) -> None:
        self.archive, self.directory = home / "python" / "lib" / "pyspark.zip", directory
        self.archive.parent.mkdir(parents=True)
        with zipfile.ZipFile(self.archive, "w") as archive:
            for name, text in {**FILES, "beside_it.py": ""}.items():
                archive.writestr(name, text)
        write_files(directory)

    def compile(self) -> None:
        """Does what pip does, and what the page says of an unpacked distribution."""
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(self.directory)], check=True)

    def run(self, *before: Path) -> subprocess.CompletedProcess[str]:
        """Imports pyspark with ``before`` and then the archive on the path."""
        return subprocess.run(
            [sys.executable, "-c", SAYS, str(MODULE), str(self.archive)],
            env={"PYTHONPATH": ":".join(map(str, (*before, self.archive)))},
            capture_output=True,
            text=True,
            check=False,
        )

    def finds(self, *before: Path) -> Path:
        """Where pyspark is found."""
        ran = self.run(*before)
        assert ran.returncode == 0, ran.stderr
        return Path(ran.stdout.strip())


@pytest.fixture
def of_pip(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "site-packages" / "pyspark", tmp_path / "site-packages")


@pytest.fixture
def unpacked(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "spark", tmp_path / "spark" / "python")


@pytest.mark.parametrize("kind", ["of_pip", "unpacked"])
def test_compiled_files_of_the_installation_are_used(kind: str, request: pytest.FixtureRequest) -> None:
    installation: Installation = request.getfixturevalue(kind)
    installation.compile()
    assert installation.finds() == installation.directory / "pyspark" / "sql" / "session.py"


def test_without_compiled_files_the_archive_is_used_and_nothing_is_written(of_pip: Installation) -> None:
    assert str(of_pip.finds()).startswith(str(of_pip.archive))
    assert not list(of_pip.directory.rglob("__pycache__"))


def test_files_of_another_version_are_not_used(of_pip: Installation) -> None:
    (of_pip.directory / "pyspark" / "version.py").write_text("__version__ = '4.2.0'\n")
    of_pip.compile()
    assert str(of_pip.finds()).startswith(str(of_pip.archive))


def test_a_directory_without_the_version_is_not_used(of_pip: Installation) -> None:
    of_pip.compile()
    (of_pip.directory / "pyspark" / "version.py").unlink()
    assert "FileNotFoundError" in of_pip.run().stderr, "the bootstrap says so, and goes on"


def test_a_package_that_stands_before_the_archive_is_used_as_ever(
    of_pip: Installation, tmp_path: Path
) -> None:
    of_pip.compile()
    mine = tmp_path / "mine"
    write_files(mine)
    assert of_pip.finds(mine) == mine / "pyspark" / "sql" / "session.py"
