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

// Config says which API server and account to use.
type Config struct {
	// Kubeconfig is the path to a kubeconfig file, whose current context is used. If it is empty, the pod's service
	// account is used.
	Kubeconfig string

	// ServiceAccount is the directory that contains the service account's token and ca.crt. If it is empty, the
	// directory where the kubelet puts them is used.
	ServiceAccount string

	// LookupEnv is [os.LookupEnv]. Without a Kubeconfig, it is used to get the API server's address from the variables
	// that the kubelet sets in each pod.
	LookupEnv func(string) (string, bool)

	// UserAgent is the value of the User-Agent header. It appears in the API server's audit log.
	UserAgent string

	// Dial opens a connection. If it is nil, connections are made over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Failed, if not nil, is called for each request that has failed and will be retried. It must be safe for
	// concurrent use.
	Failed func()
}

// Client holds the API server's address and the credentials. Create it with [Open].
type Client struct {
	server *url.URL
	config transport.Config // as read; transport.New gets a copy, because it fills in the files' content
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	log    *zap.Logger
	failed func()
}

// Open returns a client. It reads the files that cfg refers to, so that any errors in them are found at startup, but it
// doesn't connect.
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
		return nil, errors.New("API server: client certificate: found only one of certificate and key, want both")
	case c.server.Scheme != "https" && (c.config.HasTokenAuth() || c.config.HasCertAuth()):
		return nil, fmt.Errorf("API server: found %s with a token or certificate, want https", c.server)
	}
	if _, err := c.transport(c.dial); err != nil {
		return nil, err
	}
	return c, nil
}

// inCluster returns the address and credentials that the kubelet gives to each pod.
func inCluster(cfg Config) (*url.URL, transport.Config, error) {
	var address [2]string
	for i, name := range []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		if cfg.LookupEnv != nil {
			address[i], _ = cfg.LookupEnv(name)
		}
		if address[i] == "" {
			return nil, transport.Config{}, fmt.Errorf("API server: variable %s: found none, want --kubeconfig outside of a pod", name)
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
