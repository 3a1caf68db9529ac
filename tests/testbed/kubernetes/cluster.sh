#!/usr/bin/env bash
# A one-node Kubernetes for tests: cluster.sh up|down|status DIR, cluster.sh start|stop DIR PART (root; Debian 12; Go).
#   DIR            holds all of its state; "down" removes it but for DIR/logs, also what a killed run has left
#   PART           one of etcd, containerd, apiserver, controller-manager, scheduler, kubelet
#   KUBE_CACHE     where the binary is kept that is built once for each state of its sources
#   KUBE_RIGHTS    the manifest with the rights of drivers; it is applied to the namespace "spark"
#   KUBE_NET       the first three numbers of the pods' /24; the host is .1 there
#   KUBE_PORT      the API server's port on 127.0.0.1; etcd takes the two after it
# "up" leaves DIR/admin.kubeconfig, DIR/pki/ca.crt and DIR/spark.token. One cluster at a time: two kubelets would share the
# cgroup "kubepods". tests/testbed/kubernetes.py calls it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ -n "${2:-}" ] || { sed -n '2,10p' "$0" >&2; exit 2; }
verb=${1:-} DIR=$(realpath -m "$2") part=${3:-} MARK=.kube-test
NET=${KUBE_NET:-10.88.1} PORT=${KUBE_PORT:-6443} CACHE=${KUBE_CACHE:-$HOME/.cache/kube-test} RIGHTS=${KUBE_RIGHTS:-}
PARTS=(etcd containerd apiserver controller-manager scheduler kubelet)
BRIDGE=sskube0 NODE=node1 NS=spark PAUSE=localhost/pause:test IMAGE=localhost/spark-executor:test VERSION=v1.34.4
K=$DIR/bin/kube SOCK=$DIR/containerd.sock PKI=$DIR/pki
export CONTAINERD_NAMESPACE=k8s.io CONTAINERD_ADDRESS=$SOCK

kc() { "$K" kubectl --kubeconfig "$DIR/admin.kubeconfig" "$@"; }
say() { printf '%s %s\n' "$(date +%T)" "$*" >&2; }
die() { say "$*"; exit 1; }

# -- processes --------------------------------------------------------------------------------------------------------

born() { # PID: when it was started, in clock ticks; with the pid it names a process for good
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  stat=${stat##*) }
  echo "$stat" | cut -d' ' -f20
}
alive() { # PART: is the process that was started under this name still there?
  local pid start
  read -r pid start 2>/dev/null <"$DIR/pids/$1" && [ -n "$start" ] && [ "$(born "$pid")" = "$start" ]
}
launch() { # PART COMMAND...
  local name=$1
  shift
  setsid "$@" </dev/null >>"$DIR/logs/$name.log" 2>&1 &
  echo "$! $(born $!)" >"$DIR/pids/$name"
}
stop_part() { # PART: TERM, and KILL after 15 s; never a process that merely got the same pid later
  local pid _ i
  if alive "$1"; then
    read -r pid _ <"$DIR/pids/$1"
    kill "$pid" || true
    for ((i = 0; i < 150; i++)); do alive "$1" || break; sleep 0.1; done
    if alive "$1"; then kill -9 "$pid" || true; fi
  fi
  rm -f "$DIR/pids/$1"
}
await() { # SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "no $what, see $DIR/logs"
    sleep 0.3
  done
}
start_part() { # PART
  local leaderless=(--leader-elect=false --bind-address=127.0.0.1) peer="http://127.0.0.1:$((PORT + 2))"
  alive "$1" && return
  case $1 in
    etcd)
      launch etcd "$K" etcd --name test --data-dir "$DIR/etcd" --unsafe-no-fsync --log-level warn \
        --listen-client-urls "http://127.0.0.1:$((PORT + 1))" --advertise-client-urls "http://127.0.0.1:$((PORT + 1))" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "test=$peer"
      ;;
    containerd) launch containerd containerd --config "$DIR/containerd.toml" ;;
    apiserver)
      launch apiserver "$K" apiserver --etcd-servers="http://127.0.0.1:$((PORT + 1))" --secure-port="$PORT" \
        --bind-address=127.0.0.1 --advertise-address="$NET.1" --service-cluster-ip-range=10.96.0.0/24 \
        --authorization-mode=Node,RBAC --client-ca-file="$PKI/ca.crt" \
        --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" \
        --kubelet-preferred-address-types=InternalIP \
        --kubelet-client-certificate="$PKI/admin.crt" --kubelet-client-key="$PKI/admin.key" \
        --service-account-issuer=https://kubernetes.default.svc \
        --service-account-key-file="$PKI/sa.key" --service-account-signing-key-file="$PKI/sa.key"
      ;;
    controller-manager) # with RBAC each controller needs a role of its own, or the taint of a new node stays
      launch controller-manager "$K" controller-manager --kubeconfig="$DIR/controller-manager.kubeconfig" \
        "${leaderless[@]}" --use-service-account-credentials \
        --service-account-private-key-file="$PKI/sa.key" --root-ca-file="$PKI/ca.crt"
      ;;
    scheduler) launch scheduler "$K" scheduler --kubeconfig="$DIR/scheduler.kubeconfig" "${leaderless[@]}" ;;
    kubelet)
      launch kubelet "$K" kubelet --kubeconfig="$DIR/kubelet.kubeconfig" --config="$DIR/kubelet.yaml" \
        --root-dir="$DIR/kubelet" --cert-dir="$DIR/kubelet/pki" --hostname-override=$NODE --node-ip="$NET.1"
      ;;
    *) die "no part $1" ;;
  esac
}

