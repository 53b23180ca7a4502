#!/usr/bin/env bash
# Runs commands in a newly bootstrapped Debian with nothing but make and Python: `fresh.sh COMMAND...`.
# The checkout's files are at $place there. What a command needs beyond that, the project's own files install.
# What they fetch or build is kept in VETRO_CACHE_DIR for the next time (docs/decisions/0781).
set -euo pipefail
. "$(dirname "$0")/foreground.sh"
if [ "$(id -u)" != 0 ]; then
  echo "A new Debian root is made and entered by root; run this as root." >&2
  exit 1
fi
top=$(cd "$(dirname "$0")/.." && pwd)
command -v mmdebstrap >/dev/null || "$top/tools/system-packages.sh" demo
# Where people clone: in a home that nobody else may enter, below a name that needs quotes (decision 0780).
place="/root/my projects/vétro"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
# Everything below is in a mount and process namespace of its own: it ends, and is unmounted, with it.
cleanup() {
  [ ! -d "$root/var/cache/apt/archives" ] \
    || "$top/tools/keep-archives.sh" "$root/var/cache/apt/archives" "$cache/archives" || true
  rm -rf --one-file-system "$root"
}
cache=${VETRO_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/vetro/setup}
mkdir -p "$cache"/{archives,npm,dashboard}
own /var/tmp fresh
echo "Bootstrapping Debian $suite with make and Python"
# The root is thrown away: nothing in it must survive a power cut.
# What was fetched before is taken from the cache, and what is fetched now is kept there.
mmdebstrap --quiet --variant=minbase --include=make,python3,ca-certificates --dpkgopt=force-unsafe-io \
  --skip=essential/unlink \
  --setup-hook='mkdir -p "$1/var/cache/apt/archives"' \
  --setup-hook="'$top/tools/keep-archives.sh' '$cache/archives' \"\$1/var/cache/apt/archives\"" \
  --customize-hook="'$top/tools/keep-archives.sh' \"\$1/var/cache/apt/archives\" '$cache/archives'" \
  "$suite" "$root" >/dev/null
mkdir -p "$root/var/cache/apt/archives"
"$top/tools/keep-archives.sh" "$cache/archives" "$root/var/cache/apt/archives"
# How this machine reaches the package indexes holds there too; nothing else of it does.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
settings=(VETRO_CACHE_DIR=/var/cache/vetro npm_config_cache=/var/cache/vetro/npm)
for name in PIP_CERT PIP_INDEX_URL PIP_DEFAULT_TIMEOUT SSL_CERT_FILE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS \
  http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY CI VETRO_BENCH; do
  [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
if git -C "$top" rev-parse HEAD >/dev/null 2>&1; then
  mkdir -p "$root$place"
  git -C "$top" ls-files -z --cached --others --exclude-standard \
    | tar --create --directory="$top" --null --files-from=- --ignore-failed-read --file=- 2>/dev/null \
    | tar --extract --directory="$root$place" --no-same-owner --file=-
else
  echo "The files of the checkout are taken from git, which does not know this directory." >&2
  exit 1
fi
# What asks git for the files of the tree finds a repository, without its history.
git -C "$root$place" init --quiet
git -C "$root$place" add --all
# The history stays here: what a rolling upgrade begins with is copied.
if "$top/tools/version-before.sh" "$root/srv/vetro-before"; then
  settings+=(VETRO_TEST_VERSION_BEFORE=/srv/vetro-before)
elif [ "$(git -C "$top" rev-parse --is-shallow-repository)" = true ]; then
  echo "fresh: a clone without history has no version before: tests/server/test_upgrade_under_load.py is left out" >&2
  settings+=(VETRO_TEST_VERSION_BEFORE=none)
fi
# The kit of an OpenStack stands beside the checkout, not in it.
kit=${VETRO_OPENSTACK_KIT:-$top/../shared/openstack}
if [ -d "$kit" ]; then
  mkdir -p "$root/srv"
  cp -rL "$kit" "$root/srv/openstack-kit"
  settings+=(VETRO_OPENSTACK_KIT=/srv/openstack-kit)
fi
signal=KILL  # `unshare` takes no other while it waits
# shellcheck disable=SC2016 # the script is the inner shell's
guarded unshare --mount --propagation private --pid --fork --kill-child --uts --ipc sh -euc '
  root=$1 cache=$2; shift 2
  # Containers are put below the control groups of process 1, which is this one: at the root, as on a machine.
  for group in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
    [ ! -e "$group" ] || echo 0 > "$group" 2>/dev/null || true
  done
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mkdir -p "$root/var/cache/vetro"
  mount --bind "$cache" "$root/var/cache/vetro"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" 2>/dev/null || true
  [ ! -d /lib/modules ] || { mkdir -p "$root/lib/modules"; mount --bind /lib/modules "$root/lib/modules"; }
  # A new root and not chroot: who is in a chroot may make no user namespaces, as containers need them.
  cd "$root"
  mkdir old
  pivot_root . old
  cd /
  umount -l /old
  rmdir /old
  exec env -i "$@"
' sh "$root" "$cache" HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${settings[@]}" \
  sh -euc 'cd "$0"; for step; do echo "fresh: $step"; sh -euc "$step"; done' "$place" "$@"
