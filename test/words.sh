#!/usr/bin/env bash
# Prints indicators of plain words (CONTRIBUTING.md). It warns, and fails nothing.
#
#     test/words.sh                 # the whole repository
#     test/words.sh -l server docs  # some folders; with -l also each line that counts
set -euo pipefail
cd "$(dirname "$0")/.."

list=0
if [ "${1:-}" = -l ]; then
	list=1
	shift
fi

# Comment lines of Go: lines that begin with //, without directives and generated files.
git ls-files -- "$@" | awk '/\.go$/ && !/zz_generated/' | xargs -r awk -v list=$list '
	function count(name, line, regex, n) {
		n = gsub(regex, "&", line)
		if (n && list) printf "%s:%d: %s: %s\n", FILENAME, FNR, name, $0
		sum[name] += n
	}
	function show(name, aim, per) {
		per = lines ? 1000 * sum[name] / lines : 0
		printf "%-44s %6.1f per 1000 comment lines, aim %d%s\n", name, per, aim, (per > aim ? "  (above)" : "")
	}
	FNR == 1 { before = 0 }
	!/^[ \t]*\/\// || /^[ \t]*\/\/go:/ { before = 0; next }
	{
		lines++
		text = " " tolower($0) " "
		gsub(/[^a-z]/, "  ", text)
		count("what", text, " what ")
		count("nobody, somebody", text, " (nobody|somebody) ")
		if (!before) count("doc comments that begin with says or tells", text, "^ +([a-z]+ +)?[a-z]+ +(says|tells) ")
		before = 1
	}
	END {
		show("what", 20)
		show("nobody, somebody", 3)
		show("doc comments that begin with says or tells", 4)
	}'

# Lines of documents, without tables and code.
git ls-files -- "$@" | awk '/\.md$/' | xargs -r awk -v list=$list '
	FNR == 1 { code = 0 }
	/^ *```/ { code = !code; next }
	code || /^ *\|/ || /^    / || length($0) <= 120 { next }
	{ sum++; if (list) printf "%s:%d: %d characters\n", FILENAME, FNR, length($0) }
	END { printf "%-44s %6d, aim 20%s\n", "lines of documents over 120 characters", sum, (sum > 20 ? "  (above)" : "") }'
