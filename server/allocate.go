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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server/checkpoint"
	"b-com.com/accelerator-device-plugin/server/offer"
)

// The variables that tell a container its devices: both hold the ids, separated
// by commas, in the order of the request.
const (
	envUnits   = "ACCELERATOR_UNITS"
	envDevices = checkpoint.EnvDevices
)

// Allocate gives each container its devices, or refuses them all. An error is
// final for the pod, and the kubelet sets no time limit: nothing in here waits, but
// for the disk, where CDI is on, for a second.
//
// Errors: InvalidArgument for a request that asks for nothing or twice for the
// same, NotFound for a device that is not known or gone, FailedPrecondition for
// one that is unhealthy, Unavailable when the CDI spec cannot be written.
func (p *plugin) Allocate(_ context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	var asked []string
	for _, c := range r.GetContainerRequests() {
		asked = append(asked, c.GetDevicesIds()...)
	}
	log := p.endpoint.log.With(event.Devices(shorten(asked)), event.Count(len(asked)))
	defer backlog.FlushOnPanic(log)
	newest, withdraw := p.endpoint.cfg.Allocations.add(p.endpoint.resource, asked, p.endpoint.lists)
	answer, err := p.allocate(newest, r.GetContainerRequests())
	if err != nil {
		withdraw()
		p.endpoint.cfg.Metrics.AllocateRefused(p.endpoint.resource)
		log.Warn("allocate refused", event.AllocateRefused, event.Reason(status.Convert(err).Message()))
		return nil, err
	}
	p.endpoint.cfg.Metrics.AllocateServed(p.endpoint.resource, len(asked))
	log.Info("allocate served", event.AllocateServed)
	return answer, nil
}

func (p *plugin) allocate(newest *list, requests []*v1beta1.ContainerAllocateRequest) (*v1beta1.AllocateResponse, error) {
	if len(requests) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no container asks for a device")
	}
	check := checker{newest: newest, gone: &p.endpoint.gone, seen: map[string]bool{}}
	given := make([][]offer.Unit, len(requests))
	for i, request := range requests {
		given[i] = check.units(request.GetDevicesIds())
	}
	if err := check.err(); err != nil {
		return nil, err
	}
	answer := &v1beta1.AllocateResponse{}
	for i, request := range requests {
		c, err := p.give(request.GetDevicesIds(), given[i])
		if err != nil {
			return nil, err
		}
		answer.ContainerResponses = append(answer.ContainerResponses, c)
	}
	return answer, nil
}

// give is what a container gets with its units.
func (p *plugin) give(ids []string, units []offer.Unit) (*v1beta1.ContainerAllocateResponse, error) {
	joined := strings.Join(ids, ",")
	answer := &v1beta1.ContainerAllocateResponse{
		Envs:        map[string]string{envUnits: joined, envDevices: joined},
		Annotations: map[string]string{},
	}
	maps.Copy(answer.Annotations, p.endpoint.cfg.Annotations)
	for _, u := range units {
		checkpoint.Annotate(answer.Annotations, u.ID, slices.Concat(u.Nodes, u.NodeNumbers))
	}
	if p.endpoint.injection != nil {
		names, err := p.endpoint.injection.names(units)
		if err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
		for _, name := range names {
			answer.CdiDevices = append(answer.CdiDevices, &v1beta1.CDIDevice{Name: name})
		}
		return answer, nil
	}
	for _, u := range units {
		for _, node := range u.Nodes {
			answer.Devices = append(answer.Devices, &v1beta1.DeviceSpec{
				HostPath:      filepath.Join(p.endpoint.cfg.HostDevRoot, node),
				ContainerPath: path.Join("/dev", node),
				Permissions:   "rw",
			})
		}
	}
	return answer, nil
}

// checker checks the ids of one Allocate call against the newest list and
// collects what is wrong with them.
type checker struct {
	newest *list
	gone   *gone
	seen   map[string]bool

	empty                           bool
	twice, unknown, left, unhealthy []string // each with what the kubelet is told
}

// units returns the units with these ids that may be given.
func (c *checker) units(ids []string) []offer.Unit {
	c.empty = c.empty || len(ids) == 0
	var units []offer.Unit
	for _, id := range ids {
		u, ok := c.newest.unit(id)
		switch {
		case c.seen[id]:
			c.twice = append(c.twice, id)
		case !ok && c.gone.has(id):
			c.left = append(c.left, id)
		case !ok:
			c.unknown = append(c.unknown, id)
		case u.Health >= inventory.Unhealthy:
			c.unhealthy = append(c.unhealthy, id)
		default:
			units = append(units, u)
		}
		c.seen[id] = true
	}
	return units
}

// err returns a status with all that is wrong, nil if nothing is. Its code is
// that of the gravest, its length bounded whatever was asked.
func (c *checker) err() error {
	code, problems := codes.OK, []string(nil)
	add := func(as codes.Code, ids []string, what string) {
		if len(ids) == 0 {
			return
		}
		if code == codes.OK {
			code = as
		}
		problems = append(problems, what+": "+strings.Join(c.describe(ids), ", "))
	}
	if c.empty {
		code, problems = codes.InvalidArgument, []string{"a container asks for no device"}
	}
	add(codes.InvalidArgument, c.twice, "asked for twice")
	add(codes.NotFound, c.unknown, "not known")
	add(codes.NotFound, c.left, "gone")
	add(codes.FailedPrecondition, c.unhealthy, "unhealthy")
	return status.Error(code, strings.Join(problems, "; "))
}

// describe names the ids, the unhealthy ones with their reasons.
func (c *checker) describe(ids []string) []string {
	return bounded(ids, func(id string) string {
		u, ok := c.newest.unit(id)
		if !ok || u.Health < inventory.Unhealthy || len(u.Reasons) == 0 {
			return strconv.Quote(cut(id))
		}
		return fmt.Sprintf("%q (%s)", cut(id), strings.Join(shorten(u.Reasons), ", "))
	})
}

const (
	maxNamed = 8   // so many of a long list are named
	maxID    = 100 // so many bytes of a long id are shown; the kubelet allows 63
)

// shorten bounds a list for logs: the first few, each cut where it is too long,
// and how many more there are.
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
