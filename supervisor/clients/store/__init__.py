"""Is the store of blobs: specs, application files and epoch marks (protocol §4), on S3 or in a directory.

``open.open_store`` picks the implementation. Nothing is imported here: boto3 costs a third of a second, and a
cluster with a ``file://`` store never needs it.
"""
