// Command cert-manager runs one of cert-manager's components, from the packages of its module:
//
//	cert-manager controller|webhook|cainjector [FLAG…]
//
// cert-manager's own commands are in modules that aren't published. This command replaces them in `make e2e`. It runs
// the controllers that issue and renew Certificates for CA and self-signed issuers, the complete webhook, and the
// complete CA injector. It doesn't support leader election, metrics, or ACME, Vault and Venafi issuers.
//
// This module's name starts with the name of cert-manager's module because the webhook is an internal package.
// cert-manager's own commands do the same.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cert-manager/cert-manager/internal/webhook"
	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/healthz"
	"github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"

	// Importing these packages registers the controllers and issuers.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logs.InitLogs()
	ctrl.SetLogger(logs.Log)
	if err := run(logs.NewContext(ctx, logs.Log), os.Args[1:]); err != nil {
		logs.FlushLogs()
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	part := ""
	if len(args) > 0 {
		part, args = args[0], args[1:]
	}
	switch part {
	case "controller":
		return runController(ctx)
	case "webhook":
		return runWebhook(ctx, args)
	case "cainjector":
		return runInjector(ctx)
	}
	return fmt.Errorf("found %q, want controller, webhook or cainjector", part)
}

// runController runs all registered controllers. It ignores the chart's flags, including the namespace for
// ClusterIssuers, because they only configure features that aren't included here.
func runController(ctx context.Context) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", ":9403") // for the chart's liveness probe
	if err != nil {
		return err
	}
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return healthz.NewServer(time.Minute).Start(ctx, listener) })
	for name, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
		tasks.Go(func() error { return c.Run(5, ctx) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return tasks.Wait()
}

// runWebhook runs the webhook with cert-manager's flags.
func runWebhook(ctx context.Context, args []string) error {
	config, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	options.AddConfigFlags(flags, config)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := logs.ValidateAndApply(&config.Logging); err != nil {
		return err
	}
	server, err := webhook.NewCertManagerWebhookServer(logs.Log, *config)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

// runInjector injects CAs into all kinds of objects that can contain one.
func runInjector(ctx context.Context) error {
	scheme := runtime.NewScheme()
	err := errors.Join(clientscheme.AddToScheme(scheme), certmanager.AddToScheme(scheme),
		apiextensions.AddToScheme(scheme), apiregistration.AddToScheme(scheme))
	if err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// Cache only Secrets' metadata.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return err
	}
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.APIServiceName: true, cainjector.CustomResourceDefinitionName: true,
		},
	})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
