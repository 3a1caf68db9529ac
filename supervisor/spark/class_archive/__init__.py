"""Class-data archives: which driver starts with one, how they are named and kept, and how one is made.

``key`` names an archive by all that makes it valid, ``choice`` says who gets it and with which options (both
pure but for a look at files), ``shelf`` keeps the files, ``build`` makes one by a training run, and
``assign`` puts them together for a start, for ``doctor`` and for ``daemon.host.archive_ahead``.
"""
