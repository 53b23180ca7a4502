#!/usr/bin/env bash
# Installs the distribution's packages Vetro needs: `system-packages.sh demo|test|vm`.
# As root it installs and says so; otherwise it names what is missing and goes on (driver `process`).
set -euo pipefail

packages=(lxc uidmap nftables iproute2 mmdebstrap zstd python3-venv)
[ "${1:-demo}" = test ] && packages+=(postgresql rabbitmq-server busybox-static btrfs-progs)

# Virtual machines. libvirt-python is compiled when it is installed.
machines=(libvirt-daemon qemu-system-x86 qemu-utils genisoimage e2fsprogs)
machines+=(libvirt-dev pkg-config gcc libc6-dev python3-dev busybox-static)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing with apt-get: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # With what they recommend: LXC without lxcfs and its helpers is only half there.
    apt-get install -y -qq "${missing[@]}" >/dev/null
  else
    echo "Not installed (no root): ${missing[*]}. Containers need them; going on with the 'process' driver." >&2
  fi
fi

case "${1:-demo}" in test|vm)
  missing=()
  for package in "${machines[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      echo "Installing with apt-get: ${missing[*]}"
      export DEBIAN_FRONTEND=noninteractive
      apt-get update -qq
      # Without what they recommend: no graphics, no other hypervisors, no daemon of the system's own.
      apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    else
      echo "Not installed (no root): ${missing[*]}. Virtual machines (driver 'qemu') need them." >&2
    fi
  fi
esac

# Unprivileged containers run in root's subordinate id range.
if [ "$(id -u)" = 0 ]; then
  for file in /etc/subuid /etc/subgid; do
    grep -q '^root:' "$file" 2>/dev/null || echo 'root:1000000:65536' >> "$file"
  done
fi
