"""The tutorial is followed to the letter, against the ``dev`` that it starts: each command, and what it prints.

What differs from run to run (numbers, ids, who leads, the directory) is made equal on both sides; ``...`` in the page
stands for anything, as in a doctest.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.program import LONG_S, Running, Start
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

PAGE = Path(__file__).resolve().parents[2] / "supervisor" / "docs" / "tutorial.md"
BLOCKS = re.findall(r"```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE.read_text(), re.DOTALL)
INSTALL = BLOCKS[0][0]
READS = (
    "cat ",
    "grep ",
    "tail ",
    *(f"spark-supervisor {word}" for word in ("status", "list", "show", "explain", "history", "diff")),
)
"""What only reads is asked again until it prints what the page shows: a command returns before its effect is complete."""

VARIES = {
    r"/\S*?/spark-supervisor-dev-\w+": "DIRECTORY",
    r"\b[0-9a-z]{12}-[0-9a-f]{8}\b": "UID",
    r"\b\d{4}-\d\d-\d\dT[\d:.]+Z": "TIME",
    r"\d+(?:\.\d+)*[smh]?\b": "0",
    r"\b(?:alpha|beta)\b": "SUPERVISOR",
    r"\bvm\b": "HOST",
    r"\byes\b": "-",
    r"127[\d.:,]+": "0",
}


def _same(text: str, host: str) -> str:
    text = text.replace(host, "vm")
    for pattern, word in VARIES.items():
        text = re.sub(pattern, word, text)
    return text


class Reader:
    """Somebody at the second terminal, as ``dev`` told to set it up."""

    def __init__(self, dev: Running, home: Path) -> None:
        self.dev = dev
        config = re.search(r"export SPARK_SUPERVISOR_CONFIG=(\S+)", dev.text)
        assert config is not None, dev.text
        program = home / "bin" / "spark-supervisor"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m supervisor.cli.main "$@"\n')
        program.chmod(0o755)
        self.environ = os.environ | {
            "SPARK_SUPERVISOR_CONFIG": config[1],
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "COLUMNS": "250",
        }
        self.host = str(self.document("status")["supervisors"][0]["host"])

    def type(self, line: str) -> str:
        """What it prints on standard output."""
        ran = subprocess.run(
            ["bash", "-c", self._with_pids(line)],
            cwd=self.dev.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
        )
        assert ran.returncode == 0 or line.startswith(READS), f"{line}: {ran.stderr}"
        return ran.stdout

    def document(self, *words: str) -> dict[str, object]:
        document = json.loads(self.type(f"spark-supervisor {' '.join(words)} -o json"))
        assert isinstance(document, dict)
        return document

    def follow(self, typed: str, printed: str) -> None:
        """Type the lines of a block, and find below it what the page shows."""
        lines = typed.splitlines()
        outputs = [self.type(line) for line in lines]

        def is_as_shown() -> bool:
            if _is_match(_same(printed, self.host), _same("".join(outputs), self.host)):
                return True
            for n, line in enumerate(lines):
                if line.startswith(READS):
                    outputs[n] = self.type(line)
            return False

        if printed:
            wait_until(is_as_shown, LONG_S, f"\n{printed}\nafter\n{typed}\n{outputs}", period_s=1.0)

    def _with_pids(self, line: str) -> str:
        if "DRIVER_PID" in line:
            line = line.replace("DRIVER_PID", str(self.document("show", "clicks")["driver_pid"]))
        if "LEADER_PID" in line:
            leader = self.document("status")["leader"]
            pids = re.findall(rf"{leader} .*?pid:? (\d+)", self.dev.text)
            line = line.replace("LEADER_PID", pids[-1])
        return line


def _is_match(want: str, got: str) -> bool:
    return doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def test_what_the_tutorial_shows_is_what_is_seen(start: Start, tmp_path: Path) -> None:
    assert INSTALL.splitlines()[-1] == ".venv/bin/spark-supervisor dev"
    dev = start("dev")
    dev.wait_for("Ctrl-C here ends everything")
    reader = Reader(dev, tmp_path)
    for typed, printed in BLOCKS[1:]:
        reader.follow(typed, printed)
    _nothing_was_lost_or_counted_twice(dev.directory / "record.jsonl")


def _nothing_was_lost_or_counted_twice(record: Path) -> None:
    """Each batch added what one batch reads; a batch that was repeated in the same checkpoint came to the same total."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    for before, after in zip(lines, lines[1:], strict=False):
        if after["batch_id"] > before["batch_id"]:
            added = after["total"] - before["total"]
            assert after["batch_id"] == before["batch_id"] + 1 and added in (500, 1000), (before, after)


@pytest.mark.parametrize("printed", [printed for _, printed in BLOCKS if printed])
def test_a_sample_of_the_page_matches_itself_and_not_another(printed: str) -> None:
    assert _is_match(_same(printed, "vm"), _same(printed.replace("...", " x"), "vm"))
    assert not _is_match(_same(printed, "vm"), "")
