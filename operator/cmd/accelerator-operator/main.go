package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/go-logr/zapr"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/operator/admission"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/controllers"
	"b-com.com/accelerator-device-plugin/server/names"
)

// version is set by the Makefile.
var version = "devel"

// path is where the API server sends pods.
const path = "/pods"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// A second signal finds the default action again, and kills.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// settings are the flags.
type settings struct {
	kubeconfig     string
	domain         string
	webhookPort    int
	tlsCertDir     string
	metricsAddress string
	healthAddress  string
	leaderElection bool
	leaseNamespace string
	logLevel       string
	logFormat      string
	version        bool
}

// parse reads the command line.
func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	flags := pflag.NewFlagSet("accelerator-operator", pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.SortFlags = false
	flags.StringVar(&s.domain, "resource-namespace", v2.GroupVersion.Group, "domain of the resources, as the daemon's flag of that name")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "file with the API server and credentials; empty: those of the pod")
	flags.IntVar(&s.webhookPort, "webhook-port", 9443, "TCP port of the webhook, at all addresses")
	flags.StringVar(&s.tlsCertDir, "tls-cert-dir", "/etc/accelerator-operator/tls", "directory with tls.crt and tls.key of the webhook, which are read again when they change")
	flags.StringVar(&s.metricsAddress, "metrics-address", "127.0.0.1:9482", "where /metrics is served; 0: nowhere")
	flags.StringVar(&s.healthAddress, "health-address", ":9481", "where /healthz and /readyz are served; 0: nowhere")
	flags.BoolVar(&s.leaderElection, "leader-election", true, "only one replica writes the status of mappings; all admit pods")
	flags.StringVar(&s.leaseNamespace, "lease-namespace", "", "namespace of the lease; empty: that of the pod")
	flags.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&s.logFormat, "log-format", "json", "json or console")
	flags.BoolVar(&s.version, "version", false, "print the version and end")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("argument %q, want none", flags.Arg(0))
	}
	if err := names.ValidateNamespace(s.domain); err != nil {
		return s, fmt.Errorf("--resource-namespace: %w", err)
	}
	if s.webhookPort < 1 || s.webhookPort > 65535 {
		return s, fmt.Errorf("--webhook-port: %d, want 1 to 65535", s.webhookPort)
	}
	if !filepath.IsAbs(s.tlsCertDir) {
		return s, fmt.Errorf("--tls-cert-dir: %q, want an absolute path", s.tlsCertDir)
	}
	if l, err := zapcore.ParseLevel(s.logLevel); err != nil || l > zapcore.ErrorLevel {
		return s, fmt.Errorf("--log-level: %q, want debug, info, warn or error", s.logLevel)
	}
	if s.logFormat != "json" && s.logFormat != "console" {
		return s, fmt.Errorf("--log-format: %q, want json or console", s.logFormat)
	}
	return s, nil
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "accelerator-operator: %v (see --help)\n", err)
		return 2
	case s.version:
		fmt.Fprintln(stdout, version)
		return 0
	}
	log := newLogger(s, stderr)
	libraries := zapr.NewLogger(log.With(event.LibraryLog))
	ctrl.SetLogger(libraries)
	klog.SetLogger(libraries)

	log.Info("operator started", event.OperatorStarted, event.Version(version), event.PID(os.Getpid()))
	if err := serve(ctx, s, log); err != nil {
		log.Error("operator failed", event.OperatorFailed, event.Err(err))
		return 1
	}
	log.Info("operator stopped", event.OperatorStopped)
	return 0
}

func newLogger(s settings, w io.Writer) *zap.Logger {
	level, err := zapcore.ParseLevel(s.logLevel)
	if err != nil {
		level = zapcore.InfoLevel // parse has checked the name
	}
	encoder := zapcore.NewJSONEncoder(event.Keys())
	if s.logFormat == "console" {
		encoder = zapcore.NewConsoleEncoder(event.Keys())
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
}

// serve blocks until the context ends or a part fails.
func serve(ctx context.Context, s settings, log *zap.Logger) error {
	scheme := runtime.NewScheme()
	if err := v2.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := restConfig(s.kubeconfig)
	if err != nil {
		return err
	}
	// The API server has its own limits. client-go's five a second would take minutes for the
	// status of some hundred mappings.
	config.QPS = -1
	config.UserAgent = "accelerator-operator/" + version
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                       metricsserver.Options{BindAddress: s.metricsAddress},
		HealthProbeBindAddress:        s.healthAddress,
		LeaderElection:                s.leaderElection,
		LeaderElectionID:              "accelerator-operator",
		LeaderElectionNamespace:       s.leaseNamespace,
		LeaderElectionReleaseOnCancel: true, // the process ends when Start returns
		WebhookServer:                 webhook.NewServer(webhook.Options{Port: s.webhookPort, CertDir: s.tlsCertDir}),
	})
	if err != nil {
		return err
	}
	// Admission reads both kinds from the cache, also where no controller runs.
	for _, object := range []client.Object{&v2.AcceleratorFunction{}, &v2.FpgaRegion{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch of mappings: %w", err)
		}
	}
	if err := (controllers.Functions{Client: mgr.GetClient(), Domain: s.domain, Log: log.Named("mapping")}).SetupWithManager(mgr); err != nil {
		return err
	}
	if err := (controllers.Regions{Client: mgr.GetClient(), Domain: s.domain, Log: log.Named("mapping")}).SetupWithManager(mgr); err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(path, &ctrladmission.Webhook{Handler: admission.NewHandler(mgr.GetCache(), s.domain, log.Named("admission"))})

	synced := &syncedRunnable{}
	if err := errors.Join(
		mgr.Add(synced),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()),
		mgr.AddReadyzCheck("cache", synced.check),
	); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	return rest.InClusterConfig()
}

// syncedRunnable is started by the manager when all caches have been filled.
type syncedRunnable struct{ started atomic.Bool }

// Start implements [manager.Runnable].
func (r *syncedRunnable) Start(ctx context.Context) error {
	r.started.Store(true)
	<-ctx.Done()
	return nil
}

// NeedLeaderElection implements [manager.LeaderElectionRunnable].
func (r *syncedRunnable) NeedLeaderElection() bool { return false }

func (r *syncedRunnable) check(*http.Request) error {
	if !r.started.Load() {
		return errors.New("the mappings have not been read yet")
	}
	return nil
}
