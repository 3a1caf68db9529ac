"""A job's spec, as a person writes it and as it is stored.

``job`` has every key. ``files`` reads what it names on the submitter's host, ``compose`` puts a spec together from
what it extends, ``moved`` gives it another checkpoint. ``policy_judge`` and ``site_policy`` judge it by the
operator's policy, at submit and again on the host. ``output_place`` says whether two specs write to one place,
``signed`` what a signature covers.
"""
