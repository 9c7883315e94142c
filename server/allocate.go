package server

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
)

// Two environment variables with the same value: the ids of a container's devices, separated by commas, in the order of
// the request.
const (
	envUnits   = "ACCELERATOR_UNITS"
	envDevices = "ACCELERATOR_DEVICES"
)

// annotationHook is the annotation by which Intel's programming hook recognizes its containers. It doesn't depend on
// the resource namespace, because it is hard-coded in the hook.
const annotationHook = "com.intel.fpga.mode"

// Allocate gives each container its devices, or rejects the whole request. If it returns an error, the pod fails for
// good. The kubelet sets no time limit for the call. Allocate blocks for up to [Config.EndTimeout] while a
// force-deleted pod that had one of the devices still has processes. With CDI, it also blocks for up to two seconds if
// nodes have to be recorded ([Config.Injected]), and then for up to a second to write the spec.
//
// The status code is InvalidArgument if a request contains no device ids or the same id twice, NotFound if a device
// isn't listed (any more), FailedPrecondition if a device is unhealthy or its previous pod still has processes, and
// Unavailable if the CDI spec can't be written.
func (p *plugin) Allocate(ctx context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	var requested []string
	for _, c := range r.GetContainerRequests() {
		requested = append(requested, c.GetDevicesIds()...)
	}
	e := p.endpoint
	cfg, log := e.server.cfg, e.log.With(logevent.Devices(shorten(requested)), logevent.Count(len(requested)))
	defer backlog.FlushOnPanic(log)
	var waited time.Duration
	var device func(id string) *inventory.Device
	var undo func()
	err := e.check(e.newest(), r.GetContainerRequests()) // don't wait for devices that can't be allocated
	if err == nil {
		waited, err = e.previousEnded(ctx, requested)
	}
	if err == nil {
		device, undo, err = e.record(requested, r.GetContainerRequests())
	}
	answer := &v1beta1.AllocateResponse{}
	if err == nil {
		for _, request := range r.GetContainerRequests() {
			var c *v1beta1.ContainerAllocateResponse
			if c, err = e.respond(ctx, device, request.GetDevicesIds()); err != nil {
				undo()
				break
			}
			answer.ContainerResponses = append(answer.ContainerResponses, c)
		}
	}
	if err != nil {
		cfg.Metrics.AllocateRefused(e.resource)
		log.Warn("allocate refused", logevent.AllocateRefused, logevent.Reason(status.Convert(err).Message()))
		return nil, err
	}
	cfg.Metrics.AllocateServed(e.resource, len(requested))
	if waited > 0 {
		log = log.With(logevent.Lasted(waited))
	}
	log.Info("allocate served", logevent.AllocateServed)
	return answer, nil
}

// record checks the requests and records that the devices with these ids are being allocated. It returns a function
// that looks up these devices, and a function that reverts what record has done.
func (e *endpoint) record(ids []string, requests []*v1beta1.ContainerAllocateRequest) (device func(id string) *inventory.Device, undo func(), err error) {
	undo, err = e.server.cfg.Allocations.Add(e.resource, func() (map[string][]string, error) {
		device = e.newest()
		if err := e.check(device, requests); err != nil {
			return nil, err
		}
		nodes := map[string][]string{}
		for _, id := range ids {
			d := device(id)
			nodes[id] = slices.Concat(d.Nodes, d.NodeNumbers)
		}
		return nodes, nil
	})
	return device, undo, err
}

// endsAgain is the interval for rechecking whether force-deleted pods still have processes.
const endsAgain = 100 * time.Millisecond

// previousEnded waits until the pods that previously had these devices have no processes left, and returns how long
// that took. When a pod is force-deleted, the kubelet immediately allocates its devices again, but takes seconds to
// stop its containers. If the daemon exits in the meantime, the request fails.
func (e *endpoint) previousEnded(ctx context.Context, ids []string) (time.Duration, error) {
	cfg, began := e.server.cfg, time.Now()
	for waited := time.Duration(0); cfg.Ending != nil; waited = time.Since(began) {
		pods := cfg.Ending(e.resource, ids)
		switch {
		case len(pods) == 0:
			return waited, nil
		case waited >= cfg.EndTimeout:
			return 0, status.Errorf(codes.FailedPrecondition, "a deleted pod that had one of the devices still has processes (pod UID %s)", strings.Join(shorten(pods), ", "))
		}
		if waited == 0 {
			cfg.Allocations.Ask()
		}
		select {
		case <-ctx.Done():
			return 0, status.FromContextError(ctx.Err()).Err()
		case <-time.After(endsAgain):
		}
	}
	return 0, nil
}

