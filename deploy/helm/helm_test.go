package helm_test

import (
	"bytes"
	"io/fs"
	"os"
	"testing"

	"b-com.com/accelerator-device-plugin/deploy/helm"
	"b-com.com/accelerator-device-plugin/test/must"
)

// All files of the chart are embedded. .helmignore only lists files of editors and of git, and no
// chart is packaged from the embedded files.
func TestDevicePlugin(t *testing.T) {
	const chart = "accelerator-device-plugin"
	err := fs.WalkDir(os.DirFS("."), chart, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		want, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		got, err := helm.DevicePlugin.ReadFile(name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: error %v, %d bytes, want %d", name, err, len(got), len(want))
		}
		return nil
	})
	must.Succeed(t, err)
	for _, name := range []string{"Chart.yaml", "values.yaml", "values.schema.json", "templates/_helpers.tpl", "templates/daemonset.yaml"} {
		must.Value(fs.Stat(helm.DevicePlugin, chart+"/"+name))(t)
	}
}
