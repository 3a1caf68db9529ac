# spark-supervisor with PySpark, Java 17 and the thin S3A jars; runs as uid 10001.
#   docker build -t spark-supervisor .
#   docker run -v $PWD/supervisor.yaml:/etc/spark-supervisor/supervisor.yaml:ro spark-supervisor
# Outside of containers drivers outlive their supervisor; here nothing outlives process 1. So at SIGTERM the supervisor
# hands over, leaves the fleet, and stops the drivers of this container in order: their jobs start in other containers at
# once. Give it the time: docker stop --time, stop_grace_period or terminationGracePeriodSeconds of at least the longest
# stop_grace of your jobs, and 15 s. A container that is killed costs its jobs the full wait (lease and some).
# What goes in is known: Python packages by hash (deploy/lock renews them), jars with checked checksums, and the base image
# by its digest where --build-arg BASE_DIGEST=sha256:… names it, for a build that can be repeated:
#   docker buildx imagetools inspect debian:bookworm-slim --format '{{.Manifest.Digest}}'
# Without it the base is what its tag means today. Debian's packages are those of the day, signed by Debian.
ARG BASE=debian:bookworm-slim
ARG BASE_DIGEST=

FROM ${BASE}${BASE_DIGEST:+@${BASE_DIGEST}} AS build
ENV DEBIAN_FRONTEND=noninteractive PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 LANG=C.UTF-8
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv openjdk-17-jre-headless maven \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/spark-supervisor
WORKDIR /build
# Dependencies first: PySpark is most of the image, and a change of the code alone need not fetch it again.
# PySpark is built from its source: without isolation, by the setuptools of the lock.
COPY deploy/build-requirements.lock deploy/requirements.lock ./
RUN /opt/spark-supervisor/bin/pip install --require-hashes -r build-requirements.lock \
 && /opt/spark-supervisor/bin/pip install --require-hashes --use-pep517 --no-build-isolation -r requirements.lock
COPY deploy/s3a-jars deploy/s3a-jars
RUN deploy/s3a-jars/fetch /opt/s3a-jars "$(echo /opt/spark-supervisor/lib/python3*/site-packages/pyspark)"
COPY pyproject.toml README.md ./
COPY supervisor supervisor
RUN /opt/spark-supervisor/bin/pip install --no-deps --no-build-isolation .

FROM ${BASE}${BASE_DIGEST:+@${BASE_DIGEST}}
ENV DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
# tini: a driver's orphans become children of process 1, which must reap them.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 openjdk-17-jre-headless tini \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 supervisor \
 && useradd --uid 10001 --gid 10001 --create-home --home-dir /home/supervisor supervisor \
 && install -d -o 10001 -g 10001 -m 0700 /run/spark-supervisor \
 && install -d -o 10001 -g 10001 -m 0750 /var/log/spark-supervisor /var/lib/spark-supervisor \
 && install -d /etc/spark-supervisor
COPY --from=build /opt/spark-supervisor /opt/spark-supervisor
COPY --from=build /opt/s3a-jars /opt/s3a-jars
# What is in this image, as CycloneDX: docker run --rm --entrypoint cat spark-supervisor /opt/spark-supervisor/sbom.cdx.json
COPY deploy/sbom /usr/local/bin/sbom
RUN sbom /opt/spark-supervisor /opt/s3a-jars /opt/spark-supervisor/lib/python3*/site-packages/pyspark/jars \
    > /opt/spark-supervisor/sbom.cdx.json
ENV PATH=/opt/spark-supervisor/bin:$PATH \
    SPARK_SUPERVISOR__SPARK__S3A_JARS=/opt/s3a-jars \
    SPARK_SUPERVISOR__SUPERVISOR__HTTP=0.0.0.0:8780 \
    SPARK_SUPERVISOR__SUPERVISOR__ON_STOP=stop_drivers
USER 10001:10001
WORKDIR /home/supervisor
EXPOSE 8780
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python3", "-m", "supervisor.daemon.process.probe"]
ENTRYPOINT ["tini", "--", "spark-supervisor"]
CMD ["run"]
