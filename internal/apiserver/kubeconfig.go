package apiserver

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// maxKubeconfig is the size of the largest kubeconfig that is read, in bytes.
const maxKubeconfig = 1 << 20

// kubeconfig is what we know of the file
// (https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/).
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Clusters []struct {
		Name    string
		Cluster cluster
	}
	Users []struct {
		Name string
		User user
	}
}

type cluster struct {
	Server        string
	TLSServerName string `yaml:"tls-server-name"`
	Insecure      bool   `yaml:"insecure-skip-tls-verify"`
	CA            string `yaml:"certificate-authority"`
	CAData        string `yaml:"certificate-authority-data"`
	Proxy         string `yaml:"proxy-url"`
}

type user struct {
	Token     string
	TokenFile string `yaml:"tokenFile"`
	Cert      string `yaml:"client-certificate"`
	CertData  string `yaml:"client-certificate-data"`
	Key       string `yaml:"client-key"`
	KeyData   string `yaml:"client-key-data"`

	// Not known to us, and not to be passed over in silence.
	Exec         any
	AuthProvider any `yaml:"auth-provider"`
	Username     string
	As           string
}

func readKubeconfig(cfg Config) (access, error) {
	data, err := readBounded(cfg.Kubeconfig, maxKubeconfig)
	if err != nil {
		return access{}, fmt.Errorf("kubeconfig: %w", err)
	}
	a, err := parseKubeconfig(data, filepath.Dir(cfg.Kubeconfig))
	if err != nil {
		return access{}, fmt.Errorf("kubeconfig %s: %w", cfg.Kubeconfig, err)
	}
	return a, nil
}

// parseKubeconfig reads the current context. Paths in the file are relative to
// dir.
func parseKubeconfig(data []byte, dir string) (access, error) {
	var file kubeconfig
	if err := yaml.Unmarshal(data, &file); err != nil {
		return access{}, fmt.Errorf("not a kubeconfig: %w", err)
	}
	c, u, err := file.current()
	if err != nil {
		return access{}, err
	}
	switch {
	case u.Exec != nil:
		return access{}, fmt.Errorf("user: exec is not supported; want token, tokenFile or client-certificate")
	case u.AuthProvider != nil:
		return access{}, fmt.Errorf("user: auth-provider is not supported; want token, tokenFile or client-certificate")
	case u.Username != "" || u.As != "":
		return access{}, fmt.Errorf("user: username and as are not supported; want token, tokenFile or client-certificate")
	case c.Proxy != "":
		return access{}, fmt.Errorf("cluster: proxy-url is not supported; want the variable HTTPS_PROXY")
	}
	server, err := url.Parse(c.Server)
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" || server.User != nil {
		return access{}, fmt.Errorf("cluster: server %q: want https://HOST:PORT", c.Server)
	}
	a := access{server: server, serverName: c.TLSServerName, insecure: c.Insecure}
	for _, part := range []struct {
		name, data, path string
		to               *secret
	}{
		{"certificate-authority", c.CAData, c.CA, &a.ca},
		{"client-certificate", u.CertData, u.Cert, &a.cert},
		{"client-key", u.KeyData, u.Key, &a.key},
	} {
		if *part.to, err = inlineOrFile(part.data, part.path, dir); err != nil {
			return access{}, fmt.Errorf("%s-data: %w", part.name, err)
		}
	}
	// As kubectl does: the file, which may be renewed, before the word.
	a.token, err = inlineOrFile("", u.TokenFile, dir)
	if u.TokenFile == "" && u.Token != "" {
		a.token = secret{data: []byte(u.Token)}
	}
	return a, err
}

// current is the cluster and the user that the current context names.
func (k kubeconfig) current() (cluster, user, error) {
	for _, context := range k.Contexts {
		if context.Name != k.CurrentContext {
			continue
		}
		for _, c := range k.Clusters {
			if c.Name != context.Context.Cluster {
				continue
			}
			for _, u := range k.Users {
				if u.Name == context.Context.User {
					return c.Cluster, u.User, nil
				}
			}
			return cluster{}, user{}, fmt.Errorf("context %q: no user %q", context.Name, context.Context.User)
		}
		return cluster{}, user{}, fmt.Errorf("context %q: no cluster %q", context.Name, context.Context.Cluster)
	}
	return cluster{}, user{}, fmt.Errorf("no context %q, which current-context names", k.CurrentContext)
}

// inlineOrFile is what stands in the file itself, in base64, or else in another.
func inlineOrFile(data, path, dir string) (secret, error) {
	if data != "" {
		decoded, err := base64.StdEncoding.DecodeString(data)
		return secret{data: decoded}, err
	}
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return secret{path: path}, nil
}
