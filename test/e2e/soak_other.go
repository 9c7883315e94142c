package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// otherPlain is another plugin's resource. Its devices, such as GPUs, have nothing to do with our cards.
const otherPlain = "other.example/plain"

// otherPlugin is another device plugin on the node, as during a migration. It serves either [otherPlain] or, for a card
// that has been cordoned for it, [soak.OtherPlugin].
type otherPlugin struct {
	v1beta1.UnimplementedDevicePluginServer
	resource string
	devices  func() []*v1beta1.Device
	answer   func(ids []string) (*v1beta1.ContainerAllocateResponse, error)
}

// GetDevicePluginOptions implements v1beta1.DevicePluginServer.
func (p *otherPlugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch implements v1beta1.DevicePluginServer.
func (p *otherPlugin) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	for last := ""; ; {
		list := &v1beta1.ListAndWatchResponse{Devices: p.devices()}
		if text := list.String(); text != last {
			last = text
			if err := stream.Send(list); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Allocate implements v1beta1.DevicePluginServer.
func (p *otherPlugin) Allocate(_ context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	all := &v1beta1.AllocateResponse{}
	for _, request := range r.ContainerRequests {
		one, err := p.answer(request.DevicesIds)
		if err != nil {
			return nil, err
		}
		all.ContainerResponses = append(all.ContainerResponses, one)
	}
	return all, nil
}

// serve serves the plugin until ctx is done. Whenever the kubelet starts, it deletes the plugin's socket, and the
// plugin registers again.
func (p *otherPlugin) serve(ctx context.Context) {
	socket := filepath.Join(filepath.Dir(checkpointFile), filepath.Base(p.resource)+"-other.sock")
	var server *grpc.Server
	var serving sync.WaitGroup
	stop := func() {
		if server != nil {
			server.Stop()
			serving.Wait()
			server = nil
		}
		os.Remove(socket)
	}
	defer stop()
	for ; ctx.Err() == nil; sleep(ctx, time.Second) {
		if _, err := os.Stat(socket); err == nil {
			continue
		}
		stop()
		listener, err := net.Listen("unix", socket)
		if err != nil {
			continue
		}
		server = grpc.NewServer()
		v1beta1.RegisterDevicePluginServer(server, p)
		serving.Go(func() { _ = server.Serve(listener) })
		if p.register(ctx, filepath.Base(socket)) != nil {
			stop()
		}
	}
}

func (p *otherPlugin) register(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	kubelet, err := grpc.NewClient("unix://"+v1beta1.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	_, err = v1beta1.NewRegistrationClient(kubelet).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: socket, ResourceName: p.resource,
	})
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// handover is a card that the other plugin may allocate.
type handover struct {
	id   string // the other plugin's device
	how  string // how its nodes are passed: one of otherWays
	port port
}

// otherWays lists the ways in which another plugin passes device nodes: in its response (Intel's plugin up to 0.30), in
// its response along with a CDI device (Intel's later versions), or only through a CDI device, which is named in the
// response's own field or in an annotation (sriov-network-device-plugin).
var otherWays = []string{"nodes", "nodes-and-cdi", "cdi", "cdi-annotation"}

// onlyCDI reports whether the device node is passed only through a CDI device. The daemon can then identify the card
// only by the ID of the other plugin's device.
func (h handover) onlyCDI() bool { return h.how == "cdi" || h.how == "cdi-annotation" }

// otherPlugins tracks which card the other plugin may allocate, if any.
type otherPlugins struct {
	mu     sync.Mutex
	handed *handover
}

func (o *otherPlugins) hand(h *handover) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handed = h
}

func (o *otherPlugins) now() *handover {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.handed
}

// serveOthers serves both resources of other plugins, and returns a function that stops serving them.
func (a act) serveOthers() (end func()) {
	var plain []*v1beta1.Device
	for i := range 4 {
		plain = append(plain, &v1beta1.Device{ID: fmt.Sprintf("plain-%d", i), Health: v1beta1.Healthy})
	}
	plugins := []*otherPlugin{
		{resource: otherPlain, devices: func() []*v1beta1.Device { return plain }, answer: func(ids []string) (*v1beta1.ContainerAllocateResponse, error) {
			return &v1beta1.ContainerAllocateResponse{Envs: map[string]string{"PLAIN": fmt.Sprint(ids)}}, nil
		}},
		{resource: soak.OtherPlugin, devices: func() (list []*v1beta1.Device) {
			if h := a.others.now(); h != nil {
				list = append(list, &v1beta1.Device{ID: h.id, Health: v1beta1.Healthy})
			}
			return list
		}, answer: a.allocateOther},
	}
	ctx, cancel := context.WithCancel(a.ctx)
	var tasks sync.WaitGroup
	for _, p := range plugins {
		tasks.Go(func() { p.serve(ctx) })
	}
	return func() { cancel(); tasks.Wait() }
}

// allocateOther answers the kubelet's request for the card that has been handed over. It fails if the card is in use,
// because the other plugin must not give a card to a second pod either.
func (a act) allocateOther(ids []string) (*v1beta1.ContainerAllocateResponse, error) {
	h := a.others.now()
	if h == nil || !slices.Equal(ids, []string{h.id}) {
		return nil, fmt.Errorf("%v: not handed over", ids)
	}
	if err := a.unused(h.port); err != nil {
		return nil, err
	}
	name := "dfl-port." + h.port.Node[len("120:"):]
	host, path := filepath.Join(simulated, "dev", name), "/dev/"+name
	answer := &v1beta1.ContainerAllocateResponse{}
	if !h.onlyCDI() {
		answer.Devices = []*v1beta1.DeviceSpec{{HostPath: host, ContainerPath: path, Permissions: "rw"}}
	}
	edits := `{"env": ["OTHER=yes"]}`
	if h.onlyCDI() {
		edits = fmt.Sprintf(`{"deviceNodes": [{"path": %q, "hostPath": %q, "permissions": "rw"}]}`, path, host)
	}
	spec := fmt.Sprintf(`{"cdiVersion": "0.6.0", "kind": %q, "devices": [{"name": "card", "containerEdits": %s}]}`, soak.OtherPlugin, edits)
	device := soak.OtherPlugin + "=card"
	switch h.how {
	case "nodes":
		return answer, nil
	case "cdi-annotation":
		answer.Annotations = map[string]string{"cdi.k8s.io/other": device}
	default:
		answer.CdiDevices = []*v1beta1.CDIDevice{{Name: device}}
	}
	temporary := filepath.Join(specs, "."+otherSpec)
	return answer, errors.Join(os.WriteFile(temporary, []byte(spec), 0o644), os.Rename(temporary, filepath.Join(specs, otherSpec)))
}

const otherSpec = "other.json"

// unused returns an error if a pod has the port or might have it.
func (s *soaking) unused(p port) error {
	for _, c := range s.watch.all() {
		if opens(c, p.Node) {
			return fmt.Errorf("%s is in pod %s", p.ID, c.Pod)
		}
	}
	file, err := readCheckpoint()
	if err != nil {
		return err
	}
	ended := s.endedBefore(time.Now().Add(-5 * time.Second))
	for _, e := range file.PodDeviceEntries {
		if slices.Contains(e.ports(), p.ID) && !ended[e.PodUID] {
			return fmt.Errorf("%s is allocated to pod %s", p.ID, e.PodUID)
		}
	}
	ctx, cancel := context.WithTimeout(s.base.ctx, 3*time.Second)
	defer cancel()
	claims, err := s.base.Client.ResourceV1().ResourceClaims(s.base.users).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, claim := range claims.Items {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, device := range claim.Status.Allocation.Devices.Results {
			if slices.Contains(portsOf(draDriver, device.Device), p.ID) {
				return fmt.Errorf("%s is allocated to claim %s", p.ID, claim.Name)
			}
		}
	}
	return nil
}

// endedBefore returns the UIDs of the pods that had ended by the given time.
func (s *soaking) endedBefore(then time.Time) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := map[string]bool{}
	for _, line := range s.lines {
		if p := line.Pod; p != nil && line.At < s.at(then) {
			ended[p.UID] = p.Phase == "Succeeded" || p.Phase == "Failed" || p.Phase == "Gone"
		}
	}
	return ended
}

// chooseOther chooses an unused card with one port, and the way in which the other plugin passes its device node.
func chooseOther(s *soaking, random *rand.Rand) (string, []string, bool) {
	address := s.bench.choose(random, true, single(func(p port) bool {
		return p.fit() && !slices.ContainsFunc(s.watch.all(), func(c soak.Container) bool { return opens(c, p.Node) })
	}))
	if address == "" || s.unused(s.bench.ports(address)[0]) != nil {
		return "", nil, false
	}
	name := s.crowd.next(soak.OtherPlugin)
	return address, []string{name, otherWays[random.IntN(len(otherWays))], []string{"alone", "with-plain"}[random.IntN(2)]}, name != ""
}

// useByOther cordons a card, lets a pod get it from the other plugin, and ends the cordon as soon as the daemon shows
// that the card is in use.
func (a act) useByOther(address string, args []string) {
	h := &handover{id: "other-" + address[len("0000:"):len("0000:01")], how: args[1], port: a.bench.ports(address)[0]}
	if h.onlyCDI() {
		h.id = address
	}
	a.cordon(address, true)
	a.others.hand(h)
	defer a.others.hand(nil)
	pod := mayFail(a.pod(args[0], soak.OtherPlugin, 1))
	if args[2] == "with-plain" {
		pod.Spec.Containers[0].Resources.Limits[otherPlain] = units(otherPlain, 2)[otherPlain]
	}
	a.create(pod)
	err := a.within(30*time.Second, func(own act) {
		await(own.scene, "start of "+pod.Name, func() (bool, error) {
			p, err := own.readPod(pod.Name)
			return err == nil && p.Status.Phase != corev1.PodPending || len(a.watch.containersOf(pod.Name)) > 0, err
		}, true)
	})
	a.others.hand(nil)
	if err == nil {
		err = a.within(40*time.Second, func(own act) {
			await(own.scene, "holder of "+address, func() (bool, error) {
				return len(a.watch.containersOf(pod.Name)) == 0 || own.settled(h.port.device, "node-in-use", true), nil
			}, true)
		})
	}
	if h.onlyCDI() {
		// The daemon knows only the card's address, so the card must not be pulled: another card could then get its
		// number.
		defer a.awaitEnd(pod.Name)
	}
	a.cordon(address, false)
	a.check(err)
}

// awaitEnd deletes a pod after a while, and waits until it has no containers.
func (a act) awaitEnd(name string) {
	a.wait(15 * time.Second)
	a.endPod(name, 1)
	await(a.scene, "end of "+name, func() (bool, error) {
		_, err := a.readPod(name)
		return err != nil && ignoreMissing(err) == nil && len(a.watch.containersOf(name)) == 0, ignoreMissing(err)
	}, true)
}
