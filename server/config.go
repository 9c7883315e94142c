package server

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/server/cdi"
	"b-com.com/accelerator-device-plugin/server/prefer"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Config holds the settings of a server. Start from [Defaults].
type Config struct {
	KubeletDir  string // directory of kubelet.sock and of our sockets
	HostDevRoot string // directory of the device nodes on the host
	// CDI is the spec by which containers get their nodes. If it is nil, they get them from
	// the kubelet. The server writes it and does not close it.
	CDI *cdi.Spec
	// ProgrammingHook is the program accelerator-fpga on the host and further arguments of its
	// command hook, which programs the devices of a container before it starts. If it or CDI
	// is nil, devices are not programmed.
	ProgrammingHook *cdi.Hook
	// AllocationPolicy chooses the devices for a container that asks for several.
	AllocationPolicy prefer.Policy

	RetireAfter     time.Duration // how long a resource without devices stays registered
	RegisterTimeout time.Duration // for connecting to the kubelet, and for its answer
	StreamTimeout   time.Duration // from the answer to the first stream
	BackoffMin      time.Duration // before the first repetition after a failure
	BackoffMax      time.Duration // between later ones
	PollInterval    time.Duration // between two checks of the kubelet's directory without an event

	Allocations *Allocations // the record of the devices that are given out

	Metrics *metrics.Metrics // required
}

// AllocationGrace is how long an allocation counts if the kubelet names no holder for it.
const AllocationGrace = time.Minute

// Defaults returns the settings of a real node.
func Defaults() Config {
	return Config{
		KubeletDir:      filepath.Clean(v1beta1.DevicePluginPath),
		HostDevRoot:     "/dev",
		RetireAfter:     5 * time.Minute,
		RegisterTimeout: 10 * time.Second,
		StreamTimeout:   30 * time.Second,
		BackoffMin:      100 * time.Millisecond,
		BackoffMax:      30 * time.Second,
		PollInterval:    5 * time.Second,
		Allocations:     NewAllocations(AllocationGrace),

		AllocationPolicy: prefer.Packed,
	}
}

// validate returns an error with the first wrong setting, its value and the allowed values.
func (c Config) validate() error {
	if !slices.Contains(prefer.Policies(), string(c.AllocationPolicy)) {
		return fmt.Errorf("allocation policy %q is not one of %s", c.AllocationPolicy, strings.Join(prefer.Policies(), ", "))
	}
	for _, path := range []struct{ name, value string }{
		{"kubelet directory", c.KubeletDir}, {"host device root", c.HostDevRoot},
	} {
		if !filepath.IsAbs(path.value) {
			return fmt.Errorf("%s %q is not an absolute path", path.name, path.value)
		}
	}
	if n := len(newSocketPath(c.KubeletDir, newSocketOwner())); n > maxSocketPath {
		return fmt.Errorf("kubelet directory %q: the path of a socket in it has %d bytes, a unix socket allows %d", c.KubeletDir, n, maxSocketPath)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"retire time", c.RetireAfter}, {"register timeout", c.RegisterTimeout}, {"stream timeout", c.StreamTimeout},
		{"shortest backoff", c.BackoffMin}, {"longest backoff", c.BackoffMax}, {"poll interval", c.PollInterval},
	} {
		if d.value <= 0 {
			return fmt.Errorf("%s %v is not above 0s", d.name, d.value)
		}
	}
	return nil
}
