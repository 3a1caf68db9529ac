"""Resolves the secrets that a job names, on the host that starts it, as far as ``policy.secrets`` allows them.

``environment`` and ``prepare`` call it at each start, and ``doctor`` to try. A message names the reference and never
the secret. What is wrong with a file on this host only (it is missing, others may write to it, a link leads out of the rule)
is no refusal by policy: that would hold for other hosts, too (``spec.policy_judge``).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from supervisor.model.records import Cause
from supervisor.model.secret import SecretRef, SecretSource, reference_in_conf, secret_reference
from supervisor.settings.policy import SecretSettings
from supervisor.spark.refusal import Refused
from supervisor.spec.policy_judge import why_not_this_file, why_not_this_secret
from supervisor.spec.site_policy import ANYWHERE

SECRET_MAX_BYTES: Final = 64 * 1024
ALL: Final = SecretSettings()


class Secrets(NamedTuple):
    """Resolves references of the job called ``job``. ``environ`` is the supervisor's environment. No file below ``closed``
    is a secret of a job."""

    environ: Mapping[str, str]
    rules: SecretSettings = ALL
    job: str = ""
    closed: Path | None = None

    def of_env(self, name: str, value: str) -> str:
        """Returns what the variable ``name`` of the job's ``env`` is. Raises ``Refused``."""
        reference = secret_reference(value)
        if reference is None:
            return value
        secret = self._resolved(f"env {name}", reference, Cause.NOT_STARTED)
        if secret is None:
            raise Refused(
                Cause.NOT_STARTED,
                f"env {name} refers to variable {reference.where}, which the supervisor on this host does not have",
                "set it in the supervisor's environment",
            )
        return secret

    def of_conf(self, name: str, value: str, env: Mapping[str, str]) -> str:
        """Returns what the property ``name`` is; ``env`` is that of the job. A variable that the supervisor does not have
        stays as it is written: Spark fills in those of the driver. A file that cannot be read is a reason to try another
        host, and none to give the job up: before references were known in ``conf``, such a text was for Spark. Raises
        ``Refused``."""
        reference = reference_in_conf(value, env)
        if reference is None:
            return value
        secret = self._resolved(f"conf {name}", reference, Cause.NO_ACCESS)
        return value if secret is None else secret

    def _resolved(self, key: str, reference: SecretRef, cause: Cause) -> str | None:
        why = why_not_this_secret(reference, self.rules, self.job)
        if why is not None:
            raise Refused(Cause.POLICY, f"{key}: {why}", "name one that is allowed")
        if reference.source is SecretSource.FILE:
            secret: str | None = self._of_file(key, reference, cause)
        else:
            secret = self.environ.get(reference.where)
        if secret is not None and "\0" in secret:
            raise Refused(
                cause, f"{key}: the secret at {reference.where} holds a NUL character", "correct it"
            )
        return secret

    def _of_file(self, key: str, reference: SecretRef, cause: Cause) -> str:
        try:
            descriptor = os.open(
                reference.where, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
            )  # no pipe blocks it
            with os.fdopen(descriptor, "rb") as file:
                self._check(key, reference, file.fileno())
                data = file.read(SECRET_MAX_BYTES + 1)
            if len(data) > SECRET_MAX_BYTES:
                raise ValueError(f"larger than {SECRET_MAX_BYTES // 1024} KiB")
            return data.decode().removesuffix("\n")
        except (OSError, ValueError) as error:
            raise Refused(
                cause, f"{key} refers to file {reference.where} ({_why(error)})", "correct it"
            ) from None

    def _check(self, key: str, reference: SecretRef, descriptor: int) -> None:
        """Checks the very file that was opened, wherever links lead. Raises ``Refused``, ``OSError``, ``ValueError``."""
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("no regular file")
        real = _opened(descriptor)
        if self.closed is not None and real.is_relative_to(self.closed.resolve()):
            raise ValueError("it is the supervisor's own, and may hold secrets of other jobs")
        if ANYWHERE in self.rules.files:
            return
        outside = why_not_this_file(str(real), self.rules, self.job)
        if outside is not None:
            raise Refused(
                Cause.NO_ACCESS,
                f"{key}: file {reference.where} leads elsewhere: {outside}",
                "correct the link",
            )
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Refused(
                Cause.NO_ACCESS,
                f"{key}: file {reference.where} can be written by others than root and the supervisor's user "
                f"(owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o})",
                "chown and chmod it",
            )


def _opened(descriptor: int) -> Path:
    """Returns the path of a file that is open, wherever links led."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "no UTF-8 text" if isinstance(error, UnicodeError) else str(error)
