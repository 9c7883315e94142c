package server

import (
	"context"
	"path/filepath"
	"time"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Config holds the settings of a server. They must be valid: package config checks the administrator's settings. Start
// from [Defaults].
type Config struct {
	KubeletDir  string // directory of kubelet.sock and of the plugin's sockets
	HostDevRoot string // directory of the device nodes on the host
	HostSysRoot string // root of sysfs on the host
	// CDI is the spec from which containers get their nodes. If it is nil, they get them from
	// the kubelet. The server writes it and does not close it.
	CDI *cdi.Spec
	// ProgrammingHook is the path of accelerator-fpga on the host, and additional arguments for its command hook. The
	// hook programs the devices of a container before the container starts. If ProgrammingHook or CDI is nil, devices
	// are not programmed.
	ProgrammingHook *cdi.Hook
	// Spread spreads the devices of a container that asks for several over many cards; otherwise they are packed on few
	// cards.
	Spread bool

	RetireAfter     time.Duration // how long a resource without devices stays registered
	RegisterTimeout time.Duration // limit for connecting to the kubelet, and for its answer
	StreamTimeout   time.Duration // limit from the answer to the first stream
	BackoffMin      time.Duration // wait before the first attempt after a failure
	BackoffMax      time.Duration // longest wait before later attempts
	PollInterval    time.Duration // between two checks of the kubelet's directory without an event

	// Injected records the nodes that a container will get through CDI when it is started again, if they are not the
	// ones that Allocate gave it. It is called before the nodes are written to the spec. nil: not used.
	Injected func(ctx context.Context, nodes map[string][]string) error

	Allocations *holders.Allocations // the record of the devices that are given out

	Metrics *metrics.Metrics // required
}

// Defaults returns the settings of a real node.
func Defaults() Config {
	return Config{
		KubeletDir:      filepath.Clean(v1beta1.DevicePluginPath),
		HostDevRoot:     "/dev",
		HostSysRoot:     "/sys",
		RetireAfter:     5 * time.Minute,
		RegisterTimeout: 10 * time.Second,
		StreamTimeout:   30 * time.Second,
		BackoffMin:      100 * time.Millisecond,
		BackoffMax:      30 * time.Second,
		PollInterval:    5 * time.Second,
		Allocations:     holders.NewAllocations(),
	}
}
