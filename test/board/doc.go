// Package board writes device trees to disk for tests and benchmarks. The trees are stored as boards, the txtar files
// in testdata/sysfs.
//
// A board is a txtar archive of a single board or node. Its entries are
//
//	-- sys/class/fpga_region/ --                     a directory
//	-- sys/class/fpga_region/region0 -> ../../x --   a symbolic link
//	-- dev/dfl-port.0 --                             a file with its content
//
// with sys/ and dev/ as the two roots. Parent directories don't need an entry. The header of the file describes the
// board's source and what was removed. In a recorded board it also lists the files that aren't text (see
// [UnfoldRecorded]). Boards are archives rather than plain trees because Go module archives reject names with a colon
// and leave out links.
//
// The package owns no state. It rejects names and links that point outside the root.
package board
