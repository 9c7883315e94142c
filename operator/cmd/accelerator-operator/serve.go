package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"b-com.com/accelerator-device-plugin/operator/admission"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/controllers"
	"b-com.com/accelerator-device-plugin/operator/plugins"
)

// path is where the API server sends pods.
const path = "/pods"

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
		LeaderElectionNamespace:       s.namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends when Start returns
		WebhookServer:                 webhook.NewServer(webhook.Options{Port: s.webhookPort, CertDir: s.tlsCertDir}),
	})
	if err != nil {
		return err
	}
	if s.mappings {
		if err := addMappings(ctx, mgr, s, log); err != nil {
			return err
		}
	}
	if s.devicePlugins {
		if err := plugins.Add(mgr, plugins.Settings{Version: version, Image: s.pluginImage, Namespace: s.namespace}, log.Named("plugins")); err != nil {
			return err
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// addMappings adds admission, and the status of mappings, to a manager.
func addMappings(ctx context.Context, mgr ctrl.Manager, s settings, log *zap.Logger) error {
	// Admission reads both kinds from the cache, also where no controller runs.
	for _, object := range []client.Object{&v2.AcceleratorFunction{}, &v2.FpgaRegion{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch of mappings: %w", err)
		}
	}
	mgr.GetWebhookServer().Register(path, &ctrladmission.Webhook{Handler: admission.NewHandler(mgr.GetCache(), s.domain, log.Named("admission"))})
	synced := &syncedRunnable{}
	return errors.Join(
		controllers.Functions{Client: mgr.GetClient(), Domain: s.domain, Log: log.Named("mapping")}.SetupWithManager(mgr),
		controllers.Regions{Client: mgr.GetClient(), Domain: s.domain, Log: log.Named("mapping")}.SetupWithManager(mgr),
		mgr.Add(synced),
		mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()),
		mgr.AddReadyzCheck("cache", synced.check),
	)
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
