package driver_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/dra/driver"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var (
	idle    = flag.Duration("idle", time.Minute, "length of the idle period of BenchmarkScale")
	drivers = flag.Int("drivers", 200, "number of drivers of BenchmarkScale")
)

const (
	cards  = 32 // of each node
	rack   = 20 // nodes
	rounds = 7  // of a rack that fails
	// settleTime is the time to wait after a step. Requests that are sent during this time still count for the step.
	settleTime = 3 * time.Second
	// account is the user of the drivers. It is the same as in the chart, so that the API server queues their requests
	// in the same way.
	account = "system:serviceaccount:kube-system:accelerator-dra-driver"
)

// BenchmarkScale prints the table of docs/dra-reference.md. Many drivers run in one process, each with a node, a pool
// and a connection of its own. They use a real API server, without kubelets, controllers and scheduler. The requests
// are taken from the audit log, and the bytes from the metrics of the API server and of etcd.
func BenchmarkScale(b *testing.B) {
	log.SetLogger(logr.Discard())
	apiserver.UseLogger(zap.NewNop())
	s := newSite(b)

	s.measure(fmt.Sprintf("%d drivers start at once; there are no slices", *drivers), func(began time.Time) time.Duration {
		s.start()
		s.until("slices", func() bool { return s.nodesWith(cards, 0) == *drivers })
		return s.changed().Sub(began)
	})
	s.measure("no change", func(time.Time) time.Duration { s.rest(*idle); return *idle })

	for range rounds {
		s.measure(fmt.Sprintf("%d nodes lose all cards, one each millisecond", rack), func(began time.Time) time.Duration {
			s.loseRack()
			s.until("taints", func() bool { return s.nodesWith(cards, cards) == rack })
			return s.changed().Sub(began)
		})
		s.healRack()
		s.until("untainted", func() bool { return s.nodesWith(cards, 0) == *drivers })
		s.rest(settleTime)
	}
	s.keepMedian(rounds)

	s.measure("all drivers restart; the slices exist", func(began time.Time) time.Duration {
		s.stop()
		s.start()
		s.until("drivers that are up to date", s.allReady)
		return time.Since(began)
	})

	s.measure("all connections are cut", func(began time.Time) time.Duration {
		s.cut()
		return s.watchesSince(began)
	})
	s.measure("another client deletes all slices", func(began time.Time) time.Duration {
		s.mu.Lock()
		clear(s.slices)
		s.mu.Unlock()
		must.Succeed(s, s.admin.ResourceV1().ResourceSlices().DeleteCollection(s.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		s.until("slices", func() bool { return s.nodesWith(cards, 0) == *drivers })
		return s.changed().Sub(began)
	})
	var visible time.Duration
	s.measure("the API server restarts while a rack fails", func(began time.Time) time.Duration {
		_ = s.env.ControlPlane.APIServer.Stop() // an error: it waited for the watches to end, and was killed
		down := time.Now()
		s.loseRack()
		must.Succeed(s, s.env.ControlPlane.APIServer.Start())
		up := time.Now()
		fmt.Fprintf(os.Stderr, "API server answers after %v\n", up.Sub(began).Round(time.Millisecond))
		took := s.watchesSince(down) - up.Sub(down)
		s.until("taints", func() bool { return s.nodesWith(cards, cards) == rack })
		visible = s.changed().Sub(up)
		return took
	})
	s.rows[len(s.rows)-1].more = ", taints " + seconds(visible)
	s.stop()
	s.print()
}

// site is an API server with drivers.
type site struct {
	*testing.B
	env    *envtest.Environment
	audit  string // file
	admin  kubernetes.Interface
	config *rest.Config // of the drivers
	sysfs  string       // with the links of all cards
	nodes  []*devices
	rows   []result

	running []*driver.Driver
	end     func() // ends the drivers

	mu      sync.Mutex
	slices  map[string]*resourceapi.ResourceSlice // by node
	last    time.Time                             // when slices changed
	conns   map[net.Conn]bool
	refused int
}

const policy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
	{"level": "Metadata", "users": ["` + account + `"]}, {"level": "None"}]}`

func newSite(b *testing.B) *site {
	bin := os.Getenv("ACCELERATOR_E2E_BIN")
	if bin == "" {
		b.Fatal("ACCELERATOR_E2E_BIN: found none, want a directory with etcd and kube-apiserver; make e2e builds them")
	}
	dir := b.TempDir()
	s := &site{B: b, audit: filepath.Join(dir, "audit.log"), slices: map[string]*resourceapi.ResourceSlice{}, conns: map[net.Conn]bool{}}
	s.sysfs = filepath.Join(dir, "sysfs")
	must.Succeed(s, os.MkdirAll(s.sysfs+"/bus/pci/devices", 0o755))
	for _, d := range withFailed(0) {
		must.Succeed(s, os.MkdirAll(s.sysfs+"/devices/pci0000:3a/"+d.PCIAddress, 0o755))
		must.Succeed(s, os.Symlink("../../../devices/pci0000:3a/"+d.PCIAddress, s.sysfs+"/bus/pci/devices/"+d.PCIAddress))
		must.Succeed(s, os.Symlink("../../../bus/pci/drivers/dfl-pci", s.sysfs+"/devices/pci0000:3a/"+d.PCIAddress+"/driver"))
	}
	must.Succeed(s, os.WriteFile(filepath.Join(dir, "policy"), []byte(policy), 0o600))
	s.env = &envtest.Environment{BinaryAssetsDirectory: bin, ControlPlaneStopTimeout: 5 * time.Second}
	server := s.env.ControlPlane.GetAPIServer()
	server.CertDir = dir // outlives a restart
	server.Configure().Append("audit-policy-file", filepath.Join(dir, "policy")).Append("audit-log-path", s.audit)
	config := must.Value(s.env.Start())(b)
	b.Cleanup(func() { _ = s.env.Stop() }) // an error: a process did not end in time, and was killed
	s.admin = must.Value(kubernetes.NewForConfig(config))(b)
	user := must.Value(s.env.AddUser(envtest.User{Name: account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}}, nil))(b)
	s.config = user.Config()
	s.config.AcceptContentTypes, s.config.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	s.config.QPS, s.config.Burst = 20, 40 // as in the command

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "drivers"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
		{APIGroups: []string{resourceapi.GroupName}, Resources: []string{"resourceslices"}, Verbs: []string{"*"}},
	}}
	must.Value(s.admin.RbacV1().ClusterRoles().Create(b.Context(), role, metav1.CreateOptions{}))(b)
	must.Value(s.admin.RbacV1().ClusterRoleBindings().Create(b.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "drivers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: account}},
	}, metav1.CreateOptions{}))(b)
	for i := range *drivers {
		must.Value(s.admin.CoreV1().Nodes().Create(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}, metav1.CreateOptions{}))(b)
		s.nodes = append(s.nodes, newDevices(withFailed(0)...))
	}

	// The scheduler follows all slices in the same way.
	factory := informers.NewSharedInformerFactory(s.admin, 0)
	must.Value(factory.Resource().V1().ResourceSlices().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    s.note,
		UpdateFunc: func(_, object any) { s.note(object) },
	}))(b)
	factory.StartWithContext(b.Context())
	factory.WaitForCacheSyncWithContext(b.Context())
	return s
}

func nodeName(i int) string { return fmt.Sprintf("worker-%03d", i) }

// withFailed returns the devices of a node. The first n are broken.
func withFailed(n int) []*inventory.Device {
	var all []*inventory.Device
	for i := range cards {
		id := fmt.Sprintf("%02x:00.0", i)
		d := well(id)
		if i < n {
			d = broken(id)
		}
		d.InterfaceID, d.PCIID = "69528db6eb31577a8c3668f9faa081f6", "8086:bcce:8086:1770"
		all = append(all, d)
	}
	return all
}

// start starts all drivers.
func (s *site) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	s.end = func() { cancel(); done.Wait() }
	s.running = nil
	for i, devices := range s.nodes {
		config := rest.CopyConfig(s.config)
		config.Dial = s.dial // client-go shares connections between clients unless they have a Dial
		client := must.Value(kubernetes.NewForConfig(config))(s)
		dir := must.Value(os.MkdirTemp("", "dra"))(s) // short, for the paths of sockets
		s.Cleanup(func() { os.RemoveAll(dir) })
		must.Succeed(s, os.Mkdir(dir+"/registry", 0o755))
		d := driver.New(driver.Config{
			Node: nodeName(i), Client: client, Inventory: devices, Claims: claims{}, Effect: resourceapi.DeviceTaintEffectNoExecute, SysfsRoot: s.sysfs,
			PluginDir: dir + "/plugin", RegistryDir: dir + "/registry", Log: zap.NewNop(), Metrics: metrics.New("test"),
		})
		s.running = append(s.running, d)
		d.Register() // there is no kubelet
		done.Go(func() {
			compare.NoError(s, nodeName(i), d.Run(ctx))
		})
	}
}

// stop ends all drivers and their connections, as the ends of their processes would.
func (s *site) stop() {
	s.end()
	s.cut()
}

// allReady reports whether all drivers have seen their newest slices on the API server.
func (s *site) allReady() bool {
	return !slices.ContainsFunc(s.running, func(d *driver.Driver) bool { return d.Ready() != nil })
}

func (s *site) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.refused++
		return nil, err
	}
	s.conns[conn] = true
	return conn, nil
}

// cut closes all connections of the drivers.
func (s *site) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close() // an error: it is closed already
	}
	clear(s.conns)
}

// loseRack breaks the cards of a rack.
func (s *site) loseRack() {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := range cards {
		<-tick.C
		for _, node := range s.nodes[:rack] {
			node.set(withFailed(n + 1)...)
		}
	}
}

func (s *site) healRack() {
	for _, node := range s.nodes[:rack] {
		node.set(withFailed(0)...)
	}
}

func (s *site) note(object any) {
	slice := object.(*resourceapi.ResourceSlice)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slices[*slice.Spec.NodeName], s.last = slice, time.Now()
}

// nodesWith returns the number of nodes whose slice has this number of devices, and of devices with a taint.
func (s *site) nodesWith(devices, tainted int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, slice := range s.slices {
		found := 0
		for _, d := range slice.Spec.Devices {
			found += len(d.Taints)
		}
		if len(slice.Spec.Devices) == devices && found == tainted {
			n++
		}
	}
	return n
}

func (s *site) changed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// until waits until f returns true.
func (s *site) until(what string, f func() bool) {
	s.Helper()
	deadline := time.After(3 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			s.Fatalf("found no %s in 3 minutes", what)
		}
	}
}

func (s *site) rest(d time.Duration) { <-time.After(d) }

// watchesSince waits until each driver has begun its two watches since a time, and returns how long that took.
func (s *site) watchesSince(began time.Time) time.Duration {
	s.Helper()
	var last time.Time
	s.until("watches", func() bool {
		n := 0
		for _, r := range s.requests(began) {
			if r.Verb == "watch" && r.ResponseStatus.Code == http.StatusOK {
				n, last = n+1, r.RequestReceivedTimestamp.Time
			}
		}
		return n >= 2*len(s.running)
	})
	return last.Sub(began)
}

// audited is an event of the audit log.
type audited struct {
	AuditID                  string
	Verb                     string
	RequestReceivedTimestamp metav1.MicroTime
	ResponseStatus           struct{ Code int }
}

// requests returns the requests of the drivers since a time, oldest first.
func (s *site) requests(since time.Time) []audited {
	text := must.Value(os.ReadFile(s.audit))(s)
	seen := map[string]bool{} // a watch has one event when it begins, and one when it ends
	var all []audited
	for line := range bytes.Lines(text) {
		var r audited
		if json.Unmarshal(line, &r) != nil { // the last line may be incomplete
			continue
		}
		if !seen[r.AuditID] && !r.RequestReceivedTimestamp.Time.Before(since) {
			all = append(all, r)
		}
		seen[r.AuditID] = true
	}
	slices.SortFunc(all, func(a, b audited) int {
		return a.RequestReceivedTimestamp.Time.Compare(b.RequestReceivedTimestamp.Time)
	})
	return all
}

// busiest returns the largest number of requests within a time.
func busiest(all []audited, within time.Duration) int {
	most, first := 0, 0
	for i, r := range all {
		for r.RequestReceivedTimestamp.Sub(all[first].RequestReceivedTimestamp.Time) >= within {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// counters are metrics of the API server and of etcd.
type counters struct{ written, watched, wal, cpu float64 }

func (s *site) counters() counters {
	text := must.Value(s.admin.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(s.Context()))(s)
	response := must.Value(http.Get(s.env.ControlPlane.Etcd.URL.JoinPath("/metrics").String()))(s)
	defer response.Body.Close()
	etcd := must.Value(io.ReadAll(response.Body))(s)
	return counters{
		written: sum(text, "apiserver_request_body_size_bytes_sum", "resourceslices"),
		watched: sum(text, "apiserver_watch_events_sizes_sum", "resourceslices"),
		wal:     sum(etcd, "etcd_disk_wal_write_bytes_total", ""),
		cpu:     sum(text, "process_cpu_seconds_total", ""),
	}
}

// sum returns the sum of the series of a metric that have a label.
func sum(text []byte, name, label string) float64 {
	total := 0.0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.ContainsAny(rest[:1], "{ ") || !strings.Contains(rest, label) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err == nil {
			total += value
		}
	}
	return total
}

// result is the result of one step.
type result struct {
	step    string
	took    time.Duration
	more    string // after the time
	all     []audited
	refused int
	counters
}

// measure runs a step, which returns the time that it took.
func (s *site) measure(step string, do func(began time.Time) time.Duration) {
	s.Helper()
	fmt.Fprintf(os.Stderr, "%s ...\n", step)
	s.mu.Lock()
	s.refused = 0
	s.mu.Unlock()
	before, began := s.counters(), time.Now()
	took := do(began)
	s.rest(settleTime)
	after := s.counters()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, result{step: step, took: took, all: s.requests(began), refused: s.refused, counters: counters{
		after.written - before.written, after.watched - before.watched, after.wal - before.wal, after.cpu - before.cpu,
	}})
}

// keepMedian replaces the last n results by the one with the median time.
func (s *site) keepMedian(n int) {
	last := s.rows[len(s.rows)-n:]
	slices.SortFunc(last, func(a, b result) int { return cmp.Compare(a.took, b.took) })
	last[n/2].more = fmt.Sprintf(" (worst of %d: %s)", n, seconds(last[n-1].took))
	s.rows = append(s.rows[:len(s.rows)-n], last[n/2])
}

func (s *site) print() {
	fmt.Println("| step | time | requests | busiest 0.1 s, 1 s | written | sent to watches | etcd's log | CPU of the API server |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, r := range s.rows {
		kinds := map[string]int{}
		for _, q := range r.all {
			kind := q.Verb
			if code := q.ResponseStatus.Code; code >= 300 {
				kind += fmt.Sprintf(" (answer %d)", code)
			}
			kinds[kind]++
		}
		if r.refused > 0 {
			kinds["connection (refused)"] = r.refused
		}
		var requests []string
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			requests = append(requests, fmt.Sprintf("%d %s", kinds[kind], kind))
		}
		fmt.Printf("| %s | %s%s | %s | %d, %d | %s | %s | %s | %s |\n", r.step, seconds(r.took), r.more, cmp.Or(strings.Join(requests, ", "), "none"),
			busiest(r.all, 100*time.Millisecond), busiest(r.all, time.Second), kib(r.written), kib(r.watched), kib(r.wal), counted("%.1f s", r.cpu))
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func kib(n float64) string { return counted("%.0f KiB", n/1024) }

// counted formats the growth of a counter. It is negative if the counter began again at 0.
func counted(format string, n float64) string {
	if n < 0 {
		return "not counted"
	}
	return fmt.Sprintf(format, n)
}
