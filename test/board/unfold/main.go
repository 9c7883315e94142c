// Command unfold writes a board's tree into a directory, so that you can try out a family on it (docs/extending.md).
package main

import (
	"fmt"
	"os"

	"b-com.com/accelerator-device-plugin/test/board"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: unfold BOARD.txtar DIR")
		os.Exit(2)
	}
	err := os.MkdirAll(os.Args[2], 0o755)
	if err == nil {
		_, err = board.UnfoldRecorded(os.Args[2], os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "unfold:", err)
		os.Exit(1)
	}
}
