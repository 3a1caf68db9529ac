"""One attempt's shim, under an odd launch file, odd records and odd words of its driver: its machine raises nothing."""

from __future__ import annotations

import json
import random
import traceback
from dataclasses import replace
from pathlib import Path

from supervisor.errors import Corrupt
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.launch import CHECKPOINT, Launch
from supervisor.model.records import OwnState
from supervisor.records.codec import decode, encode
from supervisor.shim.reports import parse
from tests.fuzz.odd import WORDS, odd_record, odd_value
from tests.fuzz.registry import Broken
from tests.unit.shim.world import LAUNCH, OWN, ShimWorld
from tests.unit.shim.world import Broken as Never

EVENTS = (
    "waiting",
    "begun",
    "session",
    "query",
    "progress",
    "idle",
    "working",
    "looked",
    "terminated",
    "error",
    "stopped",
)
SAID = {
    "query": "q",
    "id": "i",
    "batch_id": 3,
    "lag": 1.5,
    "checkpoint": "s3a://b/c",
    "committed": {"i": 3},
    "message": "m",
    "queries": 1,
}


def run(seed: int) -> list[Broken]:
    rng, changed = random.Random(seed), [""]
    try:
        launch = replace(
            LAUNCH,
            env={CHECKPOINT: "s3a://b/c"},
            remembered=CheckpointExpectation(
                place="p" * 16, queries=("q 5",), accepted="", elsewhere=("p q 1",)
            ),
        )
        data = encode(launch, 1 << 20)
        if rng.random() < 0.5:
            data = odd_record(rng, data, ())
            changed = [data.decode(errors="replace")]
        try:
            launch = decode(Launch, data, "launch.json")
        except Corrupt:
            return []
        _live(rng, ShimWorld(launch=launch), changed)
    except (
        Never
    ):  # the world of an odd launch is another one; what must never happen there is the simulation's subject
        return []
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if not any("/supervisor/shim/" in frame.filename for frame in frames):
            return []  # of the world, which reads records for itself
        at = frames[-1]
        why = f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {str(error)[:200]}"
        return [Broken("a shim raised", why, seed, changed)]
    return []


def _live(rng: random.Random, world: ShimWorld, changed: list[str]) -> None:
    world.connect()
    world.run()
    for _ in range(12):
        kind = rng.random()
        if kind < 0.6:
            body = {"event": rng.choice(EVENTS), **SAID}
            for key in rng.sample(list(SAID), k=2):
                body[key] = odd_value(rng, body[key], WORDS)
            report = parse(json.dumps(body).encode()[:8192])
            if report is not None:
                changed.append(repr(body)[:500])
                world.deliver(report)
        elif kind < 0.75:
            world.nodes[OWN] = replace(world.nodes[OWN], data=odd_record(rng, world.nodes[OWN].data, ()))
            changed.append(world.nodes[OWN].data.decode(errors="replace")[:500])
        elif kind < 0.8:
            try:
                world.move(rng.choice(list(OwnState)))
            except Corrupt:
                pass
        world.run(rng.choice((0.5, 5.0, 11.0)))
