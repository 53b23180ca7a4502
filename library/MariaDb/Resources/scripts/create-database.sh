#!/bin/sh
# create-database.sh DATABASE USER PASSWORD: they exist afterwards. The security group says who may connect.
set -eu
database=$1 user=$2
password=$(printf %s "$3" | sed "s/[\\\\']/\\\\&/g")
# The password reaches the server on standard input, and no list of processes.
mariadb --batch <<SQL
create database if not exists \`$database\` character set utf8mb4;
create user if not exists '$user'@'%';
alter user '$user'@'%' identified by '$password';
grant all privileges on \`$database\`.* to '$user'@'%';
SQL
