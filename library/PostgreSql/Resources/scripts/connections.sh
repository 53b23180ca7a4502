#!/bin/sh
# connections.sh PORT: how many clients are connected.
su postgres -c "psql -qAtX -p $1 -c \"select count(*) from pg_stat_activity where backend_type = 'client backend'\""
