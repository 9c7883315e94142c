package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// files contains the paths of the two settings files.
type files struct {
	t                 *testing.T
	config, overrides string
}

func newFiles(t *testing.T, config string) files {
	f := files{t, filepath.Join(t.TempDir(), "config.yaml"), filepath.Join(t.TempDir(), "overrides.yaml")}
	f.write(f.config, config)
	return f
}

// write replaces a file the way an editor does.
func (f files) write(path, content string) {
	f.t.Helper()
	must.Succeed(f.t, os.WriteFile(path+"~", []byte(content), 0o600), os.Rename(path+"~", path))
}

func (f files) load() *config.Loader {
	f.t.Helper()
	l := NewLoader()
	l.Config.File, l.Config.Overrides = f.config, f.overrides
	must.Succeed(f.t, l.Load(func(string) (string, bool) { return "", false }))
	return l
}

// The state and the log show which files are in force. The same content is applied or rejected only once, and once more
// after SIGHUP.
func TestSettingsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFiles(t, "exclude: [5e:00.0]\n")
		loader := f.load()
		first := loader.Files.Hash()
		core, logs := eventtest.Observed(t)
		began, m := time.Now(), metrics.New("test")
		l := openSettings(loader, loader.Config, zap.New(core), m)
		cfg := loader.Config
		for _, step := range []struct {
			name, write string
			hangup      bool
			taken       bool
			want        control.Settings // without Hash
			fresh       bool             // whether the hash matches the current files
			events      []string         // logged events
		}{
			{"start", "", false, false, control.Settings{Applied: began}, true, []string{"config.applied"}},
			{"the same", "", false, false, control.Settings{Applied: began}, true, nil},
			{"SIGHUP", "", true, true, control.Settings{Applied: began}, true, nil},
			{"other settings", "exclude: [3b:00.0]\nflapLimit: 1\nmode: af\n", false, true,
				control.Settings{Applied: began.Add(3 * time.Hour), Restart: []string{"flap-limit", "mode"}}, true,
				[]string{"config.notice", "config.notice", "config.applied"}},
			{"refused", "exclude: [x]\n", false, false,
				control.Settings{Applied: began.Add(3 * time.Hour), Restart: []string{"flap-limit", "mode"}, Refused: f.config + ":1: "}, false,
				[]string{"config.refused"}},
			{"the same is refused", "", false, false,
				control.Settings{Applied: began.Add(3 * time.Hour), Restart: []string{"flap-limit", "mode"}, Refused: f.config + ":1: "}, false, nil},
			{"SIGHUP has it refused again", "", true, false,
				control.Settings{Applied: began.Add(3 * time.Hour), Restart: []string{"flap-limit", "mode"}, Refused: f.config + ":1: "}, false,
				[]string{"config.refused"}},
			{"mended", "exclude: [5e:00.0]\n", false, true, control.Settings{Applied: began.Add(7 * time.Hour)}, true, []string{"config.applied"}},
		} {
			if step.write != "" {
				f.write(f.config, step.write)
			}
			before, _ := l.state.Load()
			files := loader.Read()
			taken := false
			switch {
			case step.name == "start":
			case step.hangup:
				taken = l.take(&cfg, files)
			default:
				taken = l.changed(&cfg, files)
			}
			compare.Equal(t, step.name+": taken", step.taken, taken)
			if step.want.Restart == nil {
				step.want.Restart = []string{}
			}
			if step.want.Hash = before.Hash; step.fresh {
				step.want.Hash = files.Hash()
			}
			got, _ := l.state.Load()
			if step.want.Refused != "" && strings.HasPrefix(got.Refused, step.want.Refused) {
				step.want.Refused = got.Refused
			}
			compare.Values(t, step.name+": state", step.want, got)
			compare.Equal(t, step.name+": hash", got.Hash, l.hash())
			var events []string
			for _, line := range logs.TakeAll() {
				events = append(events, line.ContextMap()["event"].(string))
			}
			compare.Values(t, step.name+": log", step.events, events)
			time.Sleep(time.Hour)
		}
		if l.hash() != first || !cfg.Exclude["5e:00.0"] {
			t.Errorf("in the end: hash %s, exclude %v; want %s and 5e:00.0", l.hash(), cfg.Exclude, first)
		}
	})
}

