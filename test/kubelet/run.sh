#!/usr/bin/env bash
# run.sh DAEMON [PATTERN]: tests DAEMON against the real device managers of two versions of
# Kubernetes, both at the same time, since the tests mostly wait. Runs the tests that match
# PATTERN; by default all. The output is in the directory OUT, by default bin/test-kubelet: for
# each version, the output of its tests and a directory of logs. Neither root nor a cluster is
# needed. Nothing is installed.
#
# The first run compiles the packages of Kubernetes, which takes twelve minutes of processor
# time. The script prints every fiftieth package.
set -euo pipefail
daemon=$(realpath "$1")
pattern=${2:-}
cd "$(dirname "$0")"
out=${OUT:-../../bin/test-kubelet}
mkdir -p "$out"
out=$(realpath "$out")
step() { printf '== %s (%ss)\n' "$*" "$SECONDS"; }
if ! command -v go >/dev/null; then
	echo "test-kubelet cannot run: programs are missing: go (golang.org)"
	exit 1
fi

# build VERSION FLAG…: compiles the tests, and prints the progress.
build() {
	local version=$1 log="$out/$1-build.log"
	shift
	step "Kubernetes $(go list "$@" -m -f '{{.Version}}' k8s.io/kubernetes): build"
	if ! nice go build -v "$@" . 2>&1 | tee "$log" | awk 'NR % 50 == 0 { print "  " NR " packages, now " $1; fflush() }'; then
		tail -n 20 "$log"
		exit 1
	fi
	nice go test -c "$@" -o "$out/$version.test" .
}

build 1.37
build 1.36 -modfile=kubernetes-1.36.mod -tags=kubernetes136

step "run both"
declare -A running
for version in 1.37 1.36; do
	rm -rf "${out:?}/$version"
	"$out/$version.test" -daemon "$daemon" -out "$out/$version" -test.run "$pattern" -test.parallel 4 -test.timeout 10m >"$out/$version.txt" 2>&1 &
	running[$version]=$!
done
status=0
for version in 1.37 1.36; do
	wait "${running[$version]}" || status=1
	step "Kubernetes $version has ended"
	cat "$out/$version.txt"
done
step "done, status $status; logs in $(realpath --relative-to=../.. "$out")"
exit "$status"
