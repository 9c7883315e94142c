package podcgroup_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/kubelet/podcgroup"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestAlive(t *testing.T) {
	const a, b, c = "0a1b-2c", "3d4e-5f", "config-hash-of-a-static-pod"
	events := func(populated string) string { return "populated " + populated + "\nfrozen 0\n" }
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"version 2, cgroupfs", map[string]string{
			"cgroup.controllers":                             "cpu pids",
			"kubepods/pod" + a + "/cgroup.events":            events("1"),
			"kubepods/burstable/pod" + b + "/cgroup.events":  events("0"),
			"kubepods/besteffort/pod" + c + "/cgroup.events": events("1"),
		}, []string{a, c}},
		{"version 2, systemd", map[string]string{
			"cgroup.controllers": "cpu pids",
			"kubepods.slice/kubepods-pod0a1b_2c.slice/cgroup.events":                                    events("0"),
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3d4e_5f.slice/cgroup.events": events("1"),
		}, []string{b}},
		{"version 2, kind", map[string]string{
			"cgroup.controllers": "cpu pids",
			"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod0a1b_2c.slice/cgroup.events": events("1"),
		}, []string{a}},
		{"version 1", map[string]string{
			"pids/kubepods/pod" + a + "/pids.current":            "0\n",
			"pids/kubepods/besteffort/pod" + b + "/pids.current": "3\n",
			"memory/kubepods/pod" + c + "/pids.current":          "3\n",
		}, []string{b}},
		{"another pod whose UID ends alike", map[string]string{
			"cgroup.controllers": "cpu pids", "kubepods/pod9" + a + "/cgroup.events": events("1"),
		}, nil},
		{"a container's own cgroup", map[string]string{"cgroup.controllers": "cpu pids", "cgroup.events": events("1")}, nil},
		{"another user's directory of that name", map[string]string{
			"cgroup.controllers": "cpu pids", "user.slice/kubepods/pod" + a + "/cgroup.events": events("1"),
		}, nil},
		{"hybrid", map[string]string{
			"unified/cgroup.controllers": "cpu", "unified/kubepods/pod" + a + "/cgroup.events": events("0"), "pids/kubepods/pod" + a + "/pids.current": "1\n",
		}, []string{a}},
		{"nothing", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range tt.files {
				path = filepath.Join(root, path)
				must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
			}
			compare.Values(t, "alive", tt.want, slices.Sorted(maps.Keys(podcgroup.Alive(root, []string{a, b, c}))))
		})
	}
	compare.Equal(t, "without a directory", 0, len(podcgroup.Alive(filepath.Join(t.TempDir(), "none"), []string{a})))
}
