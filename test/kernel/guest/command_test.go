package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSays(t *testing.T) {
	r := &rig{output: "port  afu\ndfl-port.0\tdead\n"}
	if err := r.says("afu dfl-port.0 dead"); err != nil {
		t.Error(err)
	}
	if err := r.says("dfl-port.1"); err == nil {
		t.Error("text that is not in the output: got no error, want one")
	}
}

// An open of a node while commands run is attributed to the commands.
func TestOpens(t *testing.T) {
	dir := t.TempDir()
	node := filepath.Join(dir, "dfl-port.0")
	open := func() {
		if _, err := os.ReadFile(node); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(node, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := watchOpens(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.attribute(true); err != nil {
		t.Fatal(err)
	}
	open()
	if err := o.attribute(false); err != nil {
		t.Fatal(err)
	}
	if err := o.check(); err != nil {
		t.Errorf("opened by a command: got %v, want no error", err)
	}
	open()
	if names, err := o.byCommands(); err != nil || len(names) > 0 {
		t.Errorf("opened after the commands had ended: got %v, %v; want none", names, err)
	}
	if err := o.check(); err == nil || err.Error() != "nodes opened by other processes: found dfl-port.0, want none" {
		t.Errorf("opened by another process: got %v, want an error", err)
	}
	if err := o.attribute(true); err != nil {
		t.Fatal(err)
	}
	open()
	if names, err := o.byCommands(); err != nil || !cmp.Equal(names, []string{"dfl-port.0"}) {
		t.Errorf("opened by commands: got %v, %v; want dfl-port.0", names, err)
	}
}
