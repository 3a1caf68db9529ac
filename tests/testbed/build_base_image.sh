#!/usr/bin/env bash
# Makes a stand-in for the public image debian:bookworm-slim from a Debian mirror, so that the project's Dockerfile is
# really built where no image registry can be reached:
#   build_base_image.sh [NAME]              default: spark-supervisor-test/debian:bookworm-slim
#   DOCKER_BUILDKIT=0 docker build --network host --build-arg BASE=spark-supervisor-test/debian:bookworm-slim .
# This machine's certificates go in where Debian expects a site's own, so that apt, pip and Java (Maven) trust a package
# mirror with a certificate of its own.
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
mkdir "$work/site"
awk -v dir="$work/site" '/BEGIN CERTIFICATE/ {n++; file = sprintf("%s/site-%03d.crt", dir, n)} n {print > file}' "$bundle"
mmdebstrap --quiet --variant=minbase --include=ca-certificates \
    --customize-hook="copy-in $work/site /usr/local/share/ca-certificates/" \
    --customize-hook='chroot "$1" update-ca-certificates' bookworm "$work/base.tar" >/dev/null
docker import \
    --change "ENV PIP_CERT=$bundle SSL_CERT_FILE=$bundle REQUESTS_CA_BUNDLE=$bundle PIP_DISABLE_PIP_VERSION_CHECK=1" \
    "$work/base.tar" "$name" >/dev/null
docker images "$name" --format '{{.Repository}}:{{.Tag}} {{.Size}}'
