package main

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// Opens of device nodes are blamed on the daemon, and so are opens of a PCI function's attributes that must not be
// read.
func TestOpensOfOthers(t *testing.T) {
	dev, function, sensors, render := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	o, err := watchOpens(dev)
	if err != nil {
		t.Fatal(err)
	}
	for dir, prefix := range map[string]string{function: "0000:01:00.0/", sensors: "0000:01:00.0/xmc.u.7/", render: "dri/"} {
		if err := o.watch(dir, prefix); err != nil {
			t.Fatal(err)
		}
	}
	touch := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	touch(dev+"/dfl-port.0", dev+"/null", dev+"/iommu", function+"/vendor", function+"/uevent", function+"/sriov_numvfs",
		sensors+"/serial_num", render+"/renderD128")
	failed := errors.New("failed")
	if err := o.unrecorded(func() error { touch(dev+"/dfl-port.1", function+"/driver_override"); return failed }); !errors.Is(err, failed) {
		t.Errorf("unrecorded: got %v, want the error of the function", err)
	}
	err = o.check()
	const want = "found dfl-port.0, iommu, 0000:01:00.0/uevent, 0000:01:00.0/sriov_numvfs, 0000:01:00.0/xmc.u.7/serial_num, dri/renderD128, want none"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
	if err := o.check(); err != nil {
		t.Errorf("again: got %v, want no error", err)
	}
}
