package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Credentials is a state of the credentials by which pods and the API server authenticate each other.
type Credentials int

// The steps of a rotation, in their order.
const (
	// FirstCredentials are those with which a cluster starts.
	FirstCredentials Credentials = iota

	// BothCredentials is the state in which pods get both CAs, and tokens that the next key has
	// signed. The API server has the first certificate, and accepts tokens of both keys.
	BothCredentials

	// NextCredentials is the state in which the API server has a certificate of the next CA, and
	// accepts only tokens of the next key.
	NextCredentials
)

// files returns the contents of the files pki/now-NAME, as files below pki.
func (c Credentials) files() map[string][]string {
	files := map[string][]string{
		"apiserver.crt": {"apiserver.crt"},
		"apiserver.key": {"apiserver.key"},
		"ca.crt":        {"ca.crt"},
		"sa.pub":        {"sa.pub"},
		"sa.key":        {"sa.key"},
	}
	if c >= BothCredentials {
		files["ca.crt"] = []string{"ca.crt", "next/ca.crt"}
		files["sa.pub"] = []string{"sa.pub", "next/sa.pub"}
		files["sa.key"] = []string{"next/sa.key"}
	}
	if c == NextCredentials {
		files["apiserver.crt"] = []string{"next/apiserver.crt"}
		files["apiserver.key"] = []string{"next/apiserver.key"}
		files["sa.pub"] = []string{"next/sa.pub"}
	}
	return files
}

// write writes the files of the state.
func (c Credentials) write(pki string) error {
	for name, from := range c.files() {
		if err := concatenate(pki, "now-"+name, from...); err != nil {
			return err
		}
	}
	return nil
}

// UseCredentials restarts the API server, the controller manager, the scheduler and the kubelet with
// these credentials. The kubelet keeps tokens in memory only, so it requests new ones. The scheduler
// would reconnect by itself, but up to a minute later. UseCredentials returns when the node is ready.
func (c *Cluster) UseCredentials(ctx context.Context, credentials Credentials) error {
	for _, name := range []string{"kubelet", "kube-scheduler", "kube-controller-manager", "kube-apiserver"} {
		if err := c.stop(name); err != nil {
			return err
		}
	}
	if err := credentials.write(dir("pki")); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	if err := c.start("kube-apiserver"); err != nil {
		return err
	}
	if err := c.await(ctx, "API server", c.apiServerReady); err != nil {
		return err
	}
	if err := c.start("kube-controller-manager", "kube-scheduler"); err != nil {
		return err
	}
	want, err := os.ReadFile(dir("pki", "now-ca.crt"))
	if err != nil {
		return err
	}
	err = c.await(ctx, "CA for pods", func(ctx context.Context) error { // otherwise the kubelet writes the new CA up to a minute later
		config, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		if err == nil && config.Data["ca.crt"] != string(want) {
			err = errors.New("ConfigMap kube-root-ca.crt is not up to date")
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := c.start("kubelet"); err != nil {
		return err
	}
	return c.await(ctx, "node", c.nodeReady)
}
