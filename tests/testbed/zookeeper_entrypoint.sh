#!/bin/sh
# Start of a node in the test image. It takes the same environment as the public image `zookeeper:3.9`, so that either
# may be named by ZOOKEEPER_IMAGE: ZOO_MY_ID, ZOO_SERVERS ("server.1=a:2888:3888;2181 …"), ZOO_TICK_TIME, ZOO_INIT_LIMIT,
# ZOO_SYNC_LIMIT, ZOO_MAX_CLIENT_CNXNS, ZOO_4LW_COMMANDS_WHITELIST, ZOO_CFG_EXTRA (space separated), JVMFLAGS.
# Uses shell builtins only: the image holds no other program but java.
set -eu
config=/conf/zoo.cfg
if [ ! -e "$config" ]; then # a restarted container keeps its configuration, as in the public image
    {
        echo "dataDir=/data"
        echo "tickTime=${ZOO_TICK_TIME:-2000}"
        echo "initLimit=${ZOO_INIT_LIMIT:-5}"
        echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
        echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
        echo "admin.enableServer=false"
        echo "4lw.commands.whitelist=${ZOO_4LW_COMMANDS_WHITELIST:-srvr}"
        for server in ${ZOO_SERVERS:-"server.1=localhost:2888:3888;2181"}; do echo "$server"; done
        for line in ${ZOO_CFG_EXTRA:-}; do echo "$line"; done
    } >"$config"
fi
[ -e /data/myid ] || echo "${ZOO_MY_ID:-1}" >/data/myid
# JVMFLAGS is a list of words.
# shellcheck disable=SC2086
exec java ${JVMFLAGS:-} -Dlog4j2.level=INFO -cp "/opt/zookeeper/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$config"
