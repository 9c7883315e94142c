#!/usr/bin/env bash
# fixtures.sh DAEMON [PATTERN]: runs the stories in recordings/ on the rig, which make the recordings for
# unit tests. Copies the boards to testdata/sysfs, and the uevents to watcher/testdata/uevents. Prints
# which files are new or changed; see git diff. Fails, as run.sh does, if the rig cannot run. Copies
# nothing unless all recordings have succeeded. PATTERN and KERNEL are the same as for run.sh.
set -euo pipefail
daemon=$(realpath "$1")
pattern=${2:-}
cd "$(dirname "$0")"
out=../../bin/fixtures
OUT=$out STORIES_DIR=recordings ./run.sh "$daemon" "$pattern"

# take KIND DIRECTORY EXTENSION
take() {
	local made file
	[ -d "$out/guest/$1" ] || return 0
	mkdir -p "$2"
	for made in "$out/guest/$1"/*"$3"; do
		file=$2/$(basename "$made")
		if [ ! -e "$file" ]; then
			echo "  new      ${file#../../}"
		elif ! cmp -s "$made" "$file"; then
			echo "  changed  ${file#../../}"
		fi
		cp "$made" "$file"
	done
	# Files of the same kernel without a recording.
	[ -n "$pattern" ] || for file in "$2/$(basename "$made" | cut -d- -f1,2)"-*"$3"; do
		[ -e "$out/guest/$1/$(basename "$file")" ] || echo "  not recorded any more: ${file#../../}"
	done
	echo "  $(ls "$out/guest/$1" | wc -l) files in ${2#../../}"
}
take sysfs ../../testdata/sysfs .txtar
take uevents ../../watcher/testdata/uevents .txt
