#!/usr/bin/env bash
# run.sh DAEMON: builds a real OpenTelemetry Collector from its modules, ships a log with the example in
# deploy/logging, and reads the shipped log with DAEMON's command logs. Neither root nor a cluster is
# needed. The first build takes two minutes.
set -euo pipefail
daemon=$(realpath "$1")
cd "$(dirname "$0")"
out=${OUT:-../../bin/test-logging}
mkdir -p "$out"
out=$(realpath "$out")
nice go build -o "$out/collector" ./collector
exec go test -count=1 -timeout 5m . -args -collector "$out/collector" -daemon "$daemon"
