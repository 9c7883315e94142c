#!/usr/bin/env bash
# Runs every fuzz target of the module for a while: fuzz.sh TIME
set -euo pipefail

time=${1:-10s}
go list ./... | while read -r package; do
	{ go test -list '^Fuzz' "$package" | grep '^Fuzz' || true; } | while read -r target; do
		echo "== $package $target ($time)"
		# Inputs whose coverage differs from run to run would be minimized for a minute.
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x "$package"
	done
done
