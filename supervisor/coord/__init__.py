"""Election, terms, and whether the registry may be trusted.

``leadership`` is the state machine, pure; ``contender`` carries it out; ``election`` has the one multi that takes
leadership. ``term`` is what the rest of the leader gets of it. ``trust`` says why a registry is not to be acted
upon; agents learn it by ``start_doubt``. ``epoch_recorder`` leaves the epoch in the store, and before it in
ZooKeeper that it may be there: no later term may forget that, and no term starts anything before.
"""
