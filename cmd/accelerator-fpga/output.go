package main

import (
	"fmt"
	"io"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/programming"
)

// row is a bitstream in JSON.
type row struct {
	Format      string  `json:"format,omitempty"`
	InterfaceID string  `json:"interfaceId,omitempty"`
	AFUID       string  `json:"afuId,omitempty"`
	Size        int64   `json:"size,omitempty"`
	Hash        string  `json:"hash,omitempty"`      // for an AOCX
	Board       *string `json:"board,omitempty"`     // for an AOCX
	Path        string  `json:"path,omitempty"`      // in the store
	Installed   *bool   `json:"installed,omitempty"` // from install
	Error       string  `json:"error,omitempty"`     // why a file in the store is rejected
}

func rowOf(b *programming.Bitstream) row {
	r := row{Format: b.Format, InterfaceID: b.InterfaceID, AFUID: b.AFUID, Size: b.Size, Hash: b.Hash}
	if b.Format == programming.AOCX {
		r.Board = &b.Board
	}
	return r
}

func rowsOf(entries []programming.Entry) []row {
	rows := make([]row, 0, len(entries))
	for _, e := range entries {
		var r row
		if e.Err != nil {
			r.Error = e.Err.Error()
		} else {
			r = rowOf(e.Bitstream)
		}
		r.Path = e.Path
		rows = append(rows, r)
	}
	return rows
}

func printInfo(w io.Writer, b *programming.Bitstream) error {
	t := terminal.NewTable(w)
	t.Line("File", b.Path)
	t.Line("Format", b.Format)
	t.Line("Interface", b.InterfaceID)
	t.Line("AFU", b.AFUID)
	if b.Format == programming.AOCX {
		t.Line("Hash", b.Hash)
		t.Line("Board", b.Board)
	}
	t.Line("Size", fmt.Sprintf("%d (%s)", b.Size, size(b.Size)))
	return t.Flush()
}

func printInstalled(w io.Writer, b *programming.Bitstream, path string, asJSON, installed bool) error {
	if asJSON {
		r := rowOf(b)
		r.Path, r.Installed = path, &installed
		return terminal.WriteJSON(w, r)
	}
	text := "installed"
	if !installed {
		text = "dry run, nothing changed: would install"
	}
	_, err := fmt.Fprintf(w, "%s %s\n", text, terminal.Escape(path))
	return err
}

func printList(w io.Writer, store string, entries []programming.Entry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintf(w, "no bitstreams in %s\n", terminal.Escape(store))
		return err
	}
	t := terminal.NewTable(w)
	t.Line("INTERFACE", "AFU OR HASH", "FORMAT", "SIZE", "BOARD")
	for _, e := range entries {
		if b := e.Bitstream; e.Err == nil {
			t.Line(b.InterfaceID, b.ID(), b.Format, size(b.Size), b.Board)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Err != nil {
			if _, err := fmt.Fprintf(w, "refused: %s\n", terminal.Escape(e.Err.Error())); err != nil {
				return err
			}
		}
	}
	return nil
}

func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
