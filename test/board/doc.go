// Package board writes device trees to disk for tests and benchmarks, from boards, which are txtar files in testdata/sysfs.
//
// A board is a txtar archive of one board or node. Its entries are
//
//	-- sys/class/fpga_region/ --                     a directory
//	-- sys/class/fpga_region/region0 -> ../../x --   a symbolic link
//	-- dev/dfl-port.0 --                             a file with its content
//
// with sys/ and dev/ as the two roots. Parent directories need no entry. The comment at the head of
// the file has the source of the board, the parts that were removed, and in a recorded board the files that are
// not text ([UnfoldRecorded]). The files are archives and
// not plain trees because module archives refuse names with a colon, and leave out links.
//
// The package owns no state. It refuses names and links that lead out of the root.
package board
