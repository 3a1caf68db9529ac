#!/usr/bin/env bash
# Runs the tests that need controllers of cgroup v2, in a virtual machine with Debian's kernel, for hosts whose own kernel
# has them in version 1 (or none): tests/testbed/limits_vm.sh [arguments for pytest]
# The machine sees this host's files read-only, and forgets what it writes. Its processor is emulated, which takes ten
# times as long; LIMITS_VM_ACCEL=kvm uses the host's, where that works. Exit code: pytest's.
# As root on Debian, with .venv made, and qemu-system-x86 and cpio installed; the kernel and busybox are only unpacked.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
cache=$here/.ci/cache/limits-vm
[ $# -gt 0 ] || set -- tests/integration/test_controllers.py tests/faults/test_limits.py

unpack() {
    local packages kernel
    packages=$(mktemp -d)
    kernel=$(apt-cache depends linux-image-amd64 | grep -m1 -o 'linux-image-[0-9][^ ]*')
    (cd "$packages" && apt-get -qq -o APT::Sandbox::User=root download "$kernel" busybox-static)
    for package in "$packages"/*.deb; do dpkg -x "$package" "$packages/files"; done
    mkdir -p "$cache/modules"
    cp "$packages"/files/boot/vmlinuz-* "$cache/vmlinuz"
    cp "$packages"/files/bin/busybox "$cache/busybox"
    for module in virtio/virtio virtio/virtio_ring virtio/virtio_pci virtio/virtio_pci_modern_dev virtio/virtio_pci_legacy_dev; do
        cp "$packages"/files/lib/modules/*/kernel/drivers/$module.ko "$cache/modules"
    done
    for module in fs/netfs/netfs fs/fscache/fscache fs/9p/9p fs/overlayfs/overlay net/9p/9pnet net/9p/9pnet_virtio; do
        cp "$packages"/files/lib/modules/*/kernel/$module.ko "$cache/modules"
    done
    rm -rf "$packages"
}

# pytest runs in the root group: only there a group may have both processes and controllers for the groups below it.
write_init() {
    cat >"$1" <<'INIT'
#!/busybox sh
/busybox mkdir -p /bin /proc /sys /dev /host /written /root
/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for round in 1 2 3; do for module in /modules/*; do insmod $module 2>/dev/null; done; done # in any order
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /host
mount -t tmpfs -o size=2g written /written
mkdir /written/files /written/work
mount -t overlay -o lowerdir=/host,upperdir=/written/files,workdir=/written/work overlay /root
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t devtmpfs dev /root/dev
mkdir -p /root/dev/shm
mount -t tmpfs shm /root/dev/shm
mount -t tmpfs tmp /root/tmp
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
echo "+memory +cpu +pids" > /root/sys/fs/cgroup/cgroup.subtree_control
ifconfig lo 127.0.0.1 up
hostname limits-vm
cp /run-tests /root/tmp/run-tests
chroot /root /bin/bash /tmp/run-tests
echo o > /proc/sysrq-trigger
sleep 60
INIT
    chmod +x "$1"
}

[ -e "$cache/vmlinuz" ] || unpack
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir "$made/root"
cp -r "$cache/modules" "$cache/busybox" "$made/root"
write_init "$made/root/init"
{
    printf 'export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LANG=C.UTF-8 SPARK_SUPERVISOR_REQUIRE_LIMITS=1 SPARK_SUPERVISOR_TEST_PATIENCE=15\n'
    printf 'cd %q\n.venv/bin/python -m pytest -p no:cacheprovider --timeout 3000' "$here"
    printf ' %q' "$@"
    printf '\necho "exit code of the tests: $?"\n'
} >"$made/root/run-tests"
(cd "$made/root" && find . | cpio -o -H newc --quiet | gzip -1 >"$made/initrd")
qemu-system-x86_64 -accel "${LIMITS_VM_ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m 6144 -nographic -no-reboot \
    -kernel "$cache/vmlinuz" -initrd "$made/initrd" -append "console=ttyS0 quiet panic=-1" \
    -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=host,mount_tag=host </dev/null | stdbuf -oL tr -d '\r' | tee "$made/output"
exit "$(sed -n 's/.*exit code of the tests: //p' "$made/output" | grep . || echo 1)"
