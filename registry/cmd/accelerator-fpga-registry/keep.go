package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/release"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/programming/fpga"
	"b-com.com/accelerator-device-plugin/registry/keep"
	"b-com.com/accelerator-device-plugin/registry/signature"
)

// keepSettings holds the settings of the keep command.
type keepSettings struct {
	settings
	keep.Config
	store, keyFile string
	once           bool
	sysfs          string
	maxMiB         int64
	address        string
	pod            apiserver.Object // the pod to write Events for; if it doesn't have a name, no Events are written
	podName        string
	node           string
}

func newKeep() *cobra.Command {
	var s keepSettings
	cmd := &cobra.Command{
		Use:   "keep --list FILE",
		Short: "Run a service that keeps bitstreams in the store up to date",
		Long: `Keep a list of bitstreams in this node's store up to date. FILE contains one reference
per line, REGISTRY/NAME[:TAG|@sha256:DIGEST]. Each bitstream is pulled at startup. After
that, the references are checked at intervals, so if a tag moves, the new bitstream is
pulled. Digests that are already in the store aren't checked again. You can change FILE
and the files with credentials, certificates and keys without a restart.

keep only replaces and removes files that it has installed itself. It only removes files
with --gc-age or --gc-max-size. A file can be removed if no card has its AFU, and if it
hasn't been needed for the time given by --gc-age, or for 24 h with --gc-max-size. A file
is needed while a reference names it or a program reads it.

The log is in JSON. With --once, keep tries each reference once and then exits. The exit
code is 0 even if pulls have failed, so that an unreachable registry doesn't block
anything.

keep uses the same credentials and proxies as "accelerator-fpga pull".`,
		Example: `  accelerator-fpga keep --list references.txt --once
  accelerator-fpga keep --list references.txt --interval 1h --http-address :9481`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			return asFailure(s.run(cmd.Context(), zap.New(zapcore.NewCore(
				zapcore.NewJSONEncoder(logevent.Keys()), zapcore.Lock(zapcore.AddSync(cmd.ErrOrStderr())), zapcore.InfoLevel))))
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.List, "list", "", "`file` with the references, one per line; changes to it take effect without a restart")
	f.StringVar(&s.store, "store", string(programming.DefaultStore), "`directory` with this node's bitstreams")
	f.DurationVar(&s.Interval, "interval", 10*time.Minute, "`time` between two checks of a reference; each wait is randomly varied by up to a quarter")
	f.DurationVar(&s.Timeout, "timeout", time.Hour, "time `limit` for one pull")
	f.BoolVar(&s.once, "once", false, "try each reference once, then exit")
	f.StringVar(&s.keyFile, "key", "", "`file` with public keys (PEM); bitstreams must have a cosign signature from one of them")
	f.StringVar(&s.caFile, "ca-file", "", "`file` with additional CA certificates (PEM)")
	f.BoolVar(&s.plain, "plain-http", false, "use HTTP instead of HTTPS; connections are not protected")
	f.Int64Var(&s.MinFree, "min-free", 20, "`percentage` of the store's file system that must stay free")
	f.DurationVar(&s.Collect.Age, "gc-age", 0, "remove files that haven't been needed for this `time`, at least 24h (0: never)")
	f.Int64Var(&s.maxMiB, "gc-max-size", 0, "maximum total size of the installed files in `MiB`; above it, the oldest of those that haven't been needed for 24 h are removed (0: no limit)")
	f.StringVar(&s.sysfs, "sysfs-root", "/sys", "`directory` where sysfs is mounted, used to find the AFUs loaded on the cards")
	f.StringVar(&s.address, "http-address", "", "`address` to serve /metrics, /healthz and /readyz on; if empty, they are not served")
	f.StringVar(&s.podName, "events-pod", "", "pod (`NAMESPACE/NAME`) to create Kubernetes Events about failures for; if empty, none are created")
	f.StringVar(&s.pod.UID, "events-pod-uid", "", "`uid` of the pod in --events-pod")
	f.StringVar(&s.node, "node-name", "", "`name` of the node, for the Events")
	return cmd
}

