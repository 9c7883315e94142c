package privatedir_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

func TestCheckLocal(t *testing.T) {
	dir, err := privatedir.OpenDir(ownDir(t), false)
	check(t, err)
	defer dir.Close()
	check(t, privatedir.CheckLocal(dir))
	dir.Close()
	if privatedir.CheckLocal(dir) == nil {
		t.Error("closed directory: found no error")
	}
	for number, name := range map[int64]string{
		0x6969: "nfs", 0xFE534D42: "smb3", int64(int32(-0x00ACB2BE)): "cifs", // negative where the field has 32 bits
		0x20030528: "orangefs", 0x786F4256: "vboxsf", 0xBACBACBC: "vmhgfs",
		0xEF53: "", 0x58465342: "", 0x01021994: "", 0x9123683E: "", 0x794C7630: "", // ext4, xfs, tmpfs, btrfs, overlayfs
	} {
		want := ""
		if name != "" {
			want = "/s: found the network file system " + name + ", want a local file system of this node, such as ext4, xfs or tmpfs"
		}
		got := ""
		if err := privatedir.CheckType("/s", number); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%#x: error %q, want %q", number, got, want)
		}
	}
}
