"""Says to a driver where it may put what: its temporary directory, and its warehouse.

**Temporary.** Spark, RocksDB, zstd, snappy and Python leave block managers, state stores and unpacked native libraries in
their temporary directory when they are killed. So each driver has one of its own, which goes with it. It is said as
``java.io.tmpdir``: Spark's local directories are there, too, unless somebody says otherwise, and it is about the driver's
JVM alone (``spark.local.dir`` would reach the executors of a cluster).

**Warehouse.** Without a word Spark has it in the working directory. That is said explicitly, unless a metastore of Hive
has a say.

What job or host say wins: then the directory is theirs, with what is left in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from supervisor.model.spark_session import OPTION_PROPERTIES, OPTION_VARIABLES
from supervisor.spark.class_archive.choice import OPTIONS_KEY

OPTION: Final = "-Djava.io.tmpdir="
TMPDIR: Final = "TMPDIR"
WAREHOUSE_KEY: Final = "spark.sql.warehouse.dir"
WAREHOUSE: Final = "spark-warehouse"
HIVE_KEY: Final = "hive.metastore.warehouse.dir"
HIVE_SITE: Final = "hive-site.xml"


def with_directories(
    properties: Mapping[str, str], env: Mapping[str, str], scratch: Path, cwd: Path
) -> dict[str, str]:
    """Returns ``properties`` with what they do not say of these places."""
    return {
        **warehouse_of(cwd, properties, env),
        **properties,
        **with_scratch(properties, env, scratch),
    }


def with_scratch(conf: Mapping[str, str], env: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Returns the property by which the driver's JVM gets ``scratch``; nothing if it is told of another one, or the path
    can't be written into an option."""
    given = [conf.get(key, "") for key in OPTION_PROPERTIES] + [
        env.get(name, "") for name in OPTION_VARIABLES
    ]
    path = str(scratch)
    if any(OPTION in text for text in given) or any(mark in path for mark in "\"\\'"):
        return {}
    option = f'"{OPTION}{path}"' if " " in path else f"{OPTION}{path}"
    return {OPTIONS_KEY: " ".join(filter(None, (option, conf.get(OPTIONS_KEY, "").strip())))}


def warehouse_of(cwd: Path, conf: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Returns the property that says where the warehouse is; nothing if that is said otherwise, or Hive may say it: Spark
    would take the property for more than what Hive says."""
    if WAREHOUSE_KEY in conf or any(key.endswith(HIVE_KEY) for key in conf) or " " in str(cwd):
        return {}
    conf_dirs = (
        env.get("SPARK_CONF_DIR") or f"{env.get('SPARK_HOME', '')}/conf",
        env.get("HADOOP_CONF_DIR", ""),
    )
    if any(directory and (Path(directory) / HIVE_SITE).exists() for directory in conf_dirs):
        return {}
    return {WAREHOUSE_KEY: f"file://{cwd}/{WAREHOUSE}"}
