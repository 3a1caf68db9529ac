"""Says what is to be done about an error of Spark, of the JVM or of Kafka, by the words in it. Pure; used by ``exits``,
which says in whose words it is looked for."""

from __future__ import annotations

import re
from typing import Final

KAFKA_PAGE: Final = "spark-supervisor docs jobs-kafka says what to do"

_HINTS: Final[tuple[tuple[str, str], ...]] = (
    (
        r"org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem not found",
        "the jars for s3a:// are missing: set spark.s3a_jars",
    ),
    (r'No FileSystem for scheme "s3"', "Spark reads S3 as s3a://"),
    (r"UnsupportedClassVersionError", "Java is too old for this Spark or application"),
    (
        r"Could not reserve enough space for",
        "spark.driver.memory is more than the host, or a limit of it, allows: lower it",
    ),
    (r"Error: Failed to load class", "the .jar has no such main class: correct class"),
    (r"STREAMING_CHECKPOINT_MISSING_METADATA_FILE", "the checkpoint has lost its metadata file"),
    (
        r"No AWS Credentials provided|Unable to load credentials from any",
        "no AWS credentials in the environment of the supervisor",
    ),
    (
        r"BindException: [^\n|]{0,80}?(?:Cannot|Can't) assign requested address",
        "spark.driver.bindAddress, else SPARK_LOCAL_IP, else what the host's name resolves to, is no address of this host",
    ),
    (
        r"BindException: [^\n|]{0,80}?Address already in use",
        "no free port: raise spark.port.maxRetries or set spark.ui.enabled=false",
    ),
    (
        r"Python worker exited unexpectedly[^|]{0,40}Fatal Python error",
        "native code crashed in a Python worker; see the log",
    ),
    (
        r"Python worker exited unexpectedly",
        "a Python worker died, most likely in native code: set spark.python.worker.faulthandler.enabled=true to see where",
    ),
    (
        r"Timed out waiting for a node assignment",
        "no Kafka broker answered: see to the brokers, and to the addresses in the application",
    ),
    (r"UnknownTopicOrPartitionException", f"Kafka has no such topic, or it was deleted: {KAFKA_PAGE}"),
    (
        r"OffsetOutOfRangeException",  # named, and yet within what a history keeps
        "the topic has lost records that were not read (OffsetOutOfRangeException): docs jobs-kafka says what to do",
    ),
    (
        r"not available in Kafka any more",
        f"the topic has lost records that were not read: {KAFKA_PAGE}",
    ),
    (
        r"LOCATION_ALREADY_EXISTS",
        "the catalog has forgotten a table whose files are there: spark-supervisor docs jobs-spec says what to do",
    ),
    (r"ProducerFencedError", "another producer has taken the transactional id: look for a second writer"),
    (
        r"\[unresolved dependency: ",
        "a package was not found: no repository answered, or its name or version is wrong; doctor SPEC looks for it",
    ),
    (
        r"==== local-m2-cache: tried\s+file:(\S+\.jar)",
        "~/.m2 has the pom of a package and not its jar, and no repository is asked: put {0} there, or see docs jobs-kafka",
    ),
    (
        r"\[download failed: ",
        "a package could not be fetched: the repository failed, or two drivers fetched it at once",
    ),
)
"""Each pattern stands with what it usually means, for the beginning of the sentence; ``{0}`` is its first group."""
HINTS: Final = tuple((re.compile(words), hint) for words, hint in _HINTS)


def hint_in(text: str) -> str | None:
    """Returns the hint for the first words of the table that are in ``text``, or None."""
    found = ((words.search(text), hint) for words, hint in HINTS)
    return next((hint.format(*match.groups()) for match, hint in found if match is not None), None)
