"""Records and their paths: ``codec`` keeps the fields that it does not know, ``layout`` has every path, ``bulk``
reads many.

``ports`` has the two interfaces to ZooKeeper that others are given. What a record is for is not known here.
"""
