package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"b-com.com/accelerator-device-plugin/server/peers"
)

// settle makes the paths absolute and checks what depends on that.
func (c *Config) settle() error {
	for _, path := range []struct {
		setting string
		p       *string
	}{
		{"sysfs-root", &c.SysfsRoot}, {"dev-root", &c.DevRoot},
		{"kubelet-dir", &c.KubeletDir}, {"pod-resources-socket", &c.PodResourcesSocket}, {"kubeconfig", &c.Kubeconfig},
	} {
		if *path.p == "" {
			continue // off
		}
		absolute, err := filepath.Abs(*path.p)
		if err != nil {
			return fmt.Errorf("%s %q: %w", path.setting, *path.p, err)
		}
		*path.p = absolute
	}
	// A namespace begins with a letter or a digit; as the vendor of CDI devices it may
	// not begin with a digit.
	if c.CDIDir != "" && c.ResourceNamespace < "a" {
		return fmt.Errorf("resource-namespace %q: CDI wants a letter at its beginning; name another one, or no cdi-dir", c.ResourceNamespace)
	}
	if c.ProgrammingHook != "" && c.CDIDir == "" {
		return fmt.Errorf("programming-hook %q without cdi-dir, want both: the container runtime finds the hook in the CDI spec", c.ProgrammingHook)
	}
	if len(c.ProgrammingHookArgs) > 0 && c.ProgrammingHook == "" {
		return fmt.Errorf("programming-hook-arg %q without programming-hook, want both", strings.Join(c.ProgrammingHookArgs, " "))
	}
	for _, arg := range c.ProgrammingHookArgs {
		if name, _, _ := strings.Cut(arg, "="); name == "--device" || name == "--afu" {
			return fmt.Errorf("programming-hook-arg %q, want flags that hold for all containers, such as --store", arg)
		}
	}
	if c.Events && c.NodeName == "" {
		return errors.New("events without node-name, want both: the name of this node at the API server")
	}
	if n := len(c.KubeletDir); n > peers.MaxDir {
		return fmt.Errorf("kubelet-dir %q: found a path of %d bytes, allowed are %d: sockets in it have no room for more", c.KubeletDir, n, peers.MaxDir)
	}
	if c.HostDevRoot == "" {
		c.HostDevRoot = c.DevRoot
	}
	return nil
}
