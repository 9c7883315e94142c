package holders

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/dirwatch"
	"b-com.com/accelerator-device-plugin/internal/notify"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
)

// rereadInterval is the maximum time until [Source.Watch] notices a change that inotify doesn't report.
const rereadInterval = 10 * time.Second

// Watch reads the kubelet's checkpoint whenever the kubelet writes it, until ctx is done, so that the next query and
// the next daemon know about every entry since the previous query. It calls allocated when it finds a new entry for
// another plugin's devices, because that plugin's pod may be using one of our devices, and nothing else tells the
// daemon when it was allocated.
func (s *Source) Watch(ctx context.Context, log *zap.Logger, allocated func()) {
	known := map[string]bool{}
	changed := make(chan struct{}, 1)
	var storing sync.WaitGroup
	defer storing.Wait()
	storing.Go(func() { s.storeAll(ctx, changed) })
	dirwatch.Run(ctx, dirwatch.Config{
		Dirs: []string{filepath.Clean(s.cfg.KubeletDir)}, Interval: rereadInterval, Blind: rereadInterval, Log: log,
		Concerns: func(e notify.Event) bool { return filepath.Base(e.Name) == checkpoint.File },
	}, func() {
		began := time.Now()
		if record, _, _, err := s.read(); err == nil { // otherwise Ask reports the error
			select {
			case changed <- struct{}{}:
			default:
			}
			now, added := map[string]bool{}, false
			for _, e := range record.Entries {
				if slices.ContainsFunc(e.IDs, e.Ours) {
					continue
				}
				now[nameOf(e)], added = true, added || !known[nameOf(e)]
			}
			if known = now; added {
				allocated()
			}
		}
		// Pause for as long as reading took, even if the file can't be parsed. With thousands of containers that use
		// devices, reading takes 100 ms, and the kubelet may write the file many times per second.
		select {
		case <-ctx.Done():
		case <-time.After(time.Since(began)):
		}
	})
}
