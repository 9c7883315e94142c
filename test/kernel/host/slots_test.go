package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A card that qemu emulates is added by its own driver, takes no request that changes its state, and is removed once.
func TestPlugEmulatedByQEMU(t *testing.T) {
	m, commands := withQEMU(t)
	for _, request := range []string{"plug p0 nvme-vfs rp2", "pull p0", "pull p0"} {
		words := strings.Fields(request)
		if _, err := m.request(words[0], words[1:]); err != nil {
			t.Fatalf("%s: %v", request, err)
		}
	}
	if _, err := m.request("kill", []string{"p0"}); err == nil || !strings.Contains(err.Error(), "found card p0, which qemu emulates") {
		t.Errorf("kill: got %v, want an error with the card", err)
	}
	want := []qmpCommand{
		{"device_add", map[string]any{
			"driver": "nvme", "id": "p0", "bus": "rp2", "serial": "rig", "subsys": "subsystem", "sriov_max_vfs": 4.,
			"sriov_vq_flexible": 8., "sriov_vi_flexible": 4., "max_ioqpairs": 12., "msix_qsize": 9.,
		}},
		{"device_del", map[string]any{"id": "p0"}},
	}
	if diff := cmp.Diff(want, commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	m.qmp.deleted <- "p0"
	if got, err := m.request("cards", nil); err != nil || got != "" {
		t.Errorf("cards: got %q, %v; want none after the guest has released the card", got, err)
	}
	if qemuModels["nvme-vfs"]["id"] != nil {
		t.Error("qemuModels: found an id, want the models unchanged")
	}
}

func TestPlugErrors(t *testing.T) {
	m, _ := withQEMU(t)
	if err := m.plug("c0", "a11", "rp0"); err == nil || !strings.Contains(err.Error(), `found "a11", want one of a10, a10-2p, a10-vf, aws-f2, d5005, e1000e, n6000`) {
		t.Errorf("model: got %v, want an error with all models", err)
	}
}

// qmpCommand is a command of QMP.
type qmpCommand struct {
	Execute   string
	Arguments map[string]any
}

// withQEMU returns a machine without a card, and a function that returns the commands which qemu has received. qemu
// answers each command without an error.
func withQEMU(t *testing.T) (*machine, func() []qmpCommand) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "qmp")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close(); os.Remove(path) })
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	qemu, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	t.Cleanup(func() { qemu.Close(); conn.Close(); tasks.Wait() })
	var mu sync.Mutex
	var received []qmpCommand
	tasks.Go(func() {
		for d := json.NewDecoder(qemu); ; {
			var c qmpCommand
			if err := d.Decode(&c); err != nil {
				return
			}
			mu.Lock()
			received = append(received, c)
			mu.Unlock()
			if _, err := qemu.Write([]byte(`{"return": {}}` + "\n")); err != nil {
				return
			}
		}
	})
	m := &machine{qmp: newQMP(conn.(*net.UnixConn)), cards: map[string]*card{}}
	tasks.Go(m.qmp.read)
	return m, func() []qmpCommand {
		mu.Lock()
		defer mu.Unlock()
		return received
	}
}
