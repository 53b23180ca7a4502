#!/usr/bin/env bash
# Installs the distribution's packages Vetro needs: `system-packages.sh python|demo|test|vm [--list]`.
# As root it installs and says so; otherwise it names what is missing and goes on (driver `process`).
# `--list` prints their names, one a line, and installs nothing.
set -euo pipefail
purpose=${1:-demo}

packages=(lxc uidmap nftables iproute2 mmdebstrap zstd e2fsprogs python3-venv)
# What the virtual environment waits for; the rest is installed beside it.
[ "$purpose" != python ] || packages=(python3-venv)
# Servers that tests start, and programs that tests and the tutorial call.
[ "$purpose" != test ] || packages+=(postgresql pgbouncer rabbitmq-server openssl busybox-static btrfs-progs lvm2 curl git procps slirp4netns stress)

# The browser that tests of the dashboard drive, without windows, and the whole one for its figures.
browser=()
[ "$purpose" != test ] || browser+=(chromium chromium-headless-shell fonts-dejavu-core)

# Its tool runs the tests of the alert rules.
monitoring=()
[ "$purpose" != test ] || monitoring+=(prometheus)

# Virtual machines. libvirt-python is compiled when it is installed.
machines=()
case "$purpose" in test|vm)
  machines+=(libvirt-daemon qemu-system-x86 qemu-utils genisoimage e2fsprogs)
  machines+=(libvirt-dev pkg-config gcc libc6-dev python3-dev busybox-static)
esac

if [ "${2:-}" = --list ]; then
  printf '%s\n' "${packages[@]}" "${browser[@]}" "${monitoring[@]}" "${machines[@]}" | sort -u
  exit
fi

# What `install WHY OPTIONS... -- PACKAGES...` lacks is installed, or named.
install() {
  local why=$1 options=() missing=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing with apt-get: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # The step before may have done it; lists that are minutes old are new enough.
    if [ -z "$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' -cmin -30 -print -quit 2>/dev/null)" ]; then
      apt-get update -qq
    fi
    apt-get install -y -qq "${options[@]}" "${missing[@]}" >/dev/null || {
      echo "Debian packages are missing and could not be installed: ${missing[*]}. Run it again when the mirror can be reached." >&2
      return 1
    }
  else
    echo "Not installed (no root): ${missing[*]}. $why" >&2
  fi
}

# With what they recommend: LXC without lxcfs and its helpers is only half there.
install "Containers need them; going on with the 'process' driver." -- "${packages[@]}"
[ ${#browser[@]} = 0 ] || install "Tests of the dashboard need them." --no-install-recommends -- "${browser[@]}"
[ ${#monitoring[@]} = 0 ] || install "Tests of alert rules need it." --no-install-recommends -- "${monitoring[@]}"
# Without what they recommend: no graphics, no other hypervisors, no daemon of the system's own.
[ ${#machines[@]} = 0 ] || install "Virtual machines (driver 'qemu') need them." --no-install-recommends -- "${machines[@]}"

# Unprivileged containers run in root's subordinate id range.
if [ "$(id -u)" = 0 ]; then
  for file in /etc/subuid /etc/subgid; do
    grep -q '^root:' "$file" 2>/dev/null || echo 'root:1000000:65536' >> "$file"
  done
fi
