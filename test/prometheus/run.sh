#!/usr/bin/env bash
# run.sh DAEMON [PATTERN]: runs a real Prometheus against DAEMON on a simulated node, and checks
# alert rules and dashboard. Runs the tests that match PATTERN; by default all. The logs of all
# processes are in the directory OUT, by default bin/test-prometheus. Neither root nor a cluster
# is needed. Nothing is installed, and no process is left running.
#
# prometheus and promtool are taken from PATH, or from the directory PROMETHEUS.
set -euo pipefail
daemon=$(realpath "$1")
pattern=${2:-}
cd "$(dirname "$0")"
out=${OUT:-../../bin/test-prometheus}
mkdir -p "$out"
out=$(realpath "$out")
[ -z "${PROMETHEUS:-}" ] || PATH=$(realpath "$PROMETHEUS"):$PATH
step() { printf '== %s (%ss)\n' "$*" "$SECONDS"; }
missing=
command -v go >/dev/null || missing+=" go (golang.org)"
for program in prometheus promtool; do
	command -v "$program" >/dev/null || missing+=" $program (Debian package prometheus)"
done
if [ -n "$missing" ]; then
	echo "test-prometheus cannot run: programs are missing:$missing; PROMETHEUS=DIRECTORY sets their directory"
	exit 1
fi

step "$(prometheus --version 2>&1 | head -n 1)"
nice go test -c -o "$out/prometheus.test" .
step "run"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
TMPDIR=$work "$out/prometheus.test" -daemon "$daemon" -out "$out" -test.v -test.run "$pattern" -test.timeout 2m 2>&1 |
	tee "$out/prometheus.txt" | grep --line-buffered -v '^=== ' || status=$?
step "done, status $status: $(grep -c '^--- PASS' "$out/prometheus.txt" || true) passed," \
	"$(grep -c '^--- FAIL' "$out/prometheus.txt" || true) failed; logs in $(realpath --relative-to=../.. "$out")"
exit "$status"
