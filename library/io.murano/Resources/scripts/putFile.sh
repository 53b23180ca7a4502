#!/bin/sh
set -e
mkdir -p "$(dirname "$1")"
cat destinationFile > "$1"
