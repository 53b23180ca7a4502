#!/bin/sh
# install.sh PORT DATABASE USER PASSWORD: a PostgreSQL that has them. Running it again changes what differs.
set -eu
port=$1 database=$2 user=$3 password=$4
if ! command -v pg_ctlcluster >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends postgresql
fi
version=$(ls /etc/postgresql | sort -V | tail -n 1)
settings=/etc/postgresql/$version/main
mkdir -p "$settings/conf.d"
cat > "$settings/conf.d/vetro.conf" <<CONF
listen_addresses = '*'
port = $port
CONF
# The security group says who may connect; here everybody who knows the password.
rule='host all all 0.0.0.0/0 scram-sha-256'
grep -qxF "$rule" "$settings/pg_hba.conf" || echo "$rule" >> "$settings/pg_hba.conf"
pg_ctlcluster "$version" main restart
psql() { su postgres -c "psql -qAtX -v ON_ERROR_STOP=1 -p $port $*"; }
[ "$(echo "select 1 from pg_roles where rolname = '$user'" | psql)" = 1 ] || echo "create role $user login" | psql
# The password reaches psql on standard input, and no list of processes.
printf "alter role %s password '%s'\n" "$user" "$(printf %s "$password" | sed "s/'/''/g")" | psql
[ "$(echo "select 1 from pg_database where datname = '$database'" | psql)" = 1 ] \
  || echo "create database $database owner $user" | psql