# -- what it is made of -----------------------------------------------------------------------------------------------

packages() { # Debian's packages that are missing, and the binary
  local want=() tool key
  for tool in containerd:containerd runc:runc openssl:openssl ip:iproute2 iptables:iptables gcc:gcc findmnt:util-linux; do
    command -v "${tool%%:*}" >/dev/null || want+=("${tool##*:}")
  done
  [ -x /usr/lib/cni/bridge ] || want+=(containernetworking-plugins)
  [ -e /usr/include/signal.h ] || want+=(libc6-dev)
  if [ ${#want[@]} -gt 0 ]; then
    say "installing ${want[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends "${want[@]}" >"$DIR/logs/apt.log" 2>&1
  fi
  key=$(cat "$here"/kube/{main.go,go.mod,go.sum} "$here/pause.c" <(go version) | sha256sum | cut -c1-16)
  if [ ! -x "$CACHE/$key/kube" ]; then
    say "building the Kubernetes binary (minutes)"
    mkdir -p "$CACHE/$key"
    gcc -Os -static -o "$CACHE/$key/pause" "$here/pause.c"
    (cd "$here/kube" && CGO_ENABLED=0 go build -mod=readonly -trimpath \
      -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$VERSION" -o "$CACHE/$key/kube.new" .)
    mv "$CACHE/$key/kube.new" "$CACHE/$key/kube"
  fi
  ln -sfn "$CACHE/$key" "$DIR/bin"
}

certificate() { # NAME SUBJECT [EXTENSION]: a key and a certificate of the cluster's authority
  openssl req -new -newkey rsa:2048 -nodes -keyout "$PKI/$1.key" -subj "$2" 2>/dev/null |
    openssl x509 -req -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -CAcreateserial -days 30 -out "$PKI/$1.crt" \
      -extfile <(printf 'extendedKeyUsage=clientAuth,serverAuth\n%s\n' "${3:-}") 2>/dev/null
}
in_base64() { base64 -w0 <"$1"; }
kubeconfig() { # NAME: its file, with the certificate of that name
  cat >"$DIR/$1.kubeconfig" <<Y
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:$PORT", certificate-authority-data: $(in_base64 "$PKI/ca.crt")}}]
users: [{name: me, user: {client-certificate-data: $(in_base64 "$PKI/$1.crt"), client-key-data: $(in_base64 "$PKI/$1.key")}}]
contexts: [{name: test, context: {cluster: test, user: me}}]
current-context: test
Y
  chmod 600 "$DIR/$1.kubeconfig"
}
identities() {
  local name
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=kube-test -keyout "$PKI/ca.key" -out "$PKI/ca.crt" 2>/dev/null
  openssl genrsa -out "$PKI/sa.key" 2048 2>/dev/null
  certificate apiserver /CN=kube-apiserver "subjectAltName=IP:127.0.0.1,IP:$NET.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc"
  certificate admin /O=system:masters/CN=admin
  certificate kubelet "/O=system:nodes/CN=system:node:$NODE"
  for name in controller-manager scheduler; do certificate $name "/CN=system:kube-$name"; done
  for name in admin kubelet controller-manager scheduler; do kubeconfig $name; done
}

image() { # one layer, two images: for the sandboxes (pause), and for the executors, whose /usr is the host's
  local made=$DIR/image layer entry
  mkdir -p "$made"/root/{usr,etc,tmp,var/tmp,run,proc,sys,dev,root,home,opt/spark/conf}
  chmod 1777 "$made/root/tmp" "$made/root/var/tmp"
  for entry in bin sbin lib lib64; do ln -s usr/$entry "$made/root/$entry"; done
  echo 'root:x:0:0:root:/root:/bin/sh' >"$made/root/etc/passwd"
  echo 'root:x:0:' >"$made/root/etc/group"
  cp "$DIR/bin/pause" "$here/entrypoint.sh" "$made/root/"
  chmod 755 "$made/root/entrypoint.sh"
  tar --numeric-owner --owner=0 --group=0 -C "$made/root" -cf "$made/layer.tar" .
  layer=$(sha256sum "$made/layer.tar" | cut -d' ' -f1)
  for entry in pause entrypoint.sh; do
    cat >"$made/$entry.json" <<J
{"architecture": "amd64", "os": "linux",
 "config": {"Entrypoint": ["/$entry"], "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]}}
J
  done
  cat >"$made/manifest.json" <<J
[{"Config": "pause.json", "RepoTags": ["$PAUSE"], "Layers": ["layer.tar"]},
 {"Config": "entrypoint.sh.json", "RepoTags": ["$IMAGE"], "Layers": ["layer.tar"]}]
J
  tar -C "$made" -cf "$made/image.tar" manifest.json pause.json entrypoint.sh.json layer.tar
  ctr images import "$made/image.tar" >/dev/null
}

configurations() {
  mkdir -p "$DIR/cni/net.d"
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE runc can't lower it for a sandbox
  cat >"$DIR/containerd.toml" <<T
version = 2
root = "$DIR/containerd/root"
state = "$DIR/containerd/state"
[grpc]
  address = "$SOCK"
[plugins."io.containerd.internal.v1.opt"]
  path = "$DIR/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$DIR/cni/net.d"
T
  sed "s|@BRIDGE@|$BRIDGE|; s|@NET@|$NET|g; s|@DATA@|$DIR/cni/data|" "$here/cni.conflist" >"$DIR/cni/net.d/10-test.conflist"
  sed "s|@DIR@|$DIR|g; s|@NET@|$NET|g" "$here/kubelet.yaml" >"$DIR/kubelet.yaml"
}

network() {
  ip link show $BRIDGE >/dev/null 2>&1 || ip link add $BRIDGE type bridge
  ip addr replace "$NET.1/24" dev $BRIDGE
  ip link set $BRIDGE up
  # where Docker runs, packets between the pods of a bridge would be dropped
  iptables -w -C FORWARD -i $BRIDGE -o $BRIDGE -j ACCEPT 2>/dev/null || iptables -w -I FORWARD -i $BRIDGE -o $BRIDGE -j ACCEPT
}

# -- the verbs --------------------------------------------------------------------------------------------------------

token() { kc -n $NS get secret spark-driver-token -o 'go-template={{.data.token | base64decode}}'; }
has_token() { [ -n "$(token)" ]; }
is_untainted() { [ -z "$(kc get node $NODE -o jsonpath='{.spec.taints}')" ]; }

up() {
  local name
  [ "$(id -u)" = 0 ] || die "up needs root"
  [ -r "$RIGHTS" ] || die "KUBE_RIGHTS names no manifest"
  if [ ! -e "$DIR/$MARK" ] && [ -n "$(ls -A "$DIR" 2>/dev/null | grep -vx logs)" ]; then die "$DIR holds something else"; fi
  down
  mkdir -p "$DIR"/{logs,pids,pki,kubelet}
  touch "$DIR/$MARK"
  chmod 700 "$PKI"
  packages
  identities
  configurations
  network
  for name in etcd containerd apiserver; do start_part $name; done
  await 60 containerd ctr version
  image
  await 120 "API server" kc get --raw /readyz
  for name in controller-manager scheduler kubelet; do start_part $name; done
  kc create namespace $NS >/dev/null
  kc -n $NS apply -f "$RIGHTS" >/dev/null
  await 60 "service account" kc -n $NS get serviceaccount default spark-driver
  await 60 "token" has_token
  (umask 077 && token >"$DIR/spark.token")
  await 120 node kc get node $NODE
  kc wait --for=condition=Ready --timeout=120s node/$NODE >/dev/null || die "the node is not Ready, see $DIR/logs"
  await 60 "node without taints" is_untainted
  say "up: $DIR"
}

down() {
  local part task mount i
  [ -e "$DIR/$MARK" ] || return 0 # nothing of ours: nothing is removed
  if alive apiserver && alive kubelet; then # the kubelet takes its pods' sandboxes and networks down in order
    kc delete pods --all --all-namespaces --grace-period=1 --timeout=30s >/dev/null 2>&1 || true
    if alive containerd; then
      for ((i = 0; i < 50; i++)); do [ -n "$(ctr tasks ls -q)" ] || break; sleep 0.2; done
    fi
  fi
  for part in kubelet scheduler controller-manager apiserver etcd; do stop_part $part; done
  if alive containerd; then # what is left over, as after a crash
    for task in $(ctr tasks ls -q); do ctr tasks rm -f "$task" >/dev/null || true; done
  fi
  stop_part containerd
  end_sandboxes
  while read -r mount; do umount -l "$mount" || true; done < <(findmnt -rno TARGET | grep "^$DIR/" | sort -r)
  iptables -w -D FORWARD -i $BRIDGE -o $BRIDGE -j ACCEPT 2>/dev/null || true
  ip link del $BRIDGE 2>/dev/null || true
  find /sys/fs/cgroup -maxdepth 2 -name kubepods -exec find {} -depth -type d -exec rmdir {} + \; 2>/dev/null || true
  rm -rf --one-file-system "$DIR"/{pids,pki,etcd,containerd,containerd.*,kubelet,kubelet.yaml,cni,image,bin} \
    "$DIR"/*.kubeconfig "$DIR/spark.token"
}

end_sandboxes() { # after a killed run: containerd's shims of this DIR, and what runs in their pods
  local shim child
  for shim in $(pgrep -f "^/usr/bin/containerd-shim-runc-v2 .*-address $SOCK" || true); do
    for child in $(pgrep -P "$shim" || true); do kill -9 "$child" 2>/dev/null || true; done
    kill -9 "$shim" 2>/dev/null || true
  done
}

status() {
  local name bad=0
  for name in "${PARTS[@]}"; do
    if alive "$name"; then
      echo "$name runs, $(awk '/VmRSS/ {print int($2 / 1024) " MiB"}' "/proc/$(cut -d' ' -f1 "$DIR/pids/$name")/status")"
    else
      echo "$name does not run"
      bad=1
    fi
  done
  [ $bad = 1 ] || kc get nodes,pods --all-namespaces
  return $bad
}

case $verb:$part in
  up: | down: | status:) $verb ;;
  start:?*) start_part "$part" ;;
  stop:?*) stop_part "$part" ;;
  *) sed -n '2,10p' "$0" >&2 && exit 2 ;;
esac
