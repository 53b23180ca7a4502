# NAME OWNER: a database; one that exists stays as it is.
set -eu
psql() { su postgres -c "psql -qAtX -v ON_ERROR_STOP=1 -p 5432 $*"; }
[ "$(echo "select 1 from pg_database where datname = '$1'" | psql)" = 1 ] || echo "create database $1 owner $2" | psql
