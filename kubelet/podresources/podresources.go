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

// maxAnswer is the maximum size of an answer, in bytes. On a node with 500 pods that have five containers with ten
// devices each, an answer takes less than 3 MiB. The kubelet's own clients accept 16 MiB (defaultPodResourcesMaxSize),
// but a decoded answer takes up to 40 times its size, because pods can have tens of thousands of containers and each is
// just a name in the answer.
const maxAnswer = 4 << 20

// Key identifies one of a resource's devices. For a claim's device, Resource is its DRA driver's name, which isn't a
// resource name, and ID is the device's name in its pool.
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
	Claim     string // the ResourceClaim's name, in the same namespace; "" for a resource's device
}

// String returns namespace/pod/container.
func (h Holder) String() string { return h.Namespace + "/" + h.Pod + "/" + h.Container }

// Answer is an answer from the kubelet.
type Answer struct {
	// Holders contains each device's holders, sorted. It includes the devices of all resources and claims on the node,
	// even those of other plugins and drivers. If a driver has several pools on the node, Holders doesn't distinguish
	// between them.
	Holders map[Key][]Holder
	Pods    []string // NAMESPACE/NAME of all pods that the kubelet knows, including those without devices
	// Started is when the kubelet created its socket, which it does at startup.
	Started time.Time
}

// List asks the kubelet listening on the socket which devices containers hold. The error wraps fs.ErrNotExist if there
// is no socket, and fs.ErrPermission if connecting to it is forbidden, for example by SELinux.
//
// The answer doesn't include the devices of init containers (except restartable ones) or of pods that have ended or
// been force-deleted. A pod with a claim is listed until its claim has been unprepared. A kubelet that has just started
// answers immediately, but knows only some of its pods, because it gets them from the API server and adds them one by
// one.
func List(ctx context.Context, socket string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	probe, err := (&net.Dialer{}).DialContext(ctx, "unix", socket) // grpc's error wouldn't wrap connect's
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
	if strings.Contains(status.Convert(err).Message(), "larger than max") { // the kubelet's call limit has the same code
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

// holders returns each device's holders in the kubelet's answer, which is sorted by pod.
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
		// A device with several NUMA nodes may be listed once for each of them, and a claim's device once for each
		// request.
		held[key] = slices.Compact(list)
	}
	return held
}