// Files that were read before SIGHUP made the daemon read them again aren't applied afterwards.
func TestFilesOlderThanSIGHUP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFiles(t, "exclude: [5e:00.0]\n")
		loader := f.load()
		cfg := loader.Config
		l := openSettings(loader, cfg, zap.NewNop(), metrics.New("test"))
		time.Sleep(time.Second)
		f.write(f.config, "exclude: []\n")
		older := loader.Read()
		time.Sleep(time.Second)
		f.write(f.config, "exclude: [3b:00.0]\n")
		if !l.take(&cfg, loader.Read()) || l.changed(&cfg, older) || !cfg.Exclude["3b:00.0"] {
			t.Errorf("exclude %v, want 3b:00.0", cfg.Exclude)
		}
	})
}

// Without --node-name, entries for nodes have no effect, which is logged. The other settings apply.
func TestOverridesOfNodesWithoutName(t *testing.T) {
	f := newFiles(t, "")
	f.write(f.overrides, "exclude: [3b:00.0]\nnodes: {n1: {exclude: [5e:00.0]}}\n")
	core, logs := eventtest.Observed(t)
	loader := f.load()
	openSettings(loader, loader.Config, zap.New(core), metrics.New("test"))
	for _, line := range logs.All() {
		if fields := line.ContextMap(); fields["event"] == "config.notice" && fields["flag"] == "node-name" {
			return
		}
	}
	t.Errorf("log without a notice of node-name: %v", logs.All())
}

// If a ConfigMap with overrides uses a different key, that is logged once, whether it happens at startup or later.
func TestOverridesUnderAnotherKey(t *testing.T) {
	f := newFiles(t, "")
	dir := filepath.Dir(f.overrides)
	core, logs := eventtest.Observed(t)
	loader := f.load()
	cfg := loader.Config
	l := openSettings(loader, cfg, zap.New(core), metrics.New("test"))
	f.write(filepath.Join(dir, "notes.yml"), "") // a directory on the node can contain other files
	read := func(want string) {
		t.Helper()
		l.changed(&cfg, loader.Read())
		var got []string
		for _, line := range logs.TakeAll() {
			if fields := line.ContextMap(); fields["event"] == "config.notice" {
				got = append(got, fmt.Sprint(fields["flag"], ": ", fields["reason"]))
			}
		}
		compare.Equal(t, "notices", want, strings.Join(got, "; "))
	}
	read("")
	must.Succeed(t, os.Symlink("..v1", filepath.Join(dir, "..data")))
	read("overrides: found notes.yml, want " + filepath.Base(f.overrides))
	read("")
	f.write(f.overrides, "exclude: [3b:00.0]\n")
	read("")
}

// Settings in a ConfigMap are reread when Kubernetes replaces the ..data link.
func TestFollowsConfigMap(t *testing.T) {
	f := files{t: t, config: filepath.Join(t.TempDir(), "config.yaml")}
	dir := filepath.Dir(f.config)
	publish := func(version, content string) { // the way AtomicWriter in k8s.io/kubernetes/pkg/volume/util does it
		must.Succeed(t, os.Mkdir(filepath.Join(dir, "..v"+version), 0o700))
		f.write(filepath.Join(dir, "..v"+version, "config.yaml"), content)
		must.Succeed(t, os.Symlink("..v"+version, dir+"/..tmp"), os.Rename(dir+"/..tmp", dir+"/..data"))
	}
	publish("1", "exclude: [5e:00.0]\n")
	must.Succeed(t, os.Symlink("..data/config.yaml", f.config))
	loader := f.load()
	l := openSettings(loader, loader.Config, zap.NewNop(), metrics.New("test"))
	ctx, cancel := context.WithCancel(t.Context())
	read, ended := make(chan config.Files), make(chan error)
	go func() { ended <- l.follow(ctx, read) }()
	if files := <-read; !files.Equal(loader.Files) {
		t.Errorf("at first, found %v, want %v", files, loader.Files)
	}
	publish("2", "exclude: []\n")
	if files := <-read; files.Equal(loader.Files) {
		t.Error("then, found the same files, want others")
	}
	cancel()
	must.Succeed(t, <-ended)
}
