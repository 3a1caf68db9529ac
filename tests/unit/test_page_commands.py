from typing import NamedTuple
class Elsewhere(NamedTuple):
    test: str
    where: str = ""
def problem_of(*a): return ""
