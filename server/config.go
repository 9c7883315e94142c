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

// Config holds a server's settings. They must be valid (package config checks the administrator's settings). Start from
// [Defaults].
type Config struct {
	KubeletDir  string // directory that contains kubelet.sock and the plugin's sockets
	HostDevRoot string // device node directory on the host
	HostSysRoot string // sysfs root on the host
	// CDI is the spec through which containers get their device nodes. If CDI is nil, the kubelet adds the nodes
	// instead. The server writes the spec but doesn't close it.
	CDI *cdi.Spec
	// ProgrammingHook contains the path of accelerator-fpga on the host, and additional arguments (if any) for its hook
	// command, which programs a container's devices before the container starts. If ProgrammingHook or CDI is nil,
	// devices aren't programmed.
	ProgrammingHook *cdi.Hook
	// Spread means that a container that requests several devices gets them from as many cards as possible. Otherwise,
	// it gets them from as few cards as possible.
	Spread bool

	RetireAfter     time.Duration // how long a resource stays registered when it has no devices
	RegisterTimeout time.Duration // time limit for connecting to the kubelet and receiving its answer
	StreamTimeout   time.Duration // time limit for the kubelet to open a stream after its answer
	BackoffMin      time.Duration // delay before the first attempt after a failure
	BackoffMax      time.Duration // maximum delay before later attempts
	PollInterval    time.Duration // time between checks of the kubelet's directory when there are no events

	// Injected records the nodes that a restarted container will get through CDI, if they differ from the nodes that
	// the container got from Allocate. It is called before the nodes are written to the spec. Injected may be nil.
	Injected func(ctx context.Context, nodes map[string][]string) error

	Allocations *holders.Allocations // the record of allocated devices
	// Ending returns the UIDs of pods that previously had one of the devices and still have processes. It may be nil.
	Ending     func(resource string, ids []string) (uids []string)
	EndTimeout time.Duration // how long Allocate waits for these pods to be gone

	Metrics *metrics.Metrics // required
}

// Defaults returns the settings for a real node.
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
		EndTimeout:      holders.Ends,
	}
}
