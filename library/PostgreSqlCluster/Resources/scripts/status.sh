# How many replicas receive what this server writes.
su postgres -c "psql -qAtX -p 5432 -c \"select count(*) from pg_stat_replication where state = 'streaming'\""
