"""The process of a supervisor: ``assemble`` makes all its parts, ``supervisor`` runs and ends them.

``http`` serves metrics, status and probes on the connections of ``bounded_http``, ``api_server`` the API;
``http_access`` says who is answered. ``session_closer`` closes the sessions of a supervisor that crashed. ``probe``
is the image's health check.
"""
