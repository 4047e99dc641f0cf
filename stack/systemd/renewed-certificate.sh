#!/bin/sh
# Install a renewed certificate for oriel-serve.
#
# certbot runs each file of /etc/letsencrypt/renewal-hooks/deploy after a renewal. RENEWED_LINEAGE is
# then the directory of the new files, for example /etc/letsencrypt/live/oriel.example.org.
set -eu
install -m 0640 -o root -g oriel-serve "$RENEWED_LINEAGE/fullchain.pem" /etc/oriel/tls/cert.pem
install -m 0640 -o root -g oriel-serve "$RENEWED_LINEAGE/privkey.pem" /etc/oriel/tls/key.pem
if systemctl is-active --quiet oriel-serve; then
    systemctl reload oriel-serve
fi
