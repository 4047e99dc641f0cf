#!/bin/sh
# Back up the data directory, then delete backups that are older than KEEP_DAYS. cron runs this daily.
set -eu
cd "$(dirname "$(readlink -f "$0")")"
docker compose run --rm -T oriel backup --data=data --to="backups/$(date -u +%Y%m%dT%H%M%SZ)"
# `set -e`: only after a complete backup, so a failing backup never deletes the last one.
find backups -mindepth 1 -maxdepth 1 -name '20*Z' -mtime "+${KEEP_DAYS:-14}" -exec rm -r {} +
