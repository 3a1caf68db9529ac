"""Asks YARN's ResourceManager, by its REST interface, what it holds for the drivers of this registry, and ends it.

Of several ResourceManagers one leads; the others answer with a redirect, which is not followed: each is asked in turn. An
application is found by the tags of ``model.application_tag``, and nothing without them is ever ended. Where Kerberos guards
that interface, its answer is 401, and that is what is said.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from supervisor.clients.web import JsonAnswer, ask_json
from supervisor.clusters.answers import mapping, shares, text
from supervisor.clusters.application import Application, ApplicationStage, ClusterSilent
from supervisor.clusters.yarn_site import properties_in, web_addresses
from supervisor.errors import Unreachable
from supervisor.model.application_tag import job_tag, registry_tag, tagged_attempt

_APPS: Final = "/ws/v1/cluster/apps"
_LIVING: Final = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
_STAGES: Final = {
    **dict.fromkeys(_LIVING[:4], ApplicationStage.WAITING),
    "RUNNING": ApplicationStage.RUNNING,
    **dict.fromkeys(("FINISHED", "FAILED", "KILLED"), ApplicationStage.ENDED),
}
_ID: Final = re.compile(r"application_\d{1,20}_\d{1,10}")
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@/-]{0,254}\$?")
_SAYS_MAX_BYTES: Final = 500
_REFUSAL_MAX_BYTES: Final = 200
_OK: Final = (200, 202)


class YarnClient:
    """Asks one YARN. ``conf_dir`` has its ``yarn-site.xml``, which is read at each call. ``registry`` is the id of the
    registry whose drivers are asked for. ``ca`` is a file with the authority of the ResourceManagers' certificates, or None
    for those of the system; it matters with ``yarn.http.policy: HTTPS_ONLY`` only."""

    def __init__(self, name: str, conf_dir: Path, registry: str, ca: Path | None = None) -> None:
        self._name = name
        self._conf_dir = conf_dir
        self._registry = registry
        self._ca = ca

    def applications(self, uid: str, timeout_s: float) -> Sequence[Application]:
        """Returns the applications of the job ``uid`` that have not ended."""
        found = self._listed({"applicationTags": job_tag(uid)}, timeout_s)
        return [one for one in found if one.uid == uid.lower()]

    def living(self, timeout_s: float) -> Sequence[Application]:
        """Returns the applications of all jobs of this registry that have not ended."""
        return self._listed({"applicationTags": registry_tag(self._registry)}, timeout_s)

    def metrics(self, timeout_s: float) -> Mapping[str, Any]:
        """Returns what the ResourceManager that leads says of the whole of YARN: ``activeNodes``, ``availableMB`` and so on
        (its ``/ws/v1/cluster/metrics``)."""
        body = self._asked("GET", "/ws/v1/cluster/metrics", None, timeout_s)
        found = mapping(body).get("clusterMetrics")
        if not isinstance(found, dict):
            raise ClusterSilent(f"YARN {self._name} answers with something that is no metrics")
        return found

    def end(self, application: Application, timeout_s: float) -> None:
        """Asks YARN to kill the application, as the user who owns it. What has ended meanwhile stays as it is."""
        if _ID.fullmatch(application.id) is None:
            raise ClusterSilent(f"YARN {self._name}: {application.id[:100]!r} is no application")
        until_at_s = time.monotonic() + timeout_s
        path = f"{_APPS}/{application.id}"
        body = self._asked("GET", path, None, timeout_s)
        app = body.get("app") if isinstance(body, dict) else None
        found = self._application(app)
        if found is None or (found.uid, found.attempt) != (application.uid, application.attempt):
            raise ClusterSilent(f"YARN {self._name} says of {application.id} that it is another's")
        if found.stage is ApplicationStage.ENDED:
            return
        user = app.get("user") if isinstance(app, dict) else None
        as_user = f"?user.name={quote(user)}" if isinstance(user, str) and _USER.fullmatch(user) else ""
        self._asked("PUT", f"{path}/state{as_user}", {"state": "KILLED"}, until_at_s - time.monotonic())

    def _listed(self, query: dict[str, str], timeout_s: float) -> list[Application]:
        whole = {**query, "states": ",".join(_LIVING), "deSelects": "resourceRequests"}
        body = self._asked("GET", f"{_APPS}?{urlencode(whole)}", None, timeout_s)
        apps = body.get("apps") if isinstance(body, dict) else None
        listed = apps.get("app", []) if isinstance(apps, dict) else [] if apps is None else None
        if not isinstance(listed, list) or not isinstance(body, dict) or "apps" not in body:
            raise ClusterSilent(f"YARN {self._name} answers with something that is no list of applications")
        return [one for one in map(self._application, listed) if one is not None]

    def _application(self, app: Any) -> Application | None:
        """Returns what is said of one application; None if it is none of this registry, or nothing that can be believed."""
        if not isinstance(app, dict):
            return None
        tags, state, said = app.get("applicationTags"), app.get("state"), app.get("diagnostics")
        stage = _STAGES.get(state) if isinstance(state, str) else None
        tagged = tagged_attempt(tags.split(","), self._registry) if isinstance(tags, str) else None
        name = app.get("id")
        if stage is None or tagged is None or not isinstance(name, str) or _ID.fullmatch(name) is None:
            return None
        return Application(name, tagged.uid, tagged.attempt, stage, text(said, _SAYS_MAX_BYTES))

    # -- the ResourceManagers -----------------------------------------------------------------------------------------

    def _asked(self, method: str, target: str, body: Any, timeout_s: float) -> Any:
        """Returns the answer of the ResourceManager that leads. Raises ClusterSilent."""
        whys = []
        for address, share_s in shares(web_addresses(properties_in(self._conf_dir)), timeout_s):
            try:
                answer = ask_json(address + target, share_s, method=method, body=body, tls=self._tls(address))
            except Unreachable as error:
                whys.append(str(error))
                continue
            if answer.status in _OK and answer.body is not None:
                return answer.body
            whys.append(_why(address, answer))
        why = "; ".join(whys) or f"no answer within {timeout_s:g} s"
        raise ClusterSilent(f"YARN {self._name}: {why}")

    def _tls(self, address: str) -> ssl.SSLContext | None:
        if not address.startswith("https:"):
            return None
        try:
            return ssl.create_default_context(cafile=None if self._ca is None else str(self._ca))
        except (OSError, ValueError) as error:
            raise ClusterSilent(
                f"{self._ca} is no file of certificates ({error})", "correct clusters.*.ca"
            ) from None


def _why(address: str, answer: JsonAnswer) -> str:
    if 300 <= answer.status < 400:
        return f"{address} does not lead"
    if answer.status == 401:
        return f"{address} asks for Kerberos (401), which is not supported here"
    said = text(mapping(mapping(answer.body).get("RemoteException")).get("message"), _REFUSAL_MAX_BYTES)
    return f"{address} answers with {answer.status}{': ' if said else ''}{said}"
