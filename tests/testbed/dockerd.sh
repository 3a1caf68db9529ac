#!/usr/bin/env bash
# A Docker engine for the tests, where none is running (a bare machine or a CI container, as root):
#   dockerd.sh start    does nothing if an engine answers already; otherwise starts dockerd, detached, and waits for it
#   dockerd.sh stop     ends the dockerd that `start` started, never another one
# Needs Debian's docker.io and iptables. Pid and log: ${DOCKERD_STATE:-<tmp>/spark-supervisor-dockerd}.
set -euo pipefail

state=${DOCKERD_STATE:-${TMPDIR:-/tmp}/spark-supervisor-dockerd}
pid_file=$state/pid
log=$state/dockerd.log

# The pid counts only together with the start time of its process: pids are used again.
start_time() { cut -d')' -f2- "/proc/$1/stat" 2>/dev/null | cut -d' ' -f21 || true; }

ours() {
    [ -r "$pid_file" ] || return 1
    read -r pid started <"$pid_file"
    [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ]
}

start() {
    if docker info >/dev/null 2>&1; then
        return
    fi
    command -v dockerd >/dev/null || { echo "dockerd.sh: no dockerd: apt-get install docker.io iptables" >&2; exit 1; }
    [ "$(id -u)" = 0 ] || { echo "dockerd.sh: dockerd is started as root only" >&2; exit 1; }
    mkdir -p "$state"
    setsid dockerd --pidfile "$state/dockerd.pid" >"$log" 2>&1 </dev/null &
    local pid=$!
    echo "$pid $(start_time "$pid")" >"$pid_file"
    for _ in $(seq 1 300); do
        if docker info >/dev/null 2>&1; then
            echo "dockerd.sh: started dockerd, pid $pid, log $log"
            return
        fi
        ours || break
        sleep 0.2
    done
    echo "dockerd.sh: dockerd did not come up; the end of $log:" >&2
    tail -n 20 "$log" >&2
    exit 1
}

stop() {
    ours || return 0
    kill "$pid"
    for _ in $(seq 1 150); do
        ours || break
        sleep 0.2
    done
    rm -f "$pid_file"
}

case ${1:-} in
start | stop) "$1" ;;
*)
    echo "usage: dockerd.sh start|stop" >&2
    exit 2
    ;;
esac
