# NAME: the database as compressed SQL, in base64.
set -eu
file=$(mktemp)
trap 'rm -f "$file"' EXIT
su postgres -c "pg_dump -p 5432 $1" > "$file"
gzip -c "$file" | base64 -w 0
