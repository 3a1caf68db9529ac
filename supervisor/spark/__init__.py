"""Spark's command line, and what runs inside a driver.

``driver_start`` has all that a start needs as one value; ``driver_launch`` makes of it the properties, argv and
environment, with ``fetched_files``, ``host_jars`` and ``attempt_place``. ``toolchain`` finds the Spark that a job
asks for, ``python_environments`` unpacks, shares and sweeps the Pythons that jobs bring. In the driver,
``bootstrap`` runs the application unchanged and reports begun, session and progress; ``orders`` hears the shim;
``warm_up`` and ``barrier`` prepare a driver before its attempt. ``fence``, ``gate`` and ``class_archive`` are rooms
of their own.
"""
