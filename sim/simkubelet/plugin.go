package simkubelet

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// optionsTimeout is the time limit for GetDevicePluginOptions.
const optionsTimeout = 10 * time.Second

// plugin is a registered plugin and its connection.
type plugin struct {
	v1beta1.DevicePluginClient
	conn *grpc.ClientConn
	ctx  context.Context
	cut  context.CancelFunc
}

// Register implements the Registration service.
func (k *Kubelet) Register(ctx context.Context, r *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	k.change(func() { k.registrations[r.ResourceName]++ })
	k.mu.Lock()
	b := k.behaviour
	k.mu.Unlock()
	switch {
	case b.Refuse != "":
		return nil, status.Error(codes.Unknown, b.Refuse)
	case b.Vanish:
		k.cancel()
		k.tasks.Go(k.server.Stop)
		fallthrough
	case b.HangRegister:
		<-ctx.Done()
		return nil, ctx.Err()
	case r.Version != v1beta1.Version:
		return nil, status.Errorf(codes.InvalidArgument, "version %q is not supported", r.Version)
	}
	p, err := k.dial(ctx, r.Endpoint)
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "endpoint %q: %v", r.Endpoint, err)
	}
	k.change(func() {
		if b.OnePlugin {
			k.plugins[r.ResourceName] = nil
		}
		k.plugins[r.ResourceName] = append(k.plugins[r.ResourceName], p)
	})
	k.tasks.Go(func() {
		k.follow(r.ResourceName, p, b)
		if b.OnePlugin {
			if newest, err := k.newest(r.ResourceName); err == nil {
				k.remove(r.ResourceName, newest)
			}
			<-p.ctx.Done()
		}
		k.remove(r.ResourceName, p)
	})
	return &v1beta1.Empty{}, nil
}

// dial connects to a plugin's socket and calls GetDevicePluginOptions.
func (k *Kubelet) dial(ctx context.Context, endpoint string) (*plugin, error) {
	ctx, cancel := context.WithTimeout(ctx, optionsTimeout)
	defer cancel()
	path := filepath.Join(k.dir, endpoint)
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, err
	}
	p := &plugin{conn: conn, DevicePluginClient: v1beta1.NewDevicePluginClient(conn)}
	options, err := p.GetDevicePluginOptions(ctx, &v1beta1.Empty{})
	if err == nil && options == nil {
		err = fmt.Errorf("GetDevicePluginOptions: found no options")
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	p.ctx, p.cut = context.WithCancel(k.ctx)
	return p, nil
}

// follow records a plugin's lists until the stream ends.
func (k *Kubelet) follow(resource string, p *plugin, b Behaviour) {
	if b.HangUp {
		return
	}
	if b.NoStream {
		<-p.ctx.Done()
		return
	}
	stream, err := p.ListAndWatch(p.ctx, &v1beta1.Empty{})
	if err != nil {
		return
	}
	if b.NoRead {
		<-stream.Context().Done()
		return
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return
		}
		k.record(resource, message, time.Now())
	}
}

// remove disconnects and removes a plugin whose stream has ended.
func (k *Kubelet) remove(resource string, p *plugin) {
	p.cut()
	_ = p.conn.Close()
	k.change(func() {
		i := slices.Index(k.plugins[resource], p)
		if i < 0 {
			return
		}
		k.plugins[resource] = slices.Delete(k.plugins[resource], i, i+1)
		if len(k.plugins[resource]) == 0 {
			delete(k.open, resource)
			k.callFollower()
		}
	})
}
