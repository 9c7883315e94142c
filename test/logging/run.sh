#!/usr/bin/env bash
# run.sh DAEMON: has a real OpenTelemetry Collector, built from its modules, ship a log by the example in deploy/logging,
# and DAEMON's command logs read what was shipped. Neither root nor a cluster is needed. The first build takes minutes.
set -euo pipefail
daemon=$(realpath "$1")
cd "$(dirname "$0")"
out=${OUT:-../../bin/test-logging}
mkdir -p "$out"
out=$(realpath "$out")
nice go build -o "$out/collector" ./collector
exec go test -count=1 -timeout 5m . -args -collector "$out/collector" -daemon "$daemon"
