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

	"b-com.com/accelerator-device-plugin/offer/names"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
)

// namespaceFile contains the pod's namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// settings holds the flags' values.
type settings struct {
	kubeconfig           string
	namespace            string
	domain               string
	mappings             bool
	devicePlugins        bool
	pluginImage          string
	webhookPort          int
	webhookService       string
	webhookConfiguration string
	tlsSecret            string
	tlsCertDir           string
	clientCA             string
	metricsAddress       string
	healthAddress        string
	leaderElection       bool
	logLevel             string
	logFormat            string
	version              bool
}

const help = `Run the operator for FPGA cards in this cluster. It replaces mapped names of FPGA
functions in pods with resources, and publishes the mappings' status. With
--device-plugins, it also installs the device plugin for each FpgaDevicePlugin.

Exit codes: 0 success, 1 failure, 2 usage error.

Usage:
  accelerator-operator [flags]

Examples:
  accelerator-operator                                        run the operator in a pod
  accelerator-operator --namespace fpga --device-plugins --log-format console`

// parse parses the command line.
func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	flags := pflag.NewFlagSet("accelerator-operator", pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.SortFlags = false
	flags.Usage = func() { fmt.Fprintf(out, "%s\n\nFlags:\n%s", help, flags.FlagUsages()) }
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig file; if empty, the pod's service account is used")
	flags.StringVar(&s.namespace, "namespace", "", "namespace for the operator's lease and Secret, and for the device plugins; if empty, the pod's namespace is used")
	flags.StringVar(&s.domain, "resource-namespace", v2.GroupVersion.Group, "domain of names and resources; must be the same as the daemon's --resource-namespace")
	flags.BoolVar(&s.mappings, "mappings", true, "replace names in pods, and publish the status of mappings")
	flags.BoolVar(&s.devicePlugins, "device-plugins", false, "install the device plugin for each FpgaDevicePlugin, in --namespace")
	flags.StringVar(&s.pluginImage, "plugin-image", "accelerator-device-plugin", "device plugin image, as REPOSITORY[:TAG][@DIGEST]; if there is neither a tag nor a digest, the operator's version is used as the tag")
	flags.IntVar(&s.webhookPort, "webhook-port", 9443, "TCP port of the webhook, on all addresses")
	flags.StringVar(&s.webhookService, "webhook-service", "accelerator-operator", "name of the webhook's Service; the certificate is issued for SERVICE.NAMESPACE.svc")
	flags.StringVar(&s.webhookConfiguration, "webhook-configuration", "", "MutatingWebhookConfiguration to add the CA to, if any")
	flags.StringVar(&s.tlsSecret, "tls-secret", "accelerator-operator-tls", "Secret with the operator's CA; it is created if it doesn't exist, and overwritten if it doesn't contain a CA")
	flags.StringVar(&s.tlsCertDir, "tls-cert-dir", "", "directory with tls.crt and tls.key, which are reloaded when they change; if empty, the operator issues its own CA and certificate")
	flags.StringVar(&s.clientCA, "client-ca", "", "PEM file with the CAs of the API servers' client certificates; the webhook then accepts only connections with a certificate from one of these CAs; if empty, it serves every client")
	flags.StringVar(&s.metricsAddress, "metrics-address", "127.0.0.1:9482", "address to serve /metrics on; 0 turns it off")
	flags.StringVar(&s.healthAddress, "health-address", ":9481", "address to serve /healthz and /readyz on; 0 turns them off")
	flags.BoolVar(&s.leaderElection, "leader-election", true, "only let the replica that holds the lease write statuses, the CA and the plugins' objects; if false, every replica writes them")
	flags.StringVar(&s.logLevel, "log-level", "info", "log level: debug, info, warn or error")
	flags.StringVar(&s.logFormat, "log-format", "json", "log format: json or console")
	flags.BoolVar(&s.version, "version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil || s.version {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("argument %q, want none", flags.Arg(0))
	}
	if s.namespace == "" {
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return s, fmt.Errorf("--namespace: found none, want a namespace, because this is not a pod with a service account: %w", err)
		}
		s.namespace = strings.TrimSpace(string(text))
	}
	return s, s.check()
}

// check returns an error if a setting isn't valid.
func (s settings) check() error {
	if err := names.ValidateNamespace(s.domain); err != nil {
		return fmt.Errorf("--resource-namespace: %w", err)
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
			return fmt.Errorf("--%s: found %q, want the name of an object: %s", f.name, f.value, all[0])
		}
	}
	if s.pluginImage == "" || strings.ContainsAny(s.pluginImage, " \t\n") {
		return fmt.Errorf("--plugin-image: found %q, want REPOSITORY[:TAG][@DIGEST]", s.pluginImage)
	}
	if s.webhookPort < 1 || s.webhookPort > 65535 {
		return fmt.Errorf("--webhook-port: found %d, want 1 to 65535", s.webhookPort)
	}
	if s.tlsCertDir != "" && !filepath.IsAbs(s.tlsCertDir) {
		return fmt.Errorf("--tls-cert-dir: found %q, want an absolute path", s.tlsCertDir)
	}
	if l, err := zapcore.ParseLevel(s.logLevel); err != nil || l > zapcore.ErrorLevel {
		return fmt.Errorf("--log-level: found %q, want debug, info, warn or error", s.logLevel)
	}
	if s.logFormat != "json" && s.logFormat != "console" {
		return fmt.Errorf("--log-format: found %q, want json or console", s.logFormat)
	}
	return nil
}
