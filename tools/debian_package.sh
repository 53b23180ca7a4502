#!/usr/bin/env bash
# Builds a Debian package of this tree: `debian_package.sh VENV DIRECTORY` prints its path. It has an interpreter's
# environment of its own in /usr/lib/vetro, with the locked versions; /usr/bin/vetro is its command.
set -euo pipefail
venv=$1 directory=$2
top=$(cd "$(dirname "$0")/.." && pwd)
python=$(readlink -f "$venv/bin/python")
case "$python" in /usr/bin/*) ;; *)
  echo "A package needs the distribution's Python; $venv is of $python. Run 'make setup PYTHON=/usr/bin/python3'." >&2
  exit 1
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root lib=$work/root/usr/lib/vetro
"$python" -m venv --without-pip "$lib"
"$venv/bin/python" "$top/tools/runtime_packages.py" "$lib/lib/$(basename "$python")/site-packages"
pip() {
  "$venv/bin/python" -m pip "$@" -q --disable-pip-version-check 2> >(grep -v '^WARNING: Location' >&2)
}
pip wheel --no-deps --no-build-isolation -w "$work" "$top"
pip "--python=$lib/bin/python" install --no-deps --no-compile "$work"/vetro-*.whl
version=$("$lib/bin/vetro" --version | awk '{print $NF}')
# As it is called where it will be; the distribution's libvirt is found after our own packages.
find "$lib/bin" -type f -exec grep -Il "^#!$lib" {} + | xargs sed -i "1s|^#!$lib|#!/usr/lib/vetro|"
sed -i -e 's/^include-system-site-packages = .*/include-system-site-packages = true/' -e '/^command = /d' "$lib/pyvenv.cfg"
rm -f "$lib"/bin/[Aa]ctivate*
find "$lib" -name __pycache__ -prune -exec rm -rf {} +
install -d "$root/usr/bin" "$root/usr/share/doc/vetro" "$root/DEBIAN"
ln -s ../lib/vetro/bin/vetro "$root/usr/bin/vetro"
cp -r "$top/README.md" "$top/CHANGELOG.md" "$top/docs" "$top/monitoring" "$root/usr/share/doc/vetro/"
install -m 644 "$top/LICENSE" "$root/usr/share/doc/vetro/copyright"
next=$("$python" -c 'import sys; print(f"3.{sys.version_info[1] + 1}")')
minor=$("$python" -c 'import sys; print(f"3.{sys.version_info[1]}")')
containers=$("$top/tools/system-packages.sh" demo --list | grep -v '^python3-venv$' | paste -sd, | sed 's/,/, /g')
cat > "$root/DEBIAN/control" <<CONTROL
Package: vetro
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: Vetro <vetro@localhost>
Section: admin
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: python3 (>= $minor), python3 (<< $next)
Recommends: $containers
Suggests: postgresql, rabbitmq-server, libvirt-daemon, python3-libvirt, qemu-system-x86, qemu-utils, genisoimage
Description: application catalog for your own machines
 An author describes an application once; a user composes an environment from
 the catalog and deploys it. 'vetro install' makes this machine a service.
CONTROL
cat > "$root/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
set -e
# As packages of Python do: else every start of a command by a user would compile it again.
[ "$1" != configure ] || /usr/lib/vetro/bin/python -m compileall -q -j 0 /usr/lib/vetro/lib > /dev/null || true
if [ "$1" = configure ] && [ -z "$2" ]; then
  echo "Vetro is installed. 'vetro install' writes its settings and its unit for systemd; 'vetro doctor' examines this machine."
elif [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  # An upgrade: what runs goes on with the new version. Containers outlive their agent.
  systemctl daemon-reload
  systemctl try-restart 'vetro*.service'
fi
SCRIPT
cat > "$root/DEBIAN/prerm" <<'SCRIPT'
#!/bin/sh
set -e
[ "$1" != remove ] || [ ! -d /run/systemd/system ] || systemctl stop 'vetro*.service' || true
find /usr/lib/vetro -name __pycache__ -prune -exec rm -rf {} +
SCRIPT
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
mkdir -p "$directory"
package=$directory/vetro_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group -Zgzip -z4 --build "$root" "$package" > /dev/null
echo "$package"
