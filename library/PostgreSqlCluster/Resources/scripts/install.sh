# PostgreSQL on this server, open to those who know the password. Running it again changes nothing.
set -eu
if ! command -v pg_ctlcluster >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends postgresql >/dev/null
fi
version=$(ls /etc/postgresql | sort -V | tail -n 1)
settings=/etc/postgresql/$version/main
mkdir -p "$settings/conf.d"
cat > "$settings/conf.d/vetro.conf" <<CONF
listen_addresses = '*'
wal_level = replica
wal_keep_size = 256MB
hot_standby = on
CONF
# The security group says who may connect.
for who in 'all all' 'replication replicator'; do
  rule="host $who 0.0.0.0/0 scram-sha-256"
  grep -qxF "$rule" "$settings/pg_hba.conf" || echo "$rule" >> "$settings/pg_hba.conf"
done
pg_ctlcluster "$version" main restart