// respond returns the response for a container that gets these devices, all of which must be listed.
func (e *endpoint) respond(ctx context.Context, device func(id string) *inventory.Device, ids []string) (*v1beta1.ContainerAllocateResponse, error) {
	joined := strings.Join(ids, ",")
	answer := &v1beta1.ContainerAllocateResponse{
		Envs:        map[string]string{envUnits: joined, envDevices: joined},
		Annotations: map[string]string{},
	}
	devices := make([]*inventory.Device, len(ids))
	for i, id := range ids {
		d := device(id)
		devices[i] = d
		if d.ProgramAtStart {
			answer.Annotations[annotationHook] = "fpga.intel.com/region"
		}
		// Don't record shared nodes, because a shared node must never be a reason to withhold a device.
		if len(d.Nodes) > 0 || len(d.Mounts) > 0 {
			checkpoint.Annotate(answer.Annotations, d.ID, slices.Concat(d.Nodes, d.NodeNumbers))
		}
	}
	maps.Copy(answer.Envs, addresses(e.resource, devices))
	if e.server.injection != nil {
		names, err := e.server.injection.names(ctx, devices)
		if err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
		for _, name := range names {
			answer.CdiDevices = append(answer.CdiDevices, &v1beta1.CDIDevice{Name: name})
		}
		return answer, nil
	}
	var own, shared []string
	for _, d := range devices {
		for _, file := range d.MountsOf(e.server.cfg.HostSysRoot) {
			answer.Mounts = append(answer.Mounts, &v1beta1.Mount{HostPath: file, ContainerPath: file})
		}
		if len(d.Nodes) == 0 {
			continue // shared nodes are useless without the device's own nodes
		}
		own = append(own, d.Nodes...)
		for _, node := range d.SharedNodes {
			if !slices.Contains(shared, node) {
				shared = append(shared, node)
			}
		}
	}
	for _, node := range append(own, shared...) {
		answer.Devices = append(answer.Devices, &v1beta1.DeviceSpec{
			HostPath:      filepath.Join(e.server.cfg.HostDevRoot, node),
			ContainerPath: path.Join("/dev", node),
			Permissions:   "rw",
		})
	}
	return answer, nil
}

// addresses returns the environment variables listed in [inventory.Device.AddressEnv] for a resource's devices. Each
// contains one PCI address per device, in the order of devices.
func addresses(resource string, devices []*inventory.Device) map[string]string {
	all := map[string][]string{}
	for _, d := range devices {
		for _, name := range d.AddressEnv {
			for _, name := range completed(name, resource) {
				all[name] = append(all[name], d.PCIAddress)
			}
		}
	}
	envs := map[string]string{}
	for name, addresses := range all {
		envs[name] = strings.Join(addresses, ",")
	}
	return envs
}

// completed returns the environment variables to set for a name from [inventory.Device.AddressEnv].
//
// If a name ends in _, the resource name is appended, in upper case and with dots and slashes replaced by _. This is
// how sriov-network-device-plugin (GetEnvs in pkg/resources/pool_stub.go) and KubeVirt (ResourceNameToEnvVar in
// pkg/util) do it. Both keep dashes, and virt-launcher doesn't look for any other name. But shells can't use a variable
// whose name contains dashes, and some don't pass it on, so completed also returns the name with dashes replaced by _.
func completed(name, resource string) []string {
	if !strings.HasSuffix(name, "_") {
		return []string{name}
	}
	name += strings.ToUpper(strings.NewReplacer("/", "_", ".", "_").Replace(resource))
	if plain := strings.ReplaceAll(name, "-", "_"); plain != name {
		return []string{name, plain}
	}
	return []string{name}
}

// newest returns a function that looks up devices on the newest list and returns their current state in the inventory.
// The list alone may be out of date: the inventory withholds a device before it asks for the device's holders, but the
// conductor may not have published that yet, because it is waiting for the kubelet to read another list.
func (e *endpoint) newest() func(id string) *inventory.Device {
	listed, _ := e.lists.Load()
	snapshot, _ := e.server.devices.Latest()
	return func(id string) *inventory.Device {
		d := listed.Device(id)
		if d == nil || snapshot.Version <= listed.Version {
			return d
		}
		if d = snapshot.Device(id); d == nil || d.OfferedAs != e.resource {
			return nil
		}
		return d
	}
}

// check returns a status that lists all problems with the requests, or nil if there are none. The status has the worst
// problem's code and is limited in length.
func (e *endpoint) check(device func(id string) *inventory.Device, requests []*v1beta1.ContainerAllocateRequest) error {
	if len(requests) == 0 {
		return status.Error(codes.InvalidArgument, "no container requests a device")
	}
	var empty bool
	var twice, absent, sick []string
	seen := map[string]bool{}
	for _, request := range requests {
		empty = empty || len(request.GetDevicesIds()) == 0
		for _, id := range request.GetDevicesIds() {
			d := device(id)
			switch {
			case seen[id]:
				twice = append(twice, id)
			case d == nil:
				absent = append(absent, id)
			case unhealthy(d):
				sick = append(sick, id)
			}
			seen[id] = true
		}
	}
	code, problems := codes.OK, []string(nil)
	if empty {
		code, problems = codes.InvalidArgument, []string{"a container requests no device"}
	}
	add := func(as codes.Code, problem string, ids []string) {
		if len(ids) == 0 {
			return
		}
		if code == codes.OK {
			code = as
		}
		named := bounded(ids, func(id string) string {
			d := device(id)
			if d == nil || !unhealthy(d) || len(d.Reasons) == 0 {
				return strconv.Quote(cut(id))
			}
			return fmt.Sprintf("%q (%s)", cut(id), strings.Join(shorten(d.Reasons), ", "))
		})
		problems = append(problems, problem+": "+strings.Join(named, ", "))
	}
	add(codes.InvalidArgument, "requested twice", twice)
	add(codes.NotFound, "not listed", absent)
	add(codes.FailedPrecondition, "unhealthy", sick)
	return status.Error(code, strings.Join(problems, "; "))
}

const (
	maxNamed = 8   // maximum number of ids listed in a log line or an error
	maxID    = 100 // maximum length of each id in bytes; the kubelet allows 63
)

// shorten limits a list for logs and errors. It returns the first maxNamed ids, each truncated to maxID bytes, followed
// by the number of remaining ids.
func shorten(ids []string) []string { return bounded(ids, cut) }

func bounded(ids []string, name func(string) string) []string {
	var named []string
	for _, id := range ids[:min(len(ids), maxNamed)] {
		named = append(named, name(id))
	}
	if more := len(ids) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return named
}

func cut(id string) string {
	if len(id) <= maxID {
		return id
	}
	return strings.ToValidUTF8(id[:maxID], "") + "…"
}
