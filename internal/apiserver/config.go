package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"

	"go.uber.org/zap"
	"k8s.io/client-go/transport"
)

// Config selects the API server and the account.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file; its current context is used.
	// Empty: the service account of the pod in which this process runs.
	Kubeconfig string

	// ServiceAccount is the directory with the token and ca.crt of the service
	// account. Empty: where the kubelet puts it.
	ServiceAccount string

	// LookupEnv is [os.LookupEnv]: the kubelet sets variables with the address of the
	// API server in each pod. It is not used with a Kubeconfig.
	LookupEnv func(string) (string, bool)

	// UserAgent is in the audit log of the API server.
	UserAgent string

	// Dial connects; nil: over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Failed is called for each request that failed and is repeated, from several
	// goroutines; may be nil.
	Failed func()
}

// Client knows how to reach the API server. Make it with [Open].
type Client struct {
	server *url.URL
	config transport.Config // as read; transport.New fills in the contents of files, so it gets a copy
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	log    *zap.Logger
	failed func()
}

// Open returns a client for the configuration. It reads the files of the configuration, so that
// errors in them are found at the start. It makes no connection.
func Open(cfg Config, log *zap.Logger) (*Client, error) {
	c := &Client{dial: cfg.Dial, failed: cfg.Failed, log: log.Named("apiserver")}
	if c.dial == nil {
		c.dial = (&net.Dialer{Timeout: requestWithin}).DialContext
	}
	var err error
	if cfg.Kubeconfig != "" {
		c.server, c.config, err = readKubeconfig(cfg.Kubeconfig)
	} else {
		c.server, c.config, err = inCluster(cfg)
	}
	if err != nil {
		return nil, err
	}
	c.config.UserAgent = cfg.UserAgent
	tls := c.config.TLS
	switch {
	case (len(tls.CertData) > 0 || tls.CertFile != "") != (len(tls.KeyData) > 0 || tls.KeyFile != ""):
		return nil, errors.New("API server: a client certificate without key, or a key without certificate; want both")
	case c.server.Scheme != "https" && (c.config.HasTokenAuth() || c.config.HasCertAuth()):
		return nil, fmt.Errorf("API server %s: a token or certificate is only sent over https", c.server)
	}
	if _, err := c.transport(c.dial); err != nil {
		return nil, err
	}
	return c, nil
}

// inCluster returns the address and the credentials that the kubelet gives to each pod.
func inCluster(cfg Config) (*url.URL, transport.Config, error) {
	var address [2]string
	for i, name := range []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		if cfg.LookupEnv != nil {
			address[i], _ = cfg.LookupEnv(name)
		}
		if address[i] == "" {
			return nil, transport.Config{}, fmt.Errorf("API server: no variable %s: not in a pod; want --kubeconfig", name)
		}
	}
	dir := cfg.ServiceAccount
	if dir == "" {
		dir = "/var/run/secrets/kubernetes.io/serviceaccount"
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(address[0], address[1])}, transport.Config{
		BearerTokenFile: filepath.Join(dir, "token"),
		TLS:             transport.TLSConfig{CAFile: filepath.Join(dir, "ca.crt")},
	}, nil
}
