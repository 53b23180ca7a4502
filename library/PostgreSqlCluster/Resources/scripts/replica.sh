# PRIMARY PASSWORD: this server follows the primary at that address.
set -eu
primary=$1 password=$2
version=$(ls /etc/postgresql | sort -V | tail -n 1)
data=/var/lib/postgresql/$version/main
pass=/var/lib/postgresql/.pgpass
psql() { su postgres -c "psql -qAtX -v ON_ERROR_STOP=1 -p 5432 $*"; }
umask 077
printf '*:*:*:replicator:%s\n' "$(printf %s "$password" | sed 's/[\\:]/\\&/g')" > "$pass"
chown postgres: "$pass"
umask 022
cat > "/etc/postgresql/$version/main/conf.d/vetro-primary.conf" <<CONF
primary_conninfo = 'host=$primary port=5432 user=replicator passfile=$pass'
CONF
if [ -e "$data/standby.signal" ]; then
  # It has the data already, of this primary or of one before.
  pg_ctlcluster "$version" main restart
else
  pg_ctlcluster "$version" main stop -- -m fast 2>/dev/null || true
  rm -rf "$data"
  su postgres -c "pg_basebackup -w -h $primary -p 5432 -U replicator -D $data -X stream -c fast"
  su postgres -c "touch $data/standby.signal"
  pg_ctlcluster "$version" main start
fi
for attempt in $(seq 60); do
  [ "$(echo "select count(*) from pg_stat_wal_receiver where status = 'streaming'" | psql)" = 0 ] || exit 0
  sleep 0.5
done
echo "it does not receive what the primary at $primary writes" >&2
exit 1
