"""The one place that picks implementations and puts the parts together.

``commands``: what one command of the command line needs. ``daemon``: everything that lives in a supervisor process. Below
here everybody gets what it needs as an argument, so that tests and the simulator can give something else. No policy.
"""

from supervisor.wiring.commands import CommandContext, layout_of, open_commands, place_of, status_of, store_of

__all__ = ["CommandContext", "layout_of", "open_commands", "place_of", "status_of", "store_of"]
