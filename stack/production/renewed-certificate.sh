#!/bin/sh
# Install a renewed certificate for the service in the container `api`.
#
# certbot runs each file of /etc/letsencrypt/renewal-hooks/deploy after a renewal. RENEWED_LINEAGE is
# then the directory of the new files, for example /etc/letsencrypt/live/oriel.example.org.
set -eu
cd "$(dirname "$(readlink -f "$0")")"
# 10001 is the user of the containers. The service uses the new pair within three seconds.
install -m 0600 -o 10001 -g 10001 "$RENEWED_LINEAGE/fullchain.pem" access/cert.pem
install -m 0600 -o 10001 -g 10001 "$RENEWED_LINEAGE/privkey.pem" access/key.pem
