#!/usr/bin/env bash
# run.sh BIN [PATTERN]: builds a real registry from its module, and tests the programs accelerator-fpga and
# accelerator-fpga-registry in the directory BIN with it, on the loopback. Runs the tests that match PATTERN;
# by default all. Nothing is installed, and no process is left running. Only TestFullDisk needs root, to mount a file
# system in memory. The first build takes a minute.
set -euo pipefail
bin=$(realpath "$1")
pattern=${2:-}
cd "$(dirname "$0")"
out=${OUT:-../../bin/test-registry}
mkdir -p "$out"
out=$(realpath "$out")
CGO_ENABLED=0 nice go build -o "$out/registry" ./registry
go test -count=1 -timeout 5m -run "$pattern" . -args -bin "$bin" -registry "$out/registry"
[ "$(id -u)" -eq 0 ] || echo 'NOT RUN: TestFullDisk of test/registry: it mounts a file system, as root'
