package deviceplugin_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
)

// files are the two files of settings.
type files struct {
	t                 *testing.T
	config, overrides string
}

func newFiles(t *testing.T, config string) files {
	f := files{t, filepath.Join(t.TempDir(), "config.yaml"), filepath.Join(t.TempDir(), "overrides.yaml")}
	f.write(f.config, config)
	return f
}

// write replaces a file as an editor does.
func (f files) write(path, content string) {
	f.t.Helper()
	if err := errors.Join(os.WriteFile(path+"~", []byte(content), 0o600), os.Rename(path+"~", path)); err != nil {
		f.t.Fatal(err)
	}
}

func (f files) load() *config.Loader {
	f.t.Helper()
	l := daemon.NewLoader()
	l.Config.File, l.Config.Overrides = f.config, f.overrides
	if err := l.Load(func(string) (string, bool) { return "", false }); err != nil {
		f.t.Fatal(err)
	}
	return l
}

// Changed files are applied without SIGHUP: the overrides of this node exclude a card, and their removal ends
// that. Files that are refused change nothing.
func TestFilesAreFollowed(t *testing.T) {
	t.Parallel()
	f := newFiles(t, "nodeName: n1\nexclude: [5e:00.0]\n")
	loader := f.load()
	d := prepareDaemon(t, func(c *config.Config) { c.Exclude = loader.Config.Exclude })
	d.loader = loader
	d.run()
	d.do(d.node.Plug(cardA))
	d.do(d.node.Plug(cardB))
	both := health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": false}
	d.await("as configured", both)
	d.awaitLine("config.applied", loader.Files.Hash(), "5e:00.0")

	f.write(f.overrides, "nodes: {n1: {exclude: [3b:00.0-p1]}, n2: {exclude: [3b:00.0-p0]}}\n")
	one := health{"3b:00.0": true, "3b:00.0-p1": false, "5e:00.0": false}
	d.await("overrides come", one)
	d.awaitLine("config.applied", loader.Read().Hash(), "3b:00.0-p1")

	f.write(f.overrides, "nodes: {n1: {exclude: [3b:00.0-p9]}}\n")
	d.awaitLine("config.refused", f.overrides+":1: nodes.n1.exclude: found", "3b:00.0-p9")
	d.await("overrides are refused", one)

	d.do(os.Remove(f.overrides))
	d.await("overrides are removed", both)
	f.write(f.config, "nodeName: n1\n")
	d.await("the configuration changes", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
}
