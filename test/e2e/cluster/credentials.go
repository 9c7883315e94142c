package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Credentials selects the credentials that pods and the API server use to authenticate each other. Each value is a step
// in a rotation.
type Credentials int

// The steps of a rotation, in order.
const (
	// FirstCredentials are a new cluster's credentials.
	FirstCredentials Credentials = iota

	// With BothCredentials, pods receive both CAs, and tokens signed with the next key. The API server still serves the
	// first certificate, and accepts tokens signed with either key.
	BothCredentials

	// With NextCredentials, the API server serves a certificate from the next CA, and accepts only tokens signed with
	// the next key.
	NextCredentials
)

// files maps each file pki/now-NAME to the files below pki that it is made from.
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

// write writes the files pki/now-NAME.
func (c Credentials) write(pki string) error {
	for name, from := range c.files() {
		if err := concatenate(pki, "now-"+name, from...); err != nil {
			return err
		}
	}
	return nil
}

// UseCredentials restarts the API server, the controller manager, the scheduler and the kubelet with these credentials,
// and waits until the node is ready. The kubelet has to be restarted to make it request new tokens, because it caches
// tokens in memory. The scheduler would reconnect by itself, but that can take up to a minute.
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
	err = c.await(ctx, "CA for pods", func(ctx context.Context) error { // otherwise, it may take the kubelet a minute to write the new CA
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
