#!/usr/bin/env bash
# run.sh VERSION [PATTERN]: starts a Kubernetes cluster on this machine, installs the charts of
# this tree with the images of VERSION, all from dist, and runs the stories whose names match
# PATTERN, a regular expression; by default all. If KEEP is set, the cluster then stays until
# Ctrl-C. If SOAK is set to a duration, the script runs random operations for this time instead of
# the stories. The operations depend on the seed SEED, or are taken from the history REPLAY. The logs
# are in OUT (bin/test-e2e). The script needs root, and a machine without a kubelet; see docs/testing.md.
#
# cluster.sh and certmanager.sh build the binaries once for each set of versions, and keep them.
set -euo pipefail
version=$1
pattern=${2:-}
replay=${REPLAY:+$(realpath "$REPLAY")}
cd "$(dirname "$0")"
out=${OUT:-../../bin/test-e2e}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/accelerator-device-plugin
step() { printf '== %s (%ss)\n' "$*" "$SECONDS"; }

if [ "$(id -u)" -ne 0 ]; then
	echo "e2e cannot run: found another user, want root, for containers, devices and mounts"
	exit 1
fi
mkdir -p "$out"
out=$(realpath "$out")

step "driver"
go build -o "$out/driver" .
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$out/workload" ./workload
"$out/driver" -check
CGO_ENABLED=0 go build -C ../../kubectl -trimpath -ldflags '-s -w' -o "$out/kubectl-accelerator" ./cmd/kubectl-accelerator
CGO_ENABLED=0 go build -C ../registry -o "$out/registry" ./registry
PATH=$out:$PATH # where kubectl finds its plugin

step "cluster"
bin=$(./cluster.sh "$cache")
echo "  $bin"
certmanager=$(./certmanager.sh "$cache" "$bin/helm")
echo "  $certmanager"

releases=
if [ -f "../../dist/release/accelerator-device-plugin_${version}_image.tar" ]; then
	step "earlier releases"
	releases=$(./releases.sh "$cache")
	echo "  $releases"
fi

status=0
"$out/driver" -bin "$bin" -cert-manager "$certmanager" -workload "$out/workload" -dist ../../dist -version "$version" \
	-tree ../.. -out "$out" -only "$pattern" -releases "$releases" ${KEEP:+-keep} ${SOAK:+-soak "$SOAK"} ${SEED:+-seed "$SEED"} \
	${REPLAY:+-replay "$replay"} || status=$?
step "done, status $status; logs in $(realpath --relative-to=../.. "$out")"
exit "$status"
