package server

import (
	"context"
	"runtime"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/event"
)

// plugin answers the kubelet on the socket of one session.
type plugin struct {
	v1beta1.UnimplementedDevicePluginServer
	endpoint *endpoint
	session  *session
}

// GetDevicePluginOptions is called by the kubelet before it answers Register.
func (p *plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return options(), nil
}

// options is what the kubelet may ask of us; it is told twice, at registration and
// when it asks.
func options() *v1beta1.DevicePluginOptions {
	return &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// PreStartContainer is not asked for; there is nothing to do.
func (p *plugin) PreStartContainer(context.Context, *v1beta1.PreStartContainerRequest) (*v1beta1.PreStartContainerResponse, error) {
	return &v1beta1.PreStartContainerResponse{}, nil
}

// ListAndWatch sends the list, and the newest one after each change, until the
// kubelet or the session ends the stream.
func (p *plugin) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	log, opened := p.endpoint.log, time.Now()
	defer backlog.FlushOnPanic(log)
	p.session.streams.update(func(s streams) streams { return streams{s.opened + 1, s.open + 1} })
	p.endpoint.cfg.Metrics.StreamOpened(p.endpoint.resource)
	log.Info("stream opened", event.StreamOpened)
	err := p.watch(stream)
	p.session.streams.update(func(s streams) streams { return streams{s.opened, s.open - 1} })
	why := "ended by the kubelet"
	if p.session.isEnding() {
		why = "ended by us"
	}
	log.Info("stream closed", event.StreamClosed, event.Lasted(time.Since(opened)), event.Reason(why))
	return err
}

// watch sends lists. It returns nil when the session ends.
func (p *plugin) watch(stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	var sent *list
	for {
		newest, stale := p.endpoint.lists.latest()
		if sent == nil || !sent.says(newest) {
			if err := stream.Send(newest.message); err != nil {
				return err
			}
			p.logSent(sent, newest)
		}
		sent = newest
		p.endpoint.told.publish(newest)
		select {
		case <-p.session.ending:
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-stale:
		}
	}
}

// logSent says what a stream was sent, and what of it is news to that stream: before
// is what it was sent last, nil if nothing.
func (p *plugin) logSent(before, l *list) {
	latency, known := l.latency()
	// The list is on its way when others have had their turn: grpc, which writes it, and
	// whoever says what is new on it.
	runtime.Gosched()
	p.endpoint.cfg.Metrics.ListSent(p.endpoint.resource, latency, known)
	line := p.endpoint.log.Check(zap.InfoLevel, "list sent")
	if line == nil {
		return
	}
	news := l.newsOf(before)
	fields := []zap.Field{
		event.ListSent, event.Rev(l.rev), event.Count(len(l.units)), event.Devices(shorten(news.devices)),
		event.Unhealthy(shorten(news.unhealthy)), event.Gone(shorten(news.gone)),
	}
	if known {
		fields = append(fields, event.Latency(latency))
	}
	line.Write(fields...)
}
