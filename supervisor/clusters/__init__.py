"""Asks the clusters on which executors run: what they hold for a driver, why it waits, and to end what is left of one."""
