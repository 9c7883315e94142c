package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/util/validation"

	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/server/names"
)

// namespaceFile has the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// settings are the flags.
type settings struct {
	kubeconfig           string
	namespace            string
	domain               string
	mappings             bool
	webhookPort          int
	webhookService       string
	webhookConfiguration string
	tlsSecret            string
	tlsCertDir           string
	metricsAddress       string
	healthAddress        string
	leaderElection       bool
	logLevel             string
	logFormat            string
	version              bool
}

// parse reads the command line.
func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	flags := pflag.NewFlagSet("accelerator-operator", pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.SortFlags = false
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "file with the API server and credentials; empty: those of the pod")
	flags.StringVar(&s.namespace, "namespace", "", "namespace of the operator's lease and Secret; empty: that of the pod")
	flags.StringVar(&s.domain, "resource-namespace", v2.GroupVersion.Group, "domain of the resources, as the daemon's flag of that name")
	flags.BoolVar(&s.mappings, "mappings", true, "admit pods, and publish the status of mappings")
	flags.IntVar(&s.webhookPort, "webhook-port", 9443, "TCP port of the webhook, at all addresses")
	flags.StringVar(&s.webhookService, "webhook-service", "accelerator-operator", "Service of the webhook: the certificate is for SERVICE.NAMESPACE.svc")
	flags.StringVar(&s.webhookConfiguration, "webhook-configuration", "", "MutatingWebhookConfiguration that gets the CA, in all its webhooks; empty: none")
	flags.StringVar(&s.tlsSecret, "tls-secret", "accelerator-operator-tls", "Secret of the operator's CA; made when missing, overwritten when it has no CA")
	flags.StringVar(&s.tlsCertDir, "tls-cert-dir", "", "directory with tls.crt and tls.key from elsewhere, which are read again when they change; empty: the operator makes its own, and only then the CA has a use")
	flags.StringVar(&s.metricsAddress, "metrics-address", "127.0.0.1:9482", "where /metrics is served; 0: nowhere")
	flags.StringVar(&s.healthAddress, "health-address", ":9481", "where /healthz and /readyz are served; 0: nowhere")
	flags.BoolVar(&s.leaderElection, "leader-election", true, "only one replica writes the status of mappings and the CA; all admit pods")
	flags.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&s.logFormat, "log-format", "json", "json or console")
	flags.BoolVar(&s.version, "version", false, "print the version and end")
	if err := flags.Parse(args); err != nil || s.version {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("argument %q, want none", flags.Arg(0))
	}
	if err := names.ValidateNamespace(s.domain); err != nil {
		return s, fmt.Errorf("--resource-namespace: %w", err)
	}
	if s.namespace == "" {
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return s, fmt.Errorf("--namespace: empty, want a namespace, because this is no pod: %w", err)
		}
		s.namespace = strings.TrimSpace(string(text))
	}
	for _, f := range []struct {
		name, value string
		problems    func(string) []string
	}{
		{"namespace", s.namespace, validation.IsDNS1123Label},
		{"webhook-service", s.webhookService, validation.IsDNS1035Label},
		{"webhook-configuration", s.webhookConfiguration, validation.IsDNS1123Subdomain},
		{"tls-secret", s.tlsSecret, validation.IsDNS1123Subdomain},
	} {
		if all := f.problems(f.value); len(all) > 0 && (f.value != "" || f.name != "webhook-configuration") {
			return s, fmt.Errorf("--%s: %q, want the name of an object: %s", f.name, f.value, all[0])
		}
	}
	if s.webhookPort < 1 || s.webhookPort > 65535 {
		return s, fmt.Errorf("--webhook-port: %d, want 1 to 65535", s.webhookPort)
	}
	if s.tlsCertDir != "" && !filepath.IsAbs(s.tlsCertDir) {
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
