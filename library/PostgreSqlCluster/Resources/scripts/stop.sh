# Finishes what is being answered and stops.
version=$(ls /etc/postgresql | sort -V | tail -n 1)
pg_ctlcluster "$version" main stop -- -m smart -t 20 || pg_ctlcluster "$version" main stop -- -m fast
