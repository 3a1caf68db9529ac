"""What a person may write: units, unknown-key hints, YAML without surprises, and the keys of ``supervisor.yaml``.

Below ``model``, whose job spec is built from the same parts. Imports neither ``model`` nor anything of a shim.
"""
