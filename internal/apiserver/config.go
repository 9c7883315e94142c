package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"

	"go.uber.org/zap"
)

// Config says which API server, and who we are.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file; its current context is used.
	// Empty: the service account of the pod that we run in.
	Kubeconfig string

	// ServiceAccount is the directory with the token and ca.crt of the service
	// account. Empty: where the kubelet puts it.
	ServiceAccount string

	// LookupEnv is [os.LookupEnv]: the kubelet tells a pod by variables where the
	// API server is. Not asked when there is a Kubeconfig.
	LookupEnv func(string) (string, bool)

	// UserAgent is how we appear in the server's audit log.
	UserAgent string

	// Dial connects; nil: over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Failed is called for each request that failed and is made again, from several
	// goroutines; may be nil.
	Failed func()
}

// serviceAccount is where the kubelet puts a pod's token and CA.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Open reads the files that the configuration names, so that what is wrong with
// them is said now. It makes no connection.
func Open(cfg Config, log *zap.Logger) (*Client, error) {
	read := inCluster
	if cfg.Kubeconfig != "" {
		read = readKubeconfig
	}
	access, err := read(cfg)
	if err != nil {
		return nil, err
	}
	if err := access.check(); err != nil {
		return nil, err
	}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: requestWithin}).DialContext
	}
	return &Client{access: access, agent: cfg.UserAgent, failed: cfg.Failed, log: log.Named("apiserver"), dial: dial}, nil
}

// inCluster is what the kubelet gives to every pod.
func inCluster(cfg Config) (access, error) {
	var address [2]string
	for i, name := range []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		if cfg.LookupEnv != nil {
			address[i], _ = cfg.LookupEnv(name)
		}
		if address[i] == "" {
			return access{}, fmt.Errorf("API server: no variable %s: not in a pod; want --kubeconfig", name)
		}
	}
	dir := cfg.ServiceAccount
	if dir == "" {
		dir = serviceAccount
	}
	return access{
		server: &url.URL{Scheme: "https", Host: net.JoinHostPort(address[0], address[1])},
		ca:     secret{path: filepath.Join(dir, "ca.crt")},
		token:  secret{path: filepath.Join(dir, "token")},
	}, nil
}

// access is where the API server is and what it takes to be let in.
type access struct {
	server     *url.URL
	serverName string // that its certificate must have; "": the host
	insecure   bool   // its certificate is not checked
	ca         secret // PEM; not given: the system's
	token      secret
	cert, key  secret // PEM
}

// check reads everything once.
func (a access) check() error {
	if a.cert.given() != a.key.given() {
		return errors.New("API server: a client certificate without key, or a key without certificate; want both")
	}
	if a.insecure && a.ca.given() {
		return errors.New("API server: insecure-skip-tls-verify beside a CA; want one of them")
	}
	if a.server.Scheme != "https" && (a.token.given() || a.cert.given()) {
		return fmt.Errorf("API server %s: a token or certificate is only sent over https", a.server)
	}
	material, err := a.material()
	if err != nil {
		return err
	}
	if _, err := a.tlsConfig(material); err != nil {
		return err
	}
	_, err = a.bearer()
	return err
}
