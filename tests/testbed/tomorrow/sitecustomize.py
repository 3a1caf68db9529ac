"""Tomorrow's software, for tests of upgrades: a Python that finds this directory on its path runs it.

It is the software of today under a later version number, and whatever it writes, at every level of every record, has a
field that today's does not know. ``tests.faults.test_upgrade`` puts it beside today's. Its shims are tomorrow's too,
because they inherit the path. Loads the codec only when the software itself is about to (a driver's Python comes by here
as well).
"""

import importlib.abc
import json
import sys

FIELD, VERSION = "from_tomorrow", "99.0.0"
_CODEC, _PACKAGE = "supervisor.records.codec", "supervisor"


def _marked(value):
    if isinstance(value, list):
        return [_marked(each) for each in value]
    if isinstance(value, dict):
        return {**{name: _marked(each) for name, each in value.items()}, FIELD: 1}
    return value


def _kinds_of(record_type):
    return getattr(record_type, "__annotations__", {})


def _is_mapping(kind):
    return str(kind).startswith(("Mapping[", "dict["))


def _change_codec(codec):
    encode = codec.encode

    def encode_tomorrow(record, max_bytes=codec.MAX_RECORD_BYTES):
        body = json.loads(encode(record, max_bytes))
        # a mapping is no record: what stands in it are the user's own words (of a launch: env, spark_conf ...)
        keep = {
            name: body[name]
            for name, kind in _kinds_of(type(record)).items()
            if _is_mapping(kind) and name in body
        }
        return codec._dumped({**_marked(body), **keep})

    codec.encode = encode_tomorrow


def _change_package(package):
    package.__version__ = VERSION


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the two modules as anybody would, and changes them when they are loaded."""

    changes = {_CODEC: _change_codec, _PACKAGE: _change_package}

    def find_spec(self, name, path=None, target=None):
        if name not in self.changes:
            return None
        # an editable install has one of its own
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            self.changes[name](module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
