package server

import (
	"context"
	"runtime"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server/prefer"
)

// plugin answers the kubelet's calls on one session's socket.
type plugin struct {
	v1beta1.UnimplementedDevicePluginServer
	endpoint *endpoint
	session  *session
}

// GetDevicePluginOptions returns the plugin's options. The kubelet makes this call before it answers Register.
func (p *plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return options(), nil
}

// options returns the options that tell the kubelet which optional calls it can make. We send them with the
// registration and whenever the kubelet asks for them.
func options() *v1beta1.DevicePluginOptions {
	return &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// ListAndWatch sends the current list, and then the newest list after each visible change, until the kubelet or the
// session ends the stream.
func (p *plugin) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	e, opened := p.endpoint, time.Now()
	defer backlog.FlushOnPanic(e.log)
	p.session.streams.Update(func(s streams) streams { return streams{s.opened + 1, s.open + 1} })
	e.server.cfg.Metrics.StreamOpened(e.resource)
	e.log.Info("stream opened", logevent.StreamOpened)
	why := "ended by the kubelet"
	defer func() {
		p.session.streams.Update(func(s streams) streams { return streams{s.opened, s.open - 1} })
		e.log.Info("stream closed", logevent.StreamClosed, logevent.Lasted(time.Since(opened)), logevent.Reason(why))
	}()

	var sent []*inventory.Device
	refreshed, refresh := false, e.server.refresh.Next()
	for first := true; ; first = false {
		newest, stale := e.lists.Load()
		changes := inventory.Changes(sent, newest.Devices)
		changed := first || slices.ContainsFunc(changes, visible)
		if changed || refreshed {
			if err := stream.Send(newest.message); err != nil {
				return err
			}
		}
		if changed {
			e.logSent(newest, changes, first)
		}
		refreshed = false
		sent = newest.Devices
		e.sent.Store(newest)
		select {
		case <-p.session.ending:
			why = logevent.EndedByUs
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-stale:
		case <-refresh:
			refreshed, refresh = true, e.server.refresh.Next()
		}
	}
}

// logSent counts and logs a list that was sent. changes contains the changes since the stream's previous list, or all
// devices if this is the first list.
func (e *endpoint) logSent(l *list, changes []inventory.Change, first bool) {
	latency, known := l.latency()
	// Yield first, so that grpc writes the list and the inventory logs its changes before we log ours. Inventory.report
	// has measurements.
	runtime.Gosched()
	e.server.cfg.Metrics.ListSent(e.resource, latency, known)
	line := e.log.Check(zap.InfoLevel, "list sent")
	if line == nil {
		return
	}
	var devices, sick, left []string
	for _, c := range changes {
		if !visible(c) {
			continue
		}
		if !first {
			devices = append(devices, c.ID)
		}
		if c.New == nil {
			left = append(left, c.ID)
		} else if unhealthy(c.New) {
			sick = append(sick, c.ID)
		}
	}
	fields := []zap.Field{
		logevent.ListSent, logevent.Rev(l.Version), logevent.Count(len(l.Devices)), logevent.Devices(shorten(devices)),
		logevent.Unhealthy(shorten(sick)), logevent.Gone(shorten(left)),
	}
	if known {
		fields = append(fields, logevent.Latency(latency))
	}
	line.Write(fields...)
}

// GetPreferredAllocation returns the preferred devices for each container, according to [Config.Spread]. An error makes
// the pod fail, so it is only returned for requests that can't be met (InvalidArgument).
func (p *plugin) GetPreferredAllocation(
	_ context.Context, r *v1beta1.PreferredAllocationRequest,
) (*v1beta1.PreferredAllocationResponse, error) {
	newest, _ := p.endpoint.lists.Load()
	listed := make([]prefer.Device, len(newest.Devices))
	for i, d := range newest.Devices {
		listed[i] = prefer.Device{ID: d.ID, Card: d.PCIAddress, NUMANode: d.NUMANode, Degraded: d.Health == inventory.Degraded}
	}
	answer := &v1beta1.PreferredAllocationResponse{}
	for _, request := range r.GetContainerRequests() {
		var available []string
		for _, id := range request.GetAvailableDeviceIDs() {
			// Check the newest list, because the kubelet may not know yet that the device is unhealthy.
			if d := newest.Device(id); d != nil && !unhealthy(d) {
				available = append(available, id)
			}
		}
		ids, err := prefer.Choose(listed, available, request.GetMustIncludeDeviceIDs(),
			int(request.GetAllocationSize()), p.endpoint.server.cfg.Spread)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		answer.ContainerResponses = append(answer.ContainerResponses,
			&v1beta1.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return answer, nil
}
