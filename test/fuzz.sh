#!/usr/bin/env bash
# fuzz.sh TIME: runs every fuzz target of the module in the current directory for TIME.
set -euo pipefail

time=${1:-10s}
go list ./... | while read -r package; do
	{ go test -list '^Fuzz' "$package" | grep '^Fuzz' || true; } | while read -r target; do
		echo "== $package $target ($time)"
		# Without a limit, inputs whose coverage differs between runs would be minimized for a minute.
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x "$package"
	done
done
