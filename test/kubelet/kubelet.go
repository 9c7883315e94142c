package kubelet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	_ "unsafe" // for go:linkname

	cadvisor "github.com/google/cadvisor/info/v1"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newManagerImpl is the device manager's constructor that takes the socket's path as an argument. The exported
// constructor always uses /var/lib/kubelet/device-plugins/kubelet.sock.
//
//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(log klog.Logger, socket string, nodes []cadvisor.Node, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

// Kubelet is a running kubelet.
type Kubelet struct {
	Dir  string // directory of kubelet.sock, the plugins' sockets and the checkpoint
	Pods string // the pod-resources socket's path

	current atomic.Pointer[devicemanager.ManagerImpl] // the device manager, for concurrent calls to Advertised

	// These fields are set by Start, Restart and Resume, and are valid until Stop.
	devices  *devicemanager.ManagerImpl
	topology topologymanager.Manager
	ready    *ready
	api      *grpc.Server
	serving  sync.WaitGroup

	mu       sync.Mutex // guards admitted
	admitted map[types.UID]*v1.Pod
}

// Start starts a kubelet in a directory. The directory's path must be short, because a Unix socket's path has at most
// 107 bytes.
func Start(ctx context.Context, dir string) (*Kubelet, error) {
	countRegistrations()
	k := &Kubelet{
		Dir:      filepath.Join(dir, "kubelet"),
		Pods:     filepath.Join(dir, "pods.sock"),
		admitted: map[types.UID]*v1.Pod{},
	}
	if err := os.MkdirAll(k.Dir, 0o750); err != nil {
		return nil, err
	}
	if err := k.start(ctx, sets.New[string]()); err != nil {
		return nil, err
	}
	k.ready.all.Store(true)
	return k, nil
}

// start starts a kubelet's managers, on a node where the given containers are already running.
func (k *Kubelet) start(ctx context.Context, running sets.Set[string]) error {
	log := klog.Background()
	nodes := []cadvisor.Node{{Id: 0}}
	var err error
	if k.topology, err = newTopology(nodes, topologymanager.PolicyNone); err != nil {
		return fmt.Errorf("topology manager: %w", err)
	}
	if k.devices, err = newManagerImpl(log, filepath.Join(k.Dir, "kubelet.sock"), nodes, k.topology); err != nil {
		return fmt.Errorf("device manager: %w", err)
	}
	k.topology.AddHintProvider(log, k.devices)
	containers := containermap.NewContainerMap()
	for id := range running {
		uid, name, _ := strings.Cut(id, "/")
		containers.Add(uid, name, id)
	}
	k.ready = &ready{}
	if err := k.devices.Start(log, k.GetActivePods, k.ready, containers, running); err != nil {
		return fmt.Errorf("device manager: %w", err)
	}
	k.current.Store(k.devices)
	return k.serve(ctx)
}

// Stop stops the kubelet. The files in its directory stay, and pods keep running.
func (k *Kubelet) Stop() error {
	err := k.devices.Stop(klog.Background())
	k.api.Stop()
	k.serving.Wait()
	return err
}

// Restart stops the kubelet and starts it again.
func (k *Kubelet) Restart(ctx context.Context) error {
	if err := k.Stop(); err != nil {
		return err
	}
	return k.Resume(ctx)
}

// Resume starts a stopped kubelet from its checkpoint. Like a real kubelet, it readmits the pods with running
// containers before it has received all pods. This must work even if no plugin is running.
func (k *Kubelet) Resume(ctx context.Context) error {
	containers := sets.New[string]()
	pods := k.GetActivePods()
	for _, pod := range pods {
		for _, c := range pod.Spec.Containers {
			containers.Insert(string(pod.UID) + "/" + c.Name)
		}
	}
	if err := k.start(ctx, containers); err != nil {
		return err
	}
	defer k.ready.all.Store(true)
	for _, pod := range pods {
		if result := k.admit(ctx, pod); !result.Admit {
			return fmt.Errorf("running pod %s is not admitted again: %s: %s", pod.Name, result.Reason, result.Message)
		}
	}
	return nil
}

// ready implements config.SourcesReady. It reports whether the kubelet has received all pods.
type ready struct{ all atomic.Bool }

func (r *ready) AddSource(string) {}
func (r *ready) AllReady() bool   { return r.all.Load() }

// Amount is a resource's capacity and allocatable amount, as a node's status shows them.
type Amount struct{ Capacity, Allocatable int64 }

// Advertised returns the plugins' resources as they would appear in a node's status.
func (k *Kubelet) Advertised() map[string]Amount {
	capacity, allocatable := k.capacity(k.current.Load())
	amounts := map[string]Amount{}
	for name, quantity := range capacity {
		free := allocatable[name]
		amounts[string(name)] = Amount{quantity.Value(), free.Value()}
	}
	return amounts
}

// Cut closes the connection to a resource's plugin, as a kubelet does when its plugin watcher reports that the plugin
// is gone.
func (k *Kubelet) Cut(ctx context.Context, resource string) error {
	sockets, err := k.Sockets()
	if err != nil {
		return err
	}
	for _, name := range sockets {
		k.disconnect(ctx, resource, filepath.Join(k.Dir, name))
	}
	return nil
}

// Sockets returns the names of the plugins' sockets.
func (k *Kubelet) Sockets() ([]string, error) {
	entries, err := os.ReadDir(k.Dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type() == os.ModeSocket && e.Name() != "kubelet.sock" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// GetActivePods implements podresources.PodsProvider. The device manager also uses it.
func (k *Kubelet) GetActivePods() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Values(k.admitted))
}

// GetPods implements podresources.PodsProvider.
func (k *Kubelet) GetPods() []*v1.Pod { return k.GetActivePods() }

// GetPodByName implements podresources.PodsProvider.
func (k *Kubelet) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	for _, pod := range k.GetActivePods() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}
