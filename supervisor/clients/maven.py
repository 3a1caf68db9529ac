"""Asks a Maven repository whether an artifact is there, by the name of its .pom. ``doctor`` uses it; it
fetches nothing."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request

CENTRAL = "https://repo1.maven.org/maven2"
TIMEOUT_S = 5.0


def pom_url(repository: str, coordinates: str) -> str:
    """Returns the URL of the .pom of ``group:artifact:version``."""
    group, artifact, version = coordinates.split(":")
    return f"{repository.rstrip('/')}/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.pom"


def missing_from(repositories: tuple[str, ...], coordinates: str, within_s: float = TIMEOUT_S) -> str:
    """Returns an empty string if one of ``repositories`` has it; else why not, as far as it is known. Never
    raises."""
    problems = []
    for repository in repositories:
        url = pom_url(repository, coordinates)
        if not url.startswith(("http://", "https://")):
            problems.append(f"{repository} is not looked at")
            continue
        try:
            request = urllib.request.Request(url, method="HEAD")
            with urllib.request.urlopen(request, timeout=within_s):
                return ""
        except urllib.error.HTTPError as error:
            problems.append(
                f"{repository} does not have it"
                if error.code == 404
                else f"{repository} answered {error.code}"
            )
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            problems.append(f"{repository} does not answer ({getattr(reason, 'strerror', None) or reason})")
    return ", ".join(problems)
