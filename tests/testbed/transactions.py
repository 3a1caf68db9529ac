"""What was committed, and by which session: read from the transaction log of a server of the embedded ensemble.

Independent of the product: the log is ZooKeeper's own, shown by ZooKeeper's own tool. For tests that must know that a
deposed leader wrote nothing. Takes a second (a Java process).
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from supervisor.demo.ensemble import EmbeddedEnsemble, find_class_path, find_java

_HEAD = re.compile(r"^.* session 0x([0-9a-f]+) cxid 0x[0-9a-f]+ zxid 0x([0-9a-f]+) (\S+)", re.MULTILINE)
_TOOL = "org.apache.zookeeper.server.persistence.TxnLogToolkit"


@dataclass(frozen=True)
class LoggedTransaction:
    """One transaction. ``kind``: ``multi``, ``setData``, ``createSession``, ``closeSession``, ``error`` …"""

    session: int
    zxid: int
    kind: str
    text: str


def committed(ensemble: EmbeddedEnsemble) -> list[LoggedTransaction]:
    """All that the leading server has in its logs, in the order of commit. A failed multi is there as ``error``."""
    logs = sorted((ensemble.directory / f"node{ensemble.leader()}" / "data" / "version-2").glob("log.*"))
    argv = [
        str(find_java()),
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-cp",
        find_class_path(),
        _TOOL,
        "-d",
    ]
    found = []
    for log in logs:
        shown = subprocess.run([*argv, str(log)], capture_output=True, timeout=60).stdout.decode(
            errors="replace"
        )
        heads = list(_HEAD.finditer(shown))
        ends = [head.start() for head in heads[1:]] + [len(shown)]
        for head, end in zip(heads, ends, strict=True):
            session, zxid, kind = head.groups()
            found.append(LoggedTransaction(int(session, 16), int(zxid, 16), kind, shown[head.start() : end]))
    return sorted(found, key=lambda each: each.zxid)
