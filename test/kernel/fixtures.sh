#!/usr/bin/env bash
# fixtures.sh DAEMON: records on the rig what unit tests stand on (recordings/*.txt),
# and moves it to where they look: boards to testdata/sysfs, uevents to
# watcher/testdata/uevents. Says which files are new or changed; git shows how.
# Refuses, as run.sh does, where the rig cannot run. Nothing is moved unless every
# recording was made.
set -euo pipefail
daemon=$(realpath "$1")
cd "$(dirname "$0")"
out=../../bin/fixtures
OUT=$out STORIES_DIR=recordings ./run.sh "$daemon"

# take KIND DIRECTORY EXTENSION
take() {
	local made file
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
	# Those of the same kernel that no recording makes any more.
	for file in "$2/$(basename "$made" | cut -d- -f1,2)"-*"$3"; do
		[ -e "$out/guest/$1/$(basename "$file")" ] || echo "  not recorded any more: ${file#../../}"
	done
	echo "  $(ls "$out/guest/$1" | wc -l) files in ${2#../../}"
}
take sysfs ../../testdata/sysfs .txtar
take uevents ../../watcher/testdata/uevents .txt
