package simnode_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// Device nodes have the numbers in the attribute dev.
func TestMknod(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes devices")
	}
	n := newNode(t)
	n.Mknod = true
	must.Succeed(t, n.Plug(card))
	want := map[string]string{"dfl-fme.0": "121:0\n", "dfl-port.0": "120:0\n"}
	got, inDev := map[string]string{}, map[string]string{}
	for name := range want {
		var stat syscall.Stat_t
		must.Succeed(t, syscall.Stat(filepath.Join(n.Dev, name), &stat))
		compare.Equal(t, name+": type", syscall.S_IFCHR, stat.Mode&syscall.S_IFMT)
		got[name] = fmt.Sprintf("%d:%d\n", stat.Rdev>>8, stat.Rdev&0xff)
	}
	for name, dir := range map[string]string{"dfl-fme.0": n.FMEDir(address), "dfl-port.0": n.PortDir(address, 0)} {
		text := must.Value(os.ReadFile(filepath.Join(dir, "dev")))(t)
		inDev[name] = string(text)
	}
	compare.Values(t, "nodes", want, got)
	compare.Values(t, "dev", want, inDev)
	must.Succeed(t, n.Unplug(address))
	if left, err := os.ReadDir(n.Dev); err != nil || len(left) > 0 {
		t.Errorf("device nodes after unplug: %v, error %v, want none", left, err)
	}
}
