package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/operator/admission"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/certificate"
	"b-com.com/accelerator-device-plugin/operator/controllers"
	"b-com.com/accelerator-device-plugin/operator/metrics"
	"b-com.com/accelerator-device-plugin/operator/plugins"
)

// path is the URL path that API servers send pods to.
const path = "/pods"

// readyTimeout is the time limit for a readiness check. It is shorter than a probe's default timeout, so that the
// kubelet learns the reason for a failure.
const readyTimeout = 800 * time.Millisecond

// serve runs the operator until ctx is done or one of its parts fails.
func serve(ctx context.Context, s settings, log *zap.Logger) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(v2.AddToScheme(scheme), corev1.AddToScheme(scheme), admissionv1.AddToScheme(scheme)); err != nil {
		return err
	}
	config, err := restConfig(s.kubeconfig)
	if err != nil {
		return err
	}
	// Don't limit requests, because the API server has its own limits. With client-go's default of five per second,
	// writing a few hundred mappings' statuses would take minutes.
	config.QPS = -1
	config.UserAgent = "accelerator-operator/" + version
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			// Watch only the injector's two objects, because the operator isn't allowed to read others.
			ByObject: map[client.Object]cache.ByObject{
				&admissionv1.MutatingWebhookConfiguration{}: {Field: fields.OneTermEqualSelector("metadata.name", s.webhookConfiguration)},
				&corev1.Secret{}: {
					Namespaces: map[string]cache.Config{s.namespace: {}},
					Field:      fields.OneTermEqualSelector("metadata.name", s.tlsSecret),
				},
			},
		},
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // metrics and health checks are served below
		HealthProbeBindAddress:        "0",
		LeaderElection:                s.leaderElection,
		LeaderElectionID:              s.lease(),
		LeaderElectionNamespace:       s.namespace,
		LeaderElectionReleaseOnCancel: true, // safe because the process exits when Start returns
	})
	if err != nil {
		return err
	}
	checks := map[string]healthz.Checker{"ping": healthz.Ping}
	if s.mappings {
		m := metrics.New(ctrlmetrics.Registry, version, mgr.GetCache())
		if err := addMappings(ctx, mgr, s, m, checks, log); err != nil {
			return err
		}
	} else {
		metrics.New(ctrlmetrics.Registry, version, nil)
	}
	if s.devicePlugins {
		if err := plugins.Add(mgr, plugins.Settings{Version: version, Image: s.pluginImage, Namespace: s.namespace}, log.Named("plugins")); err != nil {
			return err
		}
	}
	health, metrics := http.NewServeMux(), http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": {"ping": healthz.Ping}, "/readyz": checks} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		health.Handle(path, handler)
		health.Handle(path+"/", handler)
	}
	metrics.Handle("/metrics", promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return listenAndServe(ctx, "--health-address", s.healthAddress, health, log) })
	tasks.Go(func() error { return listenAndServe(ctx, "--metrics-address", s.metricsAddress, metrics, log) })
	tasks.Go(func() error { return mgr.Start(ctx) })
	return tasks.Wait()
}

// listenAndServe serves handler at an address until ctx is done. If the address is 0, it does nothing.
func listenAndServe(ctx context.Context, flag, address string, handler http.Handler, log *zap.Logger) error {
	if address == "0" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil {
		err = httpd.Serve(ctx, listener, handler, log.Named("http"))
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// lease returns the name of the lease for leader election. Replicas that inject the CA use a different lease than
// replicas that don't. Otherwise, an upgrade that turns injection on would get stuck: the old replicas hold the lease
// until the new ones are ready, but the new ones don't become ready until a leader has injected the CA.
func (s settings) lease() string {
	if s.mappings && s.tlsCertDir == "" && s.webhookConfiguration != "" {
		return "accelerator-operator"
	}
	return "accelerator-operator-without-ca"
}

// addMappings adds everything to do with mappings to the manager: admission, its certificates, and the controllers for
// statuses. It also adds a readiness check to checks.
func addMappings(ctx context.Context, mgr ctrl.Manager, s settings, m *metrics.Metrics, checks map[string]healthz.Checker, log *zap.Logger) error {
	// Admission reads both kinds from the cache, even in replicas that don't run the controllers.
	for _, object := range []client.Object{&v2.AcceleratorFunction{}, &v2.FpgaRegion{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch of mappings: %w", err)
		}
	}
	server := &webhookServer{port: s.webhookPort, clientCA: s.clientCA, log: log.Named("webhook")}
	var trusted func(context.Context) error
	if s.tlsCertDir != "" {
		watcher, err := certwatcher.New(filepath.Join(s.tlsCertDir, corev1.TLSCertKey), filepath.Join(s.tlsCertDir, corev1.TLSPrivateKeyKey))
		if err != nil {
			return fmt.Errorf("--tls-cert-dir: %w", err)
		}
		if err := mgr.Add(watcher); err != nil {
			return err
		}
		server.certificate = watcher.GetCertificate
	} else {
		secret := types.NamespacedName{Namespace: s.namespace, Name: s.tlsSecret}
		source := certificate.NewSource(mgr.GetConfig(), secret, s.webhookService+"."+s.namespace+".svc", log.Named("certificate"))
		if err := mgr.Add(source); err != nil {
			return err
		}
		server.certificate = source.GetCertificate
		if s.webhookConfiguration != "" {
			injector := &certificate.Injector{Client: mgr.GetClient(), Configuration: s.webhookConfiguration, Secret: secret, Metrics: m, Log: log.Named("certificate")}
			if err := injector.SetupWithManager(mgr); err != nil {
				return err
			}
			trusted = func(ctx context.Context) error {
				var configuration admissionv1.MutatingWebhookConfiguration
				if err := mgr.GetAPIReader().Get(ctx, client.ObjectKey{Name: s.webhookConfiguration}, &configuration); err != nil {
					return err
				}
				return source.Trusted(&configuration)
			}
		}
	}
	server.handler = admission.NewHandler(mgr.GetCache(), mgr.GetAPIReader(), s.domain, m, log.Named("admission"))
	checks["webhook"] = ready(server.serves, mgr.GetCache(), trusted)
	return errors.Join(
		mgr.Add(server),
		controllers.Functions{Client: mgr.GetClient(), Domain: s.domain, Log: log.Named("mapping")}.SetupWithManager(mgr),
		controllers.Regions{Client: mgr.GetClient(), Domain: s.domain, Log: log.Named("mapping")}.SetupWithManager(mgr),
	)
}

// ready returns a readiness check. The replica is ready if it is serving TLS, its cache has been filled, and trusted
// has returned nil at least once. trusted may be nil.
func ready(serves func() error, mappings cache.Cache, trusted func(context.Context) error) healthz.Checker {
	var once atomic.Bool
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), readyTimeout)
		defer cancel()
		if err := serves(); err != nil {
			return err
		}
		if !mappings.WaitForCacheSync(ctx) {
			return errors.New("the mappings have not been read yet")
		}
		if trusted != nil && !once.Load() {
			if err := trusted(ctx); err != nil {
				return err
			}
			once.Store(true)
		}
		return nil
	}
}

// restConfig returns the client configuration from a kubeconfig file or, if kubeconfig is "", from the pod.
func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	return rest.InClusterConfig()
}