// check returns an error if a setting isn't valid. It also reads the files that the settings refer to.
func (s *keepSettings) check() error {
	s.Store = programming.Store(s.store)
	s.Space, s.Collect.MaxSize = keep.Space, s.maxMiB<<20
	s.Collect.Loaded = func() ([]string, error) { return loadedAFUs(s.sysfs) }
	s.Open = func(log func(string), progress func(done, total int64)) (keep.Registry, signature.Keys, error) {
		c, err := s.open()
		if err != nil {
			return nil, nil, err
		}
		c.Log, c.Progress = log, progress
		keys, err := readKeys(s.keyFile)
		return c, keys, err
	}
	namespace, pod, isPod := strings.Cut(s.podName, "/")
	s.pod.Kind, s.pod.Namespace, s.pod.Name = "Pod", namespace, pod
	switch {
	case s.List == "":
		return errors.New("--list: found none, want a file")
	case s.store == "":
		return errors.New(`--store: found "", want a directory`)
	case s.Interval < time.Minute:
		return fmt.Errorf("--interval: found %s, want at least 1m", s.Interval)
	case s.Timeout <= 0:
		return fmt.Errorf("--timeout: found %s, want more than 0s", s.Timeout)
	case s.Collect.Age != 0 && s.Collect.Age < keep.MinAge:
		return fmt.Errorf("--gc-age: found %s, want 0, or at least %s", s.Collect.Age, keep.MinAge)
	case s.MinFree < 0 || s.MinFree > 90:
		return fmt.Errorf("--min-free: found %d, want 0 to 90", s.MinFree)
	case s.maxMiB < 0 || s.maxMiB > 1<<30:
		return fmt.Errorf("--gc-max-size: found %d, want 0 to %d", s.maxMiB, 1<<30)
	case s.podName != "" && !isPod:
		return fmt.Errorf("--events-pod: found %q, want NAMESPACE/NAME", s.podName)
	}
	if _, err := keep.ReadList(s.List); err != nil {
		return fmt.Errorf("--list: %w", err)
	}
	_, _, err := s.Open(nil, nil)
	return err
}

// run keeps the listed bitstreams up to date until ctx is done.
func (s *keepSettings) run(ctx context.Context, log *zap.Logger) (err error) {
	log.Info("keep started", logevent.KeepStarted, logevent.Version(release.Version(version)), logevent.PID(os.Getpid()), logevent.Path(s.List))
	defer func() {
		if err != nil {
			log.Error("keep failed", logevent.KeepFailed, logevent.Err(err))
			return
		}
		log.Info("keep stopped", logevent.KeepStopped)
	}()
	changed := make(chan struct{}, 1) // holds an element if anything has changed since Events were last written
	s.Log = log
	s.Changed = func(keep.State) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	k, err := keep.New(s.Config)
	if err != nil {
		return err
	}
	if s.once {
		k.Once(ctx)
		return nil
	}
	parts, ctx := errgroup.WithContext(ctx)
	if s.pod.Name != "" {
		client, err := apiserver.Open(apiserver.Config{LookupEnv: os.LookupEnv, UserAgent: "accelerator-fpga-registry/" + release.Version(version)}, log)
		if err != nil {
			return err
		}
		r := recorder{writer: client.Writer(ctx, s.node), pod: s.pod, node: s.node, states: k.States, log: log}
		parts.Go(func() error { return r.run(ctx, changed) })
	}
	if s.address != "" {
		metrics := prometheus.NewRegistry()
		metrics.MustRegister(keep.Metrics{Keeper: k})
		parts.Go(func() error {
			return httpd.Run(ctx, s.address, httpd.Answers{
				Alive: func(context.Context) error { return nil }, Ready: k.Ready,
				Metrics: promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}),
			}, log)
		})
	}
	parts.Go(func() error { return k.Run(ctx) })
	return parts.Wait()
}

// loadedAFUs returns the IDs of the AFUs that are loaded on the node's cards. It returns an error while a card is being
// programmed, because it can't know which file is being loaded.
func loadedAFUs(sysfs string) (ids []string, err error) {
	cards, err := fpga.Cards(fpga.Host{Sys: sysfs, Dev: "/dev", Simulated: sysfs != "/sys"})
	for _, card := range cards {
		for _, port := range card.Ports {
			if port.AFUErr != nil && !errors.Is(port.AFUErr, fs.ErrNotExist) { // an N6000 doesn't have AFU IDs, but can't be programmed either
				err = errors.Join(err, port.AFUErr)
			}
			ids = append(ids, port.AFUID)
		}
	}
	return ids, err
}
