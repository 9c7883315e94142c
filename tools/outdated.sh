#!/bin/sh
# Lists, for each module of this tree, the modules that its go.mod requires directly and that have a newer version.
set -eu
cd "$(dirname "$0")/.."
git ls-files '*go.mod' | while read -r file; do
	dir=$(dirname "$file")
	# Only a line without `// indirect` names a direct requirement; a replaced module is one of this tree.
	modules=$(cd "$dir" && go list -m -f '{{if not (or .Main .Indirect .Replace)}}{{.Path}}{{end}}' all)
	[ -n "$modules" ] || continue
	# shellcheck disable=SC2086 # one argument each
	(cd "$dir" && go list -m -u -e -f "{{with .Update}}$dir: {{\$.Path}} {{\$.Version}}, newest {{.Version}}
{{end}}{{with .Error}}$dir: {{\$.Path}}: {{.Err}}
{{end}}" $modules | grep .) || true
done
