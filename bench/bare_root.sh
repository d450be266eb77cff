#!/usr/bin/env bash
# Prove that the README's commands work from nothing: bench/bare_root.sh [debian|ubuntu|ubuntu-22.04] [COMMAND…]
# As root, on Debian or Ubuntu with debootstrap and slirp4netns. Makes a bare system (Python, git and certificates alone) and a
# clean copy of this checkout's HEAD, and runs each COMMAND in it, by default the four below. The system has its own
# processes, mounts and network, so that its engine disturbs no other; it shares the kernel and the control groups.
# BARE_PLACE: a folder with 15 GB, not on an overlay (default /var/tmp). Exit code 1 if a command fails.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

kind=${1:-debian}
[ $# = 0 ] || shift
student="cd /home/student/lab && runuser -u student -- ./lab test --unit"
[ $# -gt 0 ] || set -- "./lab test --unit" "$student" "./lab run scenario5 --quick" "./lab test"
suite=bookworm components=main trust=()
if [ "$kind" != debian ]; then
    components=main,universe
    [ "$kind" = ubuntu ] && suite=noble || suite=jammy
    # Debian has no keyring of Ubuntu's; noble is bootstrapped as every release of Ubuntu is.
    [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || trust=(--no-check-gpg)
    script=/usr/share/debootstrap/scripts/gutsy
fi
for program in debootstrap slirp4netns unshare git; do
    command -v "$program" >/dev/null ||
        { echo "bare_root: $program is missing: sudo apt-get install $program" >&2; exit 3; }
done

place=$(mktemp -d "${BARE_PLACE:-/var/tmp}/looplab-bare-$kind.XXXXXX")
root=$place/root
# shellcheck disable=SC2329
cleanup() {
    trap - EXIT INT TERM
    # unshare takes no other signal; the kernel ends every process of the bare system with its first one.
    for process in ${inside:-} ${network:-}; do kill -KILL "$process" 2>/dev/null || true; done
    wait || true
    rm -rf --one-file-system "$place"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "bare_root: $suite"
debootstrap "${trust[@]}" --variant=minbase --components="$components" --include=python3,git,ca-certificates \
    "$suite" "$root" "" ${script:+"$script"} >"$place/debootstrap.log" 2>&1 ||
    { tail -n 5 "$place/debootstrap.log" >&2; exit 3; }

# Every Ubuntu has its updates; 22.04 has its Python 3.11 and Compose there.
[ "$kind" = debian ] || sed -i "p; s/ $suite / $suite-updates /" "$root/etc/apt/sources.list"

# What this machine needs to reach any registry, the bare one needs, too: certificates, name servers, settings of clients.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
for file in /etc/pip.conf /etc/npmrc /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf.d/99*; do
    if [ -f "$file" ]; then install -D -m 644 "$file" "$root$file"; fi
done
cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
chroot "$root" update-ca-certificates >/dev/null 2>&1
git clone --quiet --no-hardlinks "$here" "$root/root/lab"
chroot "$root" useradd --create-home student
cp -r "$root/root/lab" "$root/home/student/"
chroot "$root" chown -R student: /home/student

cat >"$place/inside.sh" <<'INSIDE'
set -eu
root=$1 place=$2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/run/lock"
hostname bare
ip link set lo up
touch "$place/ready"
i=0
until ip link show tap0 >/dev/null 2>&1; do i=$((i + 1)); [ "$i" -lt 100 ]; sleep 0.1; done
cd "$root"
mkdir -p mnt/before
pivot_root . mnt/before
cd /root/lab
umount -l /mnt/before
shift 2
code=0
for words; do
    began=$(date +%s)
    echo "bare_root: $words"
    good=0
    sh -c "$words" </dev/null || good=$?
    [ "$good" = 0 ] || code=1
    echo "bare_root: exit code $good after $(($(date +%s) - began)) s: $words"
done
# Containers end before their engine does, so that no control group is left behind.
if [ -r /var/run/docker.pid ]; then scripts/stop-engine "$(cat /var/run/docker.pid)" || true; fi
exit "$code"
INSIDE

# A user's environment, and nothing of this checkout's or of this shell's.
kept=()
while IFS= read -r name; do kept+=("$name=${!name}"); done < <(compgen -e | grep -iE '(_proxy|_CERT|_CERTS|_CERT_FILE|_CA_BUNDLE|^GOPROXY|^LAB_DEBIAN_MIRROR)$')
env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "${kept[@]}" \
    unshare --mount --uts --ipc --net --pid --fork --kill-child \
    sh "$place/inside.sh" "$root" "$place" "$@" &
inside=$!
until [ -e "$place/ready" ]; do kill -0 "$inside"; sleep 0.1; done
# unshare's child is in the new network; slirp4netns ends with it.
slirp4netns --configure --mtu=65520 --disable-host-loopback "$(pgrep -P "$inside")" tap0 >"$place/network.log" 2>&1 &
network=$!
code=0
wait "$inside" || code=$?
inside=
exit "$code"
