"""The product under simulated time: see ``tests/simulation/README.md``."""
