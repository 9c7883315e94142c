package apiserver

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/transport"
)

// kubeconfig holds the fields of a kubeconfig file that are either supported or rejected
// (https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/). The clientcmd package would read all fields, but it
// pulls in the typed clients.
type kubeconfig struct {
	CurrentContext            string `yaml:"current-context"`
	Contexts, Clusters, Users []entry
}

// entry is an element of Contexts, Clusters or Users. Only one of Context, Cluster and User is set.
type entry struct {
	Name    string
	Context struct{ Cluster, User string }
	Cluster struct {
		Server     string
		ServerName string `yaml:"tls-server-name"`
		Insecure   bool   `yaml:"insecure-skip-tls-verify"`
		CA         string `yaml:"certificate-authority"`
		CAData     string `yaml:"certificate-authority-data"`
		Proxy      string `yaml:"proxy-url"`
	}
	User struct {
		Token        string
		TokenFile    string `yaml:"tokenFile"`
		Cert         string `yaml:"client-certificate"`
		CertData     string `yaml:"client-certificate-data"`
		Key          string `yaml:"client-key"`
		KeyData      string `yaml:"client-key-data"`
		Exec         any
		AuthProvider any `yaml:"auth-provider"`
		Username     string
		As           string
	}
}

func readKubeconfig(path string) (*url.URL, transport.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, transport.Config{}, fmt.Errorf("kubeconfig: %w", err)
	}
	server, config, err := parseKubeconfig(data, filepath.Dir(path))
	if err != nil {
		err = fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return server, config, err
}

// parseKubeconfig returns the current context's settings. Paths in the file are relative to dir. As with kubectl,
// inline data takes precedence over a path, and a token file over a token.
func parseKubeconfig(data []byte, dir string) (server *url.URL, config transport.Config, err error) {
	var file kubeconfig
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, config, fmt.Errorf("not a kubeconfig: %w", err)
	}
	context, err := find(file.Contexts, file.CurrentContext, "contexts")
	if err != nil {
		return nil, config, fmt.Errorf("current-context: %w", err)
	}
	cluster, err := find(file.Clusters, context.Context.Cluster, "clusters")
	if err != nil {
		return nil, config, fmt.Errorf("context %q: cluster: %w", context.Name, err)
	}
	user, err := find(file.Users, context.Context.User, "users")
	if err != nil {
		return nil, config, fmt.Errorf("context %q: user: %w", context.Name, err)
	}
	c, u := cluster.Cluster, user.User
	const credentials = "token, tokenFile or client-certificate"
	for _, field := range []struct {
		name string
		set  bool
		want string
	}{
		{"user: exec", u.Exec != nil, credentials},
		{"user: auth-provider", u.AuthProvider != nil, credentials},
		{"user: username", u.Username != "", credentials},
		{"user: as", u.As != "", credentials},
		{"cluster: proxy-url", c.Proxy != "", "the variable HTTPS_PROXY"},
	} {
		if field.set {
			return nil, config, fmt.Errorf("%s: not supported, want %s", field.name, field.want)
		}
	}
	server, err = url.Parse(c.Server)
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" || server.User != nil {
		return nil, config, fmt.Errorf("cluster: server: found %q, want https://HOST:PORT", c.Server)
	}
	config.BearerToken = u.Token
	tls := &config.TLS
	tls.ServerName, tls.Insecure = c.ServerName, c.Insecure
	for _, field := range []struct {
		from string
		to   *string
	}{{c.CA, &tls.CAFile}, {u.Cert, &tls.CertFile}, {u.Key, &tls.KeyFile}, {u.TokenFile, &config.BearerTokenFile}} {
		if *field.to = field.from; field.from != "" && !filepath.IsAbs(field.from) {
			*field.to = filepath.Join(dir, field.from)
		}
	}
	for _, field := range []struct {
		name, from string
		to         *[]byte
	}{
		{"cluster: certificate-authority-data", c.CAData, &tls.CAData},
		{"user: client-certificate-data", u.CertData, &tls.CertData},
		{"user: client-key-data", u.KeyData, &tls.KeyData},
	} {
		if *field.to, err = base64.StdEncoding.DecodeString(field.from); err != nil {
			return nil, config, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	return server, config, nil
}

// find returns the entry with the given name. list is the name of the list that contains the entries, for use in
// errors.
func find(entries []entry, name, list string) (entry, error) {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.Name == name })
	if i < 0 {
		return entry{}, fmt.Errorf("found %q, want the name of one of %s", name, list)
	}
	return entries[i], nil
}
