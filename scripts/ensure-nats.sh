#!/usr/bin/env bash
# Tests of routers need a nats-server. Use what is there; otherwise install Debian's if apt and root
# are at hand; otherwise say what is missing in one sentence.
set -eu

PATH="$PATH:/usr/sbin"
if command -v nats-server >/dev/null 2>&1; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing Debian's nats-server"
  apt-get -qq update
  if DEBIAN_FRONTEND=noninteractive apt-get -qq install -y nats-server >/dev/null 2>&1; then
    exit 0
  fi
fi
echo "There is no nats-server on PATH: install one (Debian: apt-get install nats-server; others: https://nats.io/download) and run this again." >&2
exit 1
