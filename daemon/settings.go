package daemon

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/internal/dirwatch"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/notify"
)

// liveSettings applies changed YAML files while the daemon is running. It belongs to Serve's goroutine. Any goroutine
// may load state.
type liveSettings struct {
	loader  *config.Loader
	read    config.Files // the last files that were read, valid or not
	state   *latest.Value[control.Settings]
	log     *zap.Logger
	metrics *metrics.Metrics
}

// openSettings returns live settings that start with what the loader has loaded. If loader is nil, there are no files.
func openSettings(loader *config.Loader, cfg config.Config, log *zap.Logger, m *metrics.Metrics) *liveSettings {
	if loader == nil {
		loader = &config.Loader{Config: cfg}
	}
	l := &liveSettings{loader: loader, read: loader.Files, state: latest.New(control.Settings{}), log: log, metrics: m}
	l.applied(cfg, nil)
	return l
}

// follow reads the files and sends them on the channel whenever they may have changed, until ctx is done.
func (l *liveSettings) follow(ctx context.Context, to chan<- config.Files) error {
	paths := slices.DeleteFunc([]string{l.loader.Config.File, l.loader.Config.Overrides}, func(p string) bool { return p == "" })
	var dirs []string
	for _, path := range paths {
		dirs = append(dirs, filepath.Dir(path))
	}
	dirwatch.Run(ctx, dirwatch.Config{
		Dirs: dirs,
		Concerns: func(e notify.Event) bool { // in a ConfigMap's directory, Kubernetes replaces the ..data link
			return slices.Contains(paths, e.Name) || strings.HasPrefix(filepath.Base(e.Name), "..")
		},
		Settle: 250 * time.Millisecond, Interval: time.Minute, Blind: 10 * time.Second, Log: l.log,
	}, func() {
		select {
		case to <- l.loader.Read():
		case <-ctx.Done():
		}
	})
	return nil
}

// changed calls take if the files differ from those that were read before, and reports whether take changed cfg. It
// ignores outdated files, which it can get if SIGHUP has made the daemon read newer files in the meantime.
func (l *liveSettings) changed(cfg *config.Config, files config.Files) bool {
	return !files.Before(l.read) && !files.Equal(l.read) && l.take(cfg, files)
}

// take copies the settings that don't need a restart from the files to cfg, and returns true. If the files aren't
// valid, it logs the error, leaves cfg unchanged and returns false.
func (l *liveSettings) take(cfg *config.Config, files config.Files) bool {
	differ := !files.Equal(l.read)
	l.read = files
	next, restart, err := l.loader.Reload(files)
	l.metrics.ConfigReload(err == nil)
	if err != nil {
		l.log.Error("settings refused, previous settings kept", logevent.ConfigRefused, logevent.Err(err))
		l.state.Update(func(s control.Settings) control.Settings {
			s.Refused = err.Error()
			return s
		})
		return false
	}
	for _, flag := range restart {
		l.log.Warn("changed setting needs a restart", logevent.ConfigNotice, logevent.Flag(flag))
	}
	cfg.Exclude, cfg.Severity, cfg.Resources = next.Exclude, next.Severity, next.Resources
	cfg.Sensors, cfg.SensorInterval = next.Sensors, next.SensorInterval
	if differ {
		l.applied(next, restart)
	}
	return true
}

// applied records and logs that the most recently read files are now in effect.
func (l *liveSettings) applied(cfg config.Config, restart []string) {
	hash := l.read.Hash()
	l.state.Store(control.Settings{Hash: hash, Applied: time.Now(), Restart: append([]string{}, restart...)})
	if cfg.NodesUnused {
		l.log.Warn("overrides of nodes have no effect without this setting", logevent.ConfigNotice, logevent.Flag("node-name"))
	}
	if keys := l.read.OtherKeys(); len(keys) > 0 {
		l.log.Warn("overrides have no effect because their ConfigMap uses another key", logevent.ConfigNotice, logevent.Flag("overrides"),
			logevent.Reason(fmt.Sprintf("found %s, want %s", strings.Join(keys, ", "), filepath.Base(l.loader.Config.Overrides))))
	}
	for _, r := range cfg.Resources {
		if f := r.Match.Family; f != "" && !slices.Contains(l.loader.Config.Families, f) {
			l.log.Warn("rule names a family that is not in --families", logevent.ConfigNotice, logevent.Flag("families"), logevent.Reason(r.String()))
		}
	}
	if l.loader.HasFiles() {
		l.log.Info("settings applied", logevent.ConfigApplied, logevent.Hash(hash), logevent.Devices(slices.Sorted(maps.Keys(cfg.Exclude))))
	}
}

// hash returns the hash of the files in effect.
func (l *liveSettings) hash() string {
	s, _ := l.state.Load()
	return s.Hash
}
