#!/usr/bin/env bash
# Makes a stand-in for the public image debian:bookworm-slim from a Debian mirror, so that the project's Dockerfile is
# really built where no image registry can be reached:
#   build_base_image.sh [NAME]              default: spark-supervisor-test/debian:bookworm-slim
#   DOCKER_BUILDKIT=0 docker build --network host --build-arg BASE=spark-supervisor-test/debian:bookworm-slim .
# This machine's certificates go in, and pip is told of them, so that a package mirror with a certificate of its own works.
# About 20 s; nothing is done if the image is there. Needs: docker, mmdebstrap.
set -euo pipefail

name=${1:-spark-supervisor-test/debian:bookworm-slim}
bundle=/etc/ssl/certs/ca-certificates.crt
if docker image inspect "$name" >/dev/null 2>&1; then
    exit 0
fi
command -v mmdebstrap >/dev/null || { echo "no mmdebstrap: apt-get install mmdebstrap" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --variant=minbase --include=ca-certificates \
    --customize-hook="copy-in $bundle /etc/ssl/certs/" bookworm "$work/base.tar"
docker import \
    --change "ENV PIP_CERT=$bundle SSL_CERT_FILE=$bundle REQUESTS_CA_BUNDLE=$bundle PIP_DISABLE_PIP_VERSION_CHECK=1" \
    "$work/base.tar" "$name" >/dev/null
docker images "$name" --format '{{.Repository}}:{{.Tag}} {{.Size}}'
