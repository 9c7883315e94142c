// Package board makes device trees on disk for tests and benchmarks: from
// boards, which are txtar files under testdata/sysfs, and from archives of
// recorded trees.
//
// A board is one txtar archive of one board or node. Its entries are
//
//	-- sys/class/fpga_region/ --                     a directory
//	-- sys/class/fpga_region/region0 -> ../../x --   a symbolic link
//	-- dev/dfl-port.0 --                             a file with its content
//
// with sys/ and dev/ for the two roots. Directories in between need no entry.
// The comment at the head says where the board comes from and what was trimmed.
// A plain tree would not do: module archives refuse names with a colon and leave
// links out.
//
// The package owns no state. It refuses names and links that lead out of the
// directory it is given.
package board
