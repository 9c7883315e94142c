// Package board writes device trees to disk for tests and benchmarks. The trees are stored as boards: the txtar files
// in testdata/sysfs.
//
// A board is a txtar archive of a card or node. Its entries are
//
//	-- sys/class/fpga_region/ --                     a directory
//	-- sys/class/fpga_region/region0 -> ../../x --   a symbolic link
//	-- dev/dfl-port.0 --                             a file with its content
//
// where sys/ and dev/ are the two roots. Parent directories don't need an entry. The file's header says where the board
// comes from and what was removed. In a recorded board, it also lists the files that aren't text (see
// [UnfoldRecorded]). Boards are archives rather than plain trees because Go module archives reject names that contain a
// colon, and leave out links.
//
// The package doesn't have any state. It rejects names and links that point outside of the root.
package board
