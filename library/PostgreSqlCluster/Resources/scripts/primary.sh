# DATABASE USER PASSWORD: this server is the primary; a replica is promoted.
set -eu
database=$1 user=$2 password=$3
version=$(ls /etc/postgresql | sort -V | tail -n 1)
psql() { su postgres -c "psql -qAtX -v ON_ERROR_STOP=1 -p 5432 $*"; }
pg_ctlcluster "$version" main start 2>/dev/null || true
if [ "$(echo 'select pg_is_in_recovery()' | psql)" = t ]; then
  [ "$(echo 'select pg_promote()' | psql)" = t ]
fi
# The password reaches psql on standard input, and no list of processes.
quoted=$(printf %s "$password" | sed "s/'/''/g")
for role in "$user" 'replicator'; do
  [ "$(echo "select 1 from pg_roles where rolname = '$role'" | psql)" = 1 ] || echo "create role $role login" | psql
  printf "alter role %s password '%s'\n" "$role" "$quoted" | psql
done
echo 'alter role replicator replication' | psql
[ "$(echo "select 1 from pg_database where datname = '$database'" | psql)" = 1 ] \
  || echo "create database $database owner $user" | psql
