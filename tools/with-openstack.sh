#!/usr/bin/env bash
# Runs a command with a throw-away OpenStack: VETRO_TEST_OPENSTACK names its directory. Real services from Debian's
# packages; servers exist only on paper. Installs packages: `tools/fresh.sh 'make openstack'` does it in a new Debian.
set -euo pipefail
. "$(dirname "$0")/foreground.sh"
top=$(cd "$(dirname "$0")/.." && pwd)
kit=${VETRO_OPENSTACK_KIT:-$top/../shared/openstack}
if [ ! -x "$kit/install.sh" ]; then
  echo "There is no kit of an OpenStack at $kit (VETRO_OPENSTACK_KIT): its tests are left out." >&2
  [ "${CI:-}" != true ] || exit 1
  exit 0
fi
if [ "$(id -u)" != 0 ]; then
  echo "The packages of an OpenStack are installed by root; run this as root." >&2
  exit 1
fi
lap() { echo "openstack: $(($(date +%s) - began)) s: $*"; }
began=$(date +%s)
cleanup() {
  [ ! -e "$root/env" ] || "$kit/stop.sh" "$root"
  rm -rf "$root"
}
own /var/tmp openstack
dir=$root
apt-get update -q > /dev/null
"$kit/install.sh" "$dir" || { tail -n 20 "$dir/install.log" >&2; exit 1; }
lap "packages installed"
"$kit/start.sh" "$dir" > /dev/null {lock}<&- || { tail -n 20 "$dir"/log/*.out >&2; exit 1; }
lap "services answer"
export VETRO_TEST_OPENSTACK=$dir
status=0
guarded "$@" || status=$?
lap "tests have ended"
exit $status
