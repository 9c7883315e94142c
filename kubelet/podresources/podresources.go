package podresources

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Timeout is the time limit for one call.
const Timeout = 2 * time.Second

// maxAnswer is the maximum size of an answer, in bytes. On a node with 500 pods, each with five containers that have
// ten devices each, an answer is smaller than 3 MiB. The kubelet's own clients accept 16 MiB
// (defaultPodResourcesMaxSize), but decoding an answer can take 40 times its size in memory: pods can have tens of
// thousands of containers, and in the answer each container may be just a name.
const maxAnswer = 4 << 20

// Key identifies a device that belongs to a resource or a claim. For claims, Resource is the name of the DRA driver
// (which is never a resource name), and ID is the device's name in its pool.
type Key struct {
	Resource string
	ID       string
}

// String returns resource/id.
func (k Key) String() string { return k.Resource + "/" + k.ID }

// Holder is a container that holds a device.
type Holder struct {
	Namespace string
	Pod       string
	Container string
	Claim     string // name of the ResourceClaim, in the same namespace; "" if the device belongs to a resource
}

// String returns namespace/pod/container.
func (h Holder) String() string { return h.Namespace + "/" + h.Pod + "/" + h.Container }

// Answer is the kubelet's answer.
type Answer struct {
	// Holders contains each device's sorted holders, for all resources and claims on the node, including those of other
	// plugins and drivers. It doesn't distinguish between a driver's pools.
	Holders map[Key][]Holder
	Pods    []string // NAMESPACE/NAME of all pods that the kubelet knows about, even those without devices
	// Started is when the kubelet started, or more precisely, when it created its socket.
	Started time.Time
}

// List asks the kubelet that listens on the socket which containers hold which devices. The error wraps fs.ErrNotExist
// if there is no socket, and fs.ErrPermission if connecting isn't allowed, for example because of SELinux.
//
// The answer doesn't include devices that belong to init containers (except restartable ones) or to pods that have
// terminated or been force-deleted. A pod with a claim is listed until its claim has been unprepared. A kubelet that
// has just started answers immediately, but at first it lists only some of its pods, because it gets them from the API
// server and adds them one by one.
func List(ctx context.Context, socket string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	probe, err := (&net.Dialer{}).DialContext(ctx, "unix", socket) // grpc's error wouldn't wrap the one from connect
	if err != nil {
		return Answer{}, fmt.Errorf("pod-resources socket %s: %w", socket, err)
	}
	probe.Close()
	info, err := os.Stat(socket)
	if err != nil {
		return Answer{}, fmt.Errorf("pod-resources socket: %w", err)
	}
	conn, err := grpc.NewClient("passthrough:///pod-resources",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return Answer{}, fmt.Errorf("pod-resources socket %s: %w", socket, err)
	}
	defer conn.Close()
	answer, err := v1.NewPodResourcesListerClient(conn).List(ctx, &v1.ListPodResourcesRequest{})
	// Check the message too, because exceeding the kubelet's rate limit gives the same status code as an oversized
	// answer.
	if strings.Contains(status.Convert(err).Message(), "larger than max") {
		return Answer{}, fmt.Errorf("pod-resources socket %s: found an answer of more than %d MiB: a pod has very many containers or devices: %w",
			socket, maxAnswer>>20, err)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("pod-resources socket %s: list: %w", socket, err)
	}
	a := Answer{Holders: holders(answer.GetPodResources()), Started: info.ModTime()}
	for _, pod := range answer.GetPodResources() {
		a.Pods = append(a.Pods, pod.GetNamespace()+"/"+pod.GetName())
	}
	return a, nil
}

// holders converts the kubelet's answer, which is grouped by pod, into the holders of each device.
func holders(pods []*v1.PodResources) map[Key][]Holder {
	held := map[Key][]Holder{}
	for _, pod := range pods {
		for _, container := range pod.GetContainers() {
			hold := func(resource, id, claim string) {
				holder := Holder{pod.GetNamespace(), pod.GetName(), container.GetName(), claim}
				held[Key{resource, id}] = append(held[Key{resource, id}], holder)
			}
			for _, devices := range container.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					hold(devices.GetResourceName(), id, "")
				}
			}
			for _, claim := range container.GetDynamicResources() {
				for _, device := range claim.GetClaimResources() {
					hold(device.GetDriverName(), device.GetDeviceName(), claim.GetClaimName())
				}
			}
		}
	}
	for key, list := range held {
		slices.SortFunc(list, func(a, b Holder) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
				cmp.Compare(a.Container, b.Container), cmp.Compare(a.Claim, b.Claim))
		})
		// A device may be listed once for each of its NUMA nodes or, if it belongs to a claim, once for each request.
		held[key] = slices.Compact(list)
	}
	return held
}
