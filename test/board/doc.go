// Package board writes device trees to disk for tests and benchmarks. The trees come from boards, which are the txtar
// files in testdata/sysfs.
//
// A board is a txtar archive of one board or node. Its entries are
//
//	-- sys/class/fpga_region/ --                     a directory
//	-- sys/class/fpga_region/region0 -> ../../x --   a symbolic link
//	-- dev/dfl-port.0 --                             a file with its content
//
// with sys/ and dev/ as the two roots. Parent directories need no entry. The comment at the head of the file names the
// source of the board, and what was removed. In a recorded board it also lists the files that are not text
// ([UnfoldRecorded]). Boards are archives rather than plain trees because module archives refuse names with a colon and
// leave out links.
//
// The package owns no state. It rejects names and links that point outside the root.
package board
