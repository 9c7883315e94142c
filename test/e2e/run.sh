#!/usr/bin/env bash
# run.sh VERSION [PATTERN]: brings up a whole Kubernetes on this machine, installs the
# chart of this tree with the image of VERSION, both from dist, and tells the stories
# whose names match PATTERN, a regular expression, by default all. With KEEP set, the
# cluster then stays up until Ctrl-C. What it leaves is in OUT (bin/test-e2e): logs.
# Root is needed, and a machine without kubelet; see docs/testing.md.
#
# The binaries of the cluster are built once for each version and kept; cluster.sh.
set -euo pipefail
version=$1
pattern=${2:-}
cd "$(dirname "$0")"
out=${OUT:-../../bin/test-e2e}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/accelerator-device-plugin
step() { printf '== %s (%ss)\n' "$*" "$SECONDS"; }

if [ "$(id -u)" -ne 0 ]; then
	echo "e2e cannot run: want root, for containers, devices and mounts"
	exit 1
fi
mkdir -p "$out"
out=$(realpath "$out")

step "driver"
go build -o "$out/driver" .
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$out/workload" ./workload
"$out/driver" -check

step "cluster"
bin=$(./cluster.sh "$cache")
echo "  $bin"

status=0
"$out/driver" -bin "$bin" -workload "$out/workload" -dist ../../dist -version "$version" -tree ../.. \
	-out "$out" -only "$pattern" ${KEEP:+-keep} || status=$?
step "done, status $status; logs in $(realpath --relative-to=../.. "$out")"
exit "$status"
