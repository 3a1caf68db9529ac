#!/usr/bin/env bash
# Unpacks MIT Kerberos' KDC of this Debian into the directory $1, without installing it: no service is started.
set -euo pipefail
mkdir -p "$1"
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
cd "$packages"
apt-get -qq -o APT::Sandbox::User=root download krb5-kdc krb5-admin-server krb5-user libkadm5srv-mit12 libkadm5clnt-mit12 \
    libkdb5-10 libgssrpc4 libverto1 libverto-libev1 libev4
for package in *.deb; do dpkg -x "$package" "$1"; done
