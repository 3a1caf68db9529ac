"""Reads what a person may write: units, unknown-key hints, YAML without surprises, and the keys of
``supervisor.yaml``.

``spec`` builds the job spec from the same parts. Of ``model`` it imports only ``lease_terms`` and
``restart``, and nothing of ``shim``.
"""
