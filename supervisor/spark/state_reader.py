"""Opens the state of streaming checkpoints with Spark's own state data source, and counts its rows. This is a
Spark application.

It is run by spark-submit (``spark.state_reading``) and never imported: ``state_reader.py TASK ANSWER``. TASK
is a JSON file, ``{"queries": [{"location", "batch", "format"}]}``, and asks for the state after that batch.
ANSWER is the file that is written in the end, ``{"queries": [{"location", "stores": [{"operator", "name",
"store", "partitions", "rows", "error"}]}], "error"}``. It only reads, and uses only the standard library and
pyspark.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import Observation, SparkSession
from pyspark.sql.functions import count as counted
from pyspark.sql.functions import lit

ERROR_MAX_CHARS = 600
FORMAT_KEY = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text())
    answer: dict[str, Any] = {"queries": [], "error": None}
    try:
        spark = SparkSession.builder.appName("spark-supervisor savepoint verify").getOrCreate()
        answer["queries"] = [
            {
                "location": query["location"],
                "stores": stores_of(spark, query["location"], query["batch"], query["format"]),
            }
            for query in task["queries"]
        ]
    except Exception as error:  # noqa: BLE001 - the edge of the process
        answer["error"] = error_text(error)
    Path(sys.argv[2]).write_text(json.dumps(answer))


def stores_of(spark: Any, location: str, batch: int, state_format: int) -> list[dict[str, Any]]:
    """Returns the stores of a query; a query without state has none. Raises what Spark does when the
    operators' metadata cannot be read."""
    spark.conf.set(FORMAT_KEY, str(state_format))  # the reader asks the session, not the checkpoint
    operators = spark.read.format("state-metadata").option("batchId", batch).load(location).collect()
    found = []
    for row in operators:
        for variable in variables_of(row):
            where = {
                "operatorId": row["operatorId"],
                "storeName": row["stateStoreName"],
                "batchId": batch,
                **variable,
            }
            store = {
                "operator": row["operatorId"],
                "name": row["operatorName"],
                "store": variable.get("stateVarName", row["stateStoreName"]),
                "partitions": row["numPartitions"],
                "rows": None,
                "error": None,
            }
            try:
                store["rows"] = count(spark, location, where)
            except Exception as error:  # noqa: BLE001 - the edge of one store
                store["error"] = error_text(error)
            found.append(store)
    return found


def count(spark: Any, location: str, where: dict[str, Any]) -> int:
    """Returns the number of rows. Every row of every partition is read, key and value, and dropped."""
    state = (
        spark.read.format("statestore")
        .options(**{key: str(value) for key, value in where.items()})
        .load(location)
    )
    seen = Observation()
    state.observe(seen, counted(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(seen.get["rows"])


def variables_of(row: Any) -> list[dict[str, str]]:
    """Returns the variables in the store: transformWithState has some, each of which is read by its name;
    other operators have none."""
    try:
        properties = json.loads(row["operatorProperties"] or "{}")
    except (ValueError, KeyError, TypeError):
        properties = {}
    names = [
        each.get("stateName", "") for each in properties.get("stateVariables", ()) if isinstance(each, dict)
    ]
    return [{"stateVarName": name} for name in names if name and not name.startswith("$")] or [{}]


def error_text(error: Exception) -> str:
    """Returns Spark's message without its stack."""
    lines = [
        line.strip()
        for line in str(error).splitlines()
        if line.strip() and not line.strip().startswith("at ")
    ]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    text = " | ".join([*lines[:1], *causes[-1:]])
    return f"{type(error).__name__}: {text}"[:ERROR_MAX_CHARS]


if __name__ == "__main__":
    main()
