"""Defines the section ``clusters`` of ``supervisor.yaml``: the Spark clusters that specs name with ``cluster``."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from supervisor.model.master import ClusterKind, addresses, kind_of, why_no_cluster
from supervisor.settings.addresses import AbsolutePath
from supervisor.settings.sections import Section
from supervisor.settings.spark_conf import HostConf

ClusterName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]

_HOST: Final = r"^[A-Za-z0-9.:_\[\]-]{1,253}$"
_QUEUE: Final = r"^[A-Za-z0-9._-]{1,253}$"
_LABEL: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_WEB: Final = r"^https?://([A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:\d{1,5})?/?$"
_IMAGE: Final = r"^[A-Za-z0-9][A-Za-z0-9./:@_-]{0,510}$"


WebAddress = Annotated[str, StringConstraints(pattern=_WEB)]

WEB_PORT: Final = 8080
"""It is that of a master which was not given another one."""


def _master_of_cluster(value: str) -> str:
    why = why_no_cluster(value)
    if why is not None:
        raise ValueError(why)
    return value


DEFAULT_NAMESPACE: Final = "default"
"""The namespace of Kubernetes in which executors are if a cluster names none."""

KINDS_OF: Final = {
    "web": (ClusterKind.STANDALONE,),
    "conf_dir": (ClusterKind.YARN,),
    "queue": (ClusterKind.YARN,),
    "namespace": (ClusterKind.KUBERNETES,),
    "image": (ClusterKind.KUBERNETES,),
    "ca": (ClusterKind.YARN, ClusterKind.KUBERNETES),
    "token_file": (ClusterKind.KUBERNETES,),
}
"""For which kinds of cluster each key is that not every kind has."""


class ClusterSettings(Section):
    """Describes one cluster. ``master`` is ``spark://HOST:PORT[,HOST:PORT…]``, ``yarn`` or ``k8s://https://HOST:PORT``.
    ``conf`` are properties of each driver that uses it; those of the spec come before them. ``driver_host`` is the address
    at which executors reach the drivers of this host; null leaves that to Spark.

    For Spark standalone, ``web`` are the web addresses of the masters, by which they are asked what they have; null stands
    for port 8080 of each.

    For YARN, ``conf_dir`` holds the files ``yarn-site.xml`` and ``core-site.xml``, ``queue`` is where its applications
    wait, and ``ca`` is the authority of its ResourceManagers, if they answer by HTTPS only. For Kubernetes, executors are
    pods of ``image`` in ``namespace``; ``ca`` is the authority of the API server and ``token_file`` has the token of the
    service account by which drivers make pods.
    """

    master: Annotated[str, AfterValidator(_master_of_cluster)]
    conf: HostConf = Field(default_factory=dict)
    driver_host: Annotated[str, StringConstraints(pattern=_HOST)] | None = None
    web: Annotated[tuple[WebAddress, ...], Field(strict=False, min_length=1, max_length=16)] | None = None
    conf_dir: AbsolutePath | None = None
    queue: Annotated[str, StringConstraints(pattern=_QUEUE)] | None = None
    namespace: Annotated[str, StringConstraints(pattern=_LABEL)] | None = None
    image: Annotated[str, StringConstraints(pattern=_IMAGE)] | None = None
    ca: AbsolutePath | None = None
    token_file: AbsolutePath | None = None

    @property
    def kind(self) -> ClusterKind:
        kind = kind_of(self.master)
        assert kind is not None  # by the validator of master
        return kind

    @property
    def web_of_masters(self) -> tuple[str, ...]:
        """Returns the web address of each master of a standalone cluster, without a slash at its end."""
        if self.web is not None:
            return tuple(address.rstrip("/") for address in self.web)
        return tuple(
            f"http://{f'[{host}]' if ':' in host else host}:{WEB_PORT}" for host, _ in addresses(self.master)
        )

    @model_validator(mode="after")
    def _of_one_kind(self) -> ClusterSettings:
        for key, kinds in KINDS_OF.items():
            if getattr(self, key) is not None and self.kind not in kinds:
                raise ValueError(
                    f"{key} is for a cluster of kind {' or '.join(kinds)}, and master {self.master} is none; remove it"
                )
        if self.kind is ClusterKind.YARN and self.conf_dir is None:
            raise ValueError("conf_dir is missing: the directory with yarn-site.xml; add it")
        return self


Clusters = Annotated[dict[ClusterName, ClusterSettings], Field(max_length=100)]
