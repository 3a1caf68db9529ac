#!/usr/bin/env bash
# Makes a ZooKeeper image for the tests without an image registry and without a network:
#   build_zookeeper_image.sh [NAME]         default: spark-supervisor-test/zookeeper:3.9
# In it: a Java runtime cut down by jlink, ZooKeeper's jars as PySpark brings them, this machine's dash and C library.
# About 70 MB, 5 to 10 s; nothing is done if an image made of the same things is there.
# Needs: docker, a JDK 17 (jlink), dash, a Python with pyspark ($PYTHON, else .venv's, else python3).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
name=${1:-spark-supervisor-test/zookeeper:3.9}
python=${PYTHON:-$root/.venv/bin/python}
[ -x "$(command -v "$python")" ] || python=python3

jlink=${JAVA_HOME:+$JAVA_HOME/bin/}jlink
command -v "$jlink" >/dev/null || { echo "no $jlink: apt-get install openjdk-17-jdk-headless" >&2; exit 1; }
[ -x /bin/dash ] || { echo "no /bin/dash: apt-get install dash" >&2; exit 1; }

# The same choice of jars as the embedded ensemble makes.
class_path=$(cd "$root" && "$python" -c 'from supervisor.demo.ensemble import find_class_path; print(find_class_path())')
IFS=: read -r -a jars <<<"$class_path"

recipe=$(cat "$0" "$here/zookeeper_entrypoint.sh" <("$jlink" --version) <(printf '%s\n' "${jars[@]##*/}") | sha256sum | cut -c1-16)
if [ "$(docker image inspect --format '{{index .Config.Labels "recipe"}}' "$name" 2>/dev/null)" = "$recipe" ]; then
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{bin,conf,data,etc,opt/zookeeper,tmp}
chmod 1777 "$work/tmp"
cp "${jars[@]}" "$work/opt/zookeeper/"
cp "$here/zookeeper_entrypoint.sh" "$work/entrypoint.sh"
chmod 755 "$work/entrypoint.sh"
cp /bin/dash "$work/bin/sh"
echo 'root:x:0:0:root:/:/bin/sh' >"$work/etc/passwd"
echo 'hosts: files dns' >"$work/etc/nsswitch.conf"

modules=java.base,java.desktop,java.logging,java.management,java.naming,java.security.jgss,java.security.sasl,java.xml
"$jlink" --add-modules "$modules,jdk.management,jdk.unsupported" --output "$work/opt/jre" \
    --strip-java-debug-attributes --no-header-files --no-man-pages --compress=2

# The shared libraries of all that is in the image, at the paths that the dynamic linker has them at.
find "$work/opt/jre" "$work/bin" -type f \( -name '*.so' -o -perm -u+x \) -exec ldd {} + 2>/dev/null |
    grep -o '/[^ ]*lib[^ ]*\.so[^ ]*' | grep -v "^$work" | sort -u |
    while read -r library; do
        mkdir -p "$work$(dirname "$library")"
        cp -L "$library" "$work$library"
    done

tar -C "$work" --numeric-owner --owner=0 --group=0 -c . | docker import \
    --change 'ENV PATH=/opt/jre/bin:/bin' \
    --change 'EXPOSE 2181 2888 3888' \
    --change 'ENTRYPOINT ["/entrypoint.sh"]' \
    --change "LABEL recipe=$recipe" \
    - "$name" >/dev/null
docker images "$name" --format '{{.Repository}}:{{.Tag}} {{.Size}}'
