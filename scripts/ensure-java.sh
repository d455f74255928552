#!/usr/bin/env bash
# Spark needs Java 17 or newer. Use what is there; otherwise install Debian's headless JRE if
# apt and root are at hand; otherwise say what is missing in one sentence.
set -eu

major() {
  "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
if command -v "$java" >/dev/null 2>&1 && [ "$(major "$java")" -ge 17 ] 2>/dev/null; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Spark needs Java 17 or newer: installing Debian's headless JRE"
  apt-get -qq update
  for package in openjdk-21-jre-headless openjdk-17-jre-headless default-jre-headless; do
    if DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "$package" >/dev/null 2>&1; then
      exit 0
    fi
  done
fi
echo "Spark needs Java 17 or newer, and there is none on PATH or in JAVA_HOME: install a JRE (Debian: apt-get install openjdk-17-jre-headless) and run this again." >&2
exit 1
