package holders_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/kubelet/podresources"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// fileOf returns a checkpoint with one entry, for a container that was given a device. The entry lists the device nodes
// in an annotation, only as device nodes if the first one starts with a slash, only as a CDI device if it is cdi, or only
// as a CDI annotation if it is annotated.
func fileOf(t testing.TB, uid, resource, id string, nodes ...string) string {
	t.Helper()
	answer := &v1beta1.ContainerAllocateResponse{Annotations: map[string]string{}}
	if slices.Equal(nodes, []string{"cdi"}) {
		answer.CdiDevices = []*v1beta1.CDIDevice{{Name: "example.com/x=" + id}}
	} else if slices.Equal(nodes, []string{"annotated"}) {
		answer.Annotations["cdi.k8s.io/nic"] = "example.com/x=" + id
	} else if len(nodes) > 0 && filepath.IsAbs(nodes[0]) {
		for _, node := range nodes {
			answer.Devices = append(answer.Devices, &v1beta1.DeviceSpec{HostPath: node})
		}
	} else {
		checkpoint.Annotate(answer.Annotations, id, nodes)
	}
	raw := must.Value(proto.Marshal(answer))(t)
	encoded, _ := json.Marshal(raw)
	return fmt.Sprintf(`{"Data":{"PodDeviceEntries":[{"PodUID":%q,"ContainerName":"main","ResourceName":%q,"DeviceIDs":{"-1":[%q]},"AllocResp":%s}]}}`,
		uid, resource, id, encoded)
}

// entryOf returns the entry from [fileOf].
func entryOf(t testing.TB, uid, resource, id string, nodes ...string) checkpoint.Entry {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, checkpoint.File), []byte(fileOf(t, uid, resource, id, nodes...)), 0o600))
	record := must.Value(new(checkpoint.Reader).Read(dir))(t)
	return record.Entries[0]
}

// step is one step in a history: a report, and what the inventory is told as a result.
type step struct {
	at   string // since the start
	from report
	want string // holdings as "As Holders|Containers Nodes", separated by "; ", followed by flags
}

// report is what the sources say. The zero value comes from a kubelet that has been running for an hour.
type report struct {
	started      string // when the kubelet started; "": -1h
	pods         string // in addition to own
	lacksOwn     bool
	answered     string // "": immediately
	named        string // devices as POD/CONTAINER=RESOURCE=ID
	entries      string // the checkpoint: UID=RESOURCE=ID=NODE
	newer        bool   // the checkpoint is newer than the answer
	noCheckpoint bool
	given        string // allocations: RESOURCE=ID=NODE@TIME
	claims       string // claims.json: IDs
	admin        string // IDs in claims.json whose claims all have admin access
	recorded     string // IDs in the driver's record of its claims
	alive        string // UIDs of pods that have processes
	kubelet      error
	file         error
}

func ago(t testing.TB, text string) time.Time {
	t.Helper()
	d := must.Value(time.ParseDuration(text))(t)
	return epoch.Add(d)
}

func (r report) make(t testing.TB, at time.Time) holders.Report {
	is := holders.Report{Asked: at, Answered: ago(t, cmp.Or(r.answered, at.Sub(epoch).String())), KubeletErr: r.kubelet, CheckpointErr: r.file,
		Allocated: map[holders.Key]holders.Allocation{}, Claims: map[string][]inventory.Holding{}}
	if r.kubelet == nil {
		is.Answer = podresources.Answer{Started: ago(t, cmp.Or(r.started, "-1h")), Holders: map[holders.Key][]podresources.Holder{}}
		if is.Answer.Pods = strings.Fields(r.pods); !r.lacksOwn {
			is.Answer.Pods = append(is.Answer.Pods, "ns/own")
		}
		for _, text := range strings.Fields(r.named) {
			f := strings.Split(text, "=")
			pod, container, _ := strings.Cut(f[0], "/")
			key := holders.Key{Resource: f[1], ID: f[2]}
			is.Answer.Holders[key] = append(is.Answer.Holders[key], podresources.Holder{Namespace: "ns", Pod: pod, Container: container})
		}
	}
	is.Checkpoint.Written = epoch.Add(-time.Hour)
	if r.newer {
		is.Checkpoint.Written = is.Answered.Add(time.Millisecond)
	}
	if r.noCheckpoint {
		is.Checkpoint.Written = time.Time{}
	}
	for _, text := range strings.Fields(r.entries) {
		f := strings.Split(text, "=")
		is.Checkpoint.Entries = append(is.Checkpoint.Entries, entryOf(t, f[0], f[1], f[2], f[3]))
	}
	for _, text := range strings.Fields(r.given) {
		text, given, _ := strings.Cut(text, "@")
		f := strings.Split(text, "=")
		is.Allocated[holders.Key{Resource: f[0], ID: f[1]}] = holders.Allocation{At: ago(t, given), Nodes: f[2:]}
	}
	for _, id := range strings.Fields(r.claims) {
		is.Claims[id] = []inventory.Holding{{As: draname.Driver, Nodes: []string{"c"}}}
	}
	for _, id := range strings.Fields(r.admin) {
		is.Claims[id] = nil
	}
	is.Alive = map[string]bool{}
	for _, uid := range strings.Fields(r.alive) {
		is.Alive[uid] = true
	}
	for _, id := range strings.Fields(r.recorded) {
		is.Injected = map[string][]string{holders.ClaimedKey(id): {"c"}}
	}
	return is
}

// text formats holdings as in step.want.
func text(h inventory.Holdings) string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(h.Of)) {
		for _, is := range h.Of[id] {
			line := fmt.Sprintf("%s=%s %s|%s %s", strings.TrimPrefix(is.As, "example.com/"), id, strings.Join(is.Holders, ","), strings.Join(is.Containers, ","), strings.Join(is.Nodes, ","))
			for i, set := range []bool{is.NodesErr != nil, is.OtherAPI, is.Foreign, is.Perhaps} {
				if set {
					line += []string{" unknown", " other", " foreign", " perhaps"}[i]
				}
			}
			all = append(all, line)
		}
	}
	if h.Awaiting {
		all = append(all, "awaiting")
	}
	for _, m := range h.Missing {
		all = append(all, "no "+m.Name)
	}
	for _, id := range slices.Sorted(maps.Keys(h.Shared)) {
		all = append(all, "shared "+strings.Join(h.Shared[id], ","))
	}
	return strings.Join(all, "; ")
}

func TestMerge(t *testing.T) {
	const (
		p, a, named   = "example.com/port", "3b:00.0", "p/main=example.com/port=3b:00.0"
		entry, given  = "u=example.com/port=3b:00.0=n", "example.com/port=3b:00.0=n@0s"
		held, both    = "port=3b:00.0 ns/p/main| ", "port=3b:00.0 ns/p/main|u/main n"
		lost          = "port=example.com/port/3b:00.0 | n foreign"
		old, own      = "port=3b:00.0 |u/main n", "port=3b:00.0 | n"
		lacks, former = " unknown", "u=example.com/former=3b:00.0=n"
		claim         = draname.Driver + "=3b:00.0"
		taken         = "accelerator.b-com.com=3b:00.0 | c other"
	)
	gone := syscall.ECONNREFUSED
	for _, tt := range []struct {
		name  string
		rules holders.Rules // Owns, Pod, DevRoot and Grace have defaults
		steps []step
	}{
		{name: "own allocation, until the checkpoint has it", steps: []step{{"1s", report{given: given}, own}, {"2s", report{given: given, entries: entry, newer: true}, old},
			{"3s", report{given: given, newer: true}, ""}}},
		{name: "own allocation, until an answer has it", steps: []step{{"1s", report{given: given, named: named}, "port=3b:00.0 ns/p/main| n"},
			{"2s", report{given: given}, "port=3b:00.0 ns/p/main| n"}, {"5s", report{given: given}, ""}}},
		{name: "own allocation: an entry in an older file is of another container", steps: []step{{"1s", report{given: given, entries: entry}, old}, {"2s", report{given: given}, own}}},
		{name: "own allocation, never confirmed", steps: []step{{"59s", report{given: given}, own}, {"1m", report{given: given}, ""}}},
		{name: "own allocation, never confirmed, the kubelet is away", steps: []step{{"5m", report{given: given, kubelet: gone}, own + "; awaiting; no pod-resources"}}},
		{name: "own allocation, the checkpoint is unreadable: perhaps of an init container", steps: []step{{"2m", report{given: given, file: fs.ErrPermission}, own + "; no checkpoint"},
			{"5m", report{given: given, file: fs.ErrPermission}, "no checkpoint"}}},
		{name: "one complete answer lacks it", steps: []step{{"0s", report{named: named}, held + lacks}, {"1h", report{}, held + lacks}}},
		{name: "two do, soon after each other", steps: []step{{"0s", report{named: named}, held + lacks}, {"10s", report{}, held + lacks}, {"12.9s", report{}, held + lacks}, {"13s", report{}, ""}}},
		{name: "named again between them", steps: []step{{"0s", report{named: named}, held + lacks}, {"10s", report{}, held + lacks}, {"12s", report{named: named}, held + lacks}, {"14s", report{}, held + lacks}}},
		{name: "the first of two answers is late", steps: []step{{"0s", report{named: named}, held + lacks}, {"10s", report{answered: "14s"}, held + lacks}, {"15s", report{}, held + lacks}, {"17s", report{}, ""}}},
		{name: "the kubelet is young", steps: []step{{"0s", report{started: "0s", named: named}, held + lacks + "; awaiting"}, {"4s", report{started: "0s"}, held + lacks + "; awaiting"},
			{"9s", report{started: "0s"}, held + lacks + "; awaiting"}, {"10s", report{started: "0s"}, held + lacks}, {"13s", report{started: "0s"}, ""}}},
		{name: "own pod missing", steps: []step{{"0s", report{named: named}, held + lacks}, {"1m", report{lacksOwn: true}, held + lacks}, {"2m", report{lacksOwn: true}, held + lacks}}},
		{name: "the clock was set back after the kubelet had started", steps: []step{{"0s", report{started: "1h", named: named}, held + lacks + "; awaiting"},
			{"9s", report{started: "1h"}, held + lacks + "; awaiting"}, {"10s", report{started: "1h"}, held + lacks}, {"13s", report{started: "1h"}, ""}}},
		{name: "own pod static", rules: holders.Rules{Pod: "own", Node: "own"}, steps: []step{{"0s", report{started: "-1s"}, "awaiting"}}},
		{name: "pods of the former kubelet return", steps: []step{{"0s", report{named: named, pods: "ns/p ns/q"}, held + lacks}, {"21s", report{started: "20s"}, held + lacks},
			{"29s", report{started: "20s", pods: "ns/q"}, held + lacks}, {"38s", report{started: "20s", pods: "ns/q"}, held + lacks}, {"39s", report{started: "20s", pods: "ns/q"}, held + lacks}, {"41.5s", report{started: "20s", pods: "ns/q"}, held + lacks},
			{"42s", report{started: "20s", pods: "ns/q"}, ""}}},
		{name: "all pods are back, a container has ended", steps: []step{{"0s", report{named: named, pods: "ns/p", entries: entry}, both}, {"21s", report{started: "20s", pods: "ns/p", entries: entry, newer: true}, both},
			{"23.9s", report{started: "20s", pods: "ns/p", newer: true}, held + "n"}, {"24s", report{started: "20s", pods: "ns/p", newer: true}, ""}}},
		{name: "force-deleted, and a process hangs", steps: []step{{"0s", report{named: named, pods: "ns/p", entries: entry}, both},
			{"1s", report{newer: true, alive: "u"}, both}, {"5900ms", report{newer: true, alive: "u"}, both},
			{"6s", report{newer: true, alive: "u"}, both + "; " + lost}, {"12s", report{kubelet: gone, alive: "u"}, both + "; " + lost + "; no pod-resources"},
			{"1h", report{newer: true}, held + "n"}, {"1h4s", report{newer: true}, ""}}},
		{name: "force-deleted before any answer listed it", steps: []step{{"0s", report{entries: entry}, old}, {"1s", report{newer: true, alive: "u"}, old},
			{"6s", report{newer: true, alive: "u"}, old + "; " + lost}, {"12s", report{newer: true}, ""}}},
		{name: "force-deleted, and the file stays", steps: []step{{"0s", report{named: named, pods: "ns/p", entries: entry}, both},
			{"1s", report{entries: entry, alive: "u"}, both}, {"6s", report{entries: entry, alive: "u"}, both + "; " + lost},
			{"12s", report{entries: entry}, both + "; " + lost}, {"16s", report{entries: entry}, ""}}},
		{name: "force-deleted, and a pod of the same name waits", steps: []step{{"0s", report{named: named, pods: "ns/p", entries: entry}, both},
			{"1s", report{newer: true, pods: "ns/p", alive: "u"}, both}, {"6s", report{newer: true, pods: "ns/p", alive: "u"}, both + "; " + lost}}},
		{name: "a static pod comes back with the same UID", rules: holders.Rules{Node: "n"}, steps: []step{
			{"0s", report{named: "p-n/main=example.com/port=3b:00.0", pods: "ns/p-n", entries: entry}, "port=3b:00.0 ns/p-n/main|u/main n"},
			{"1s", report{newer: true, alive: "u"}, "port=3b:00.0 ns/p-n/main|u/main n"},
			{"2s", report{newer: true, pods: "ns/p-n", alive: "u"}, "port=3b:00.0 ns/p-n/main| n"}, {"6s", report{newer: true, pods: "ns/p-n", alive: "u"}, ""}}},
		{name: "an init container has ended", steps: []step{{"0s", report{entries: entry, alive: "u"}, old}, {"11s", report{entries: entry, alive: "u"}, old}}},
		{name: "force-deleted, and another pod has the device", steps: []step{{"0s", report{named: named, pods: "ns/p", entries: entry}, both},
			{"1s", report{named: "q/main=example.com/port=3b:00.0", pods: "ns/q", entries: "v=example.com/port=3b:00.0=n", newer: true, alive: "u v"}, "port=3b:00.0 ns/q/main|u/main,v/main n"},
			{"2s", report{named: "q/main=example.com/port=3b:00.0", pods: "ns/q", entries: "v=example.com/port=3b:00.0=n", alive: "v"}, "port=3b:00.0 ns/q/main|v/main n"}}},
		{name: "the kubelet has lost its checkpoint", steps: []step{{"0s", report{named: named, pods: "ns/p", entries: entry}, both}, {"21s", report{started: "20s", lacksOwn: true, newer: true}, held + "n"},
			{"22s", report{started: "20s", pods: "ns/p", newer: true}, held + "n; " + lost}, {"1h", report{started: "20s", pods: "ns/p", newer: true}, held + "n; " + lost},
			{"2h", report{started: "20s", pods: "ns/p", newer: true, named: "q/main=example.com/port=3b:00.0"}, "port=3b:00.0 ns/p/main,ns/q/main| n; " + lost + "; shared ns/p/main,ns/q/main"},
			{"3h", report{started: "20s", newer: true, named: "q/main=example.com/port=3b:00.0"}, "port=3b:00.0 ns/q/main| n"}}},
		{name: "the kubelet has lost its checkpoint, and gets its pods late", rules: holders.Rules{InPod: true}, steps: []step{{"0s", report{named: named, pods: "ns/p", entries: entry}, both},
			{"21s", report{started: "20s", lacksOwn: true, newer: true}, held + "n"}, {"1m", report{started: "20s", lacksOwn: true, newer: true}, "port=3b:00.0 | n"},
			{"2m", report{started: "20s", pods: "ns/p", newer: true}, held + "n; " + lost}, {"3m", report{started: "20s", newer: true}, ""}}},
		{name: "the kubelet has dropped it", steps: []step{{"0s", report{named: named, pods: "ns/p", entries: entry}, both}, {"1s", report{lacksOwn: true, newer: true}, held + "n"},
			{"3.9s", report{lacksOwn: true, newer: true}, held + "n"}, {"4s", report{lacksOwn: true, newer: true}, ""}}},
		{name: "API server away, no own pod", rules: holders.Rules{Node: "node"}, steps: []step{{"0s", report{named: named, pods: "ns/p ns/s-node", lacksOwn: true}, held + lacks},
			{"1h", report{started: "20s", pods: "ns/s-node", lacksOwn: true}, held + lacks}, {"2h", report{started: "20s", pods: "ns/s-node", lacksOwn: true}, held + lacks},
			{"3h", report{started: "20s", pods: "ns/s-node", lacksOwn: true}, held + lacks}}},
		{name: "restarted before it knew its pods", rules: holders.Rules{Node: "node"}, steps: []step{{"0s", report{started: "-1s", pods: "ns/s-node", lacksOwn: true}, "awaiting"},
			{"3s", report{started: "2s", pods: "ns/s-node", lacksOwn: true}, "awaiting"}, {"12.9s", report{started: "2s", pods: "ns/s-node", lacksOwn: true}, "awaiting"},
			{"13s", report{started: "2s", pods: "ns/s-node", lacksOwn: true}, ""}}},
		{name: "restarted twice, before a pod has returned", steps: []step{{"0s", report{named: named, pods: "ns/p"}, held + lacks}, {"21s", report{started: "20s"}, held + lacks},
			{"31s", report{started: "30s"}, held + lacks}, {"44s", report{started: "30s"}, held + lacks}}},
		{name: "connections refused for an hour", steps: []step{{"0s", report{named: named, entries: entry}, both}, {"1h", report{kubelet: gone, entries: entry}, both + "; no pod-resources"}, {"1h1s", report{}, held + "n"}}},
		{name: "no socket from the start", steps: []step{{"0s", report{kubelet: fs.ErrNotExist}, "no pod-resources"}}},
		{name: "no socket from the start, and a young kubelet later", steps: []step{{"0s", report{kubelet: fs.ErrNotExist}, "no pod-resources"}, {"20s", report{started: "19s"}, "awaiting"}, {"29s", report{started: "19s"}, ""}}},
		{name: "no answer within the grace time", steps: []step{{"0s", report{kubelet: os.ErrDeadlineExceeded}, "awaiting; no pod-resources"}, {"5m", report{kubelet: os.ErrDeadlineExceeded}, "no pod-resources"}}},
		{name: "refused: the grace time does not run", steps: []step{{"0s", report{kubelet: gone}, "awaiting; no pod-resources"}, {"5m", report{kubelet: gone}, "awaiting; no pod-resources"}}},
		{name: "unexplained entry in an old file", steps: []step{{"0s", report{entries: entry}, old}, {"4m59s", report{entries: entry}, old}, {"5m", report{entries: entry}, ""}}},
		{name: "in a newer one", steps: []step{{"0s", report{entries: entry}, old}, {"1h", report{entries: entry, newer: true}, old}, {"1h1m", report{entries: entry}, old}}},
		{name: "it is gone", steps: []step{{"0s", report{entries: entry}, old}, {"1s", report{}, ""}}},
		{name: "entry of a container that was named: ended, and alive again", steps: []step{{"0s", report{entries: entry, named: named}, both}, {"1s", report{entries: entry}, both}, {"4s", report{entries: entry}, ""},
			{"5s", report{entries: entry, newer: true}, old}}},
		{name: "new entry, newer than the answer that names the former container", steps: []step{{"0s", report{named: named, entries: entry, newer: true}, both}, {"1s", report{entries: entry}, both}, {"4s", report{entries: entry}, old}}},
		{name: "renamed resource", steps: []step{{"0s", report{entries: former}, "former=3b:00.0 |u/main n"}, {"1s", report{named: "p/main=example.com/former=3b:00.0"}, "former=3b:00.0 ns/p/main| n"}}},
		{name: "unknown resource without annotation", steps: []step{{"0s", report{entries: "u=example.com/gpu=3b:00.0=/dev/gpu0"}, "gpu=example.com/gpu/3b:00.0 |u/main gpu0 foreign"},
			{"1s", report{named: "p/main=example.com/gpu=3b:00.0"}, ""}}},
		{name: "another plugin's CDI devices: with a PCI address and others", steps: []step{{"0s", report{entries: "u=example.com/nic=0000:3b:00.0=cdi v=example.com/nic=3b:00.1=cdi w=example.com/gpu=gpu0=cdi"},
			"nic=example.com/nic/0000:3b:00.0 |u/main //0000:3b:00.0 foreign; nic=example.com/nic/3b:00.1 |v/main //0000:3b:00.1 foreign"}}},
		{name: "our resource name, another plugin's CDI device", steps: []step{{"0s", report{entries: "u=example.com/port=0000:3b:00.0=cdi"}, "port=0000:3b:00.0 |u/main //0000:3b:00.0"}}},
		{name: "the driver: another plugin's CDI devices in another domain", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{entries: "u=example.com/nic=0001:18:02.1=annotated v=example.com/nic=0001:18:02.2=cdi"},
			"nic=0001:18:02.1 |u/main //0001:18:02.1 other; nic=0001:18:02.2 |v/main //0001:18:02.2 other"}}},
		{name: "another plugin's pod, force-deleted while it has processes", steps: []step{{"0s", report{entries: "u=example.com/gpu=gpu0=/dev/n", named: "p/main=example.com/gpu=gpu0"}, "gpu=example.com/gpu/gpu0 ns/p/main|u/main n foreign"},
			{"1s", report{alive: "u"}, "gpu=example.com/gpu/gpu0 ns/p/main|u/main n foreign"}, {"1h", report{alive: "u"}, "gpu=example.com/gpu/gpu0 ns/p/main|u/main n foreign"}, {"2h", report{}, ""}}},
		{name: "former name, no checkpoint", steps: []step{{"0s", report{noCheckpoint: true, named: "p/main=example.com/former=3b:00.0 p/main=example.com/gpu=0"}, "former=3b:00.0 ns/p/main|  perhaps"},
			{"1s", report{noCheckpoint: true}, "former=3b:00.0 ns/p/main|  perhaps"}, {"4s", report{noCheckpoint: true}, ""}}},
		{name: "former name, checkpoint unreadable", steps: []step{{"0s", report{file: fs.ErrPermission, named: "p/main=example.com/former=3b:00.0 p/main=example.com/gpu=0"}, "former=3b:00.0 ns/p/main|  perhaps; no checkpoint"},
			{"1h", report{entries: former, named: "p/main=example.com/former=3b:00.0"}, "former=3b:00.0 ns/p/main|u/main n"}}},
		{name: "another plugin with ids like ours, checkpoint unreadable for a while", steps: []step{{"0s", report{file: fs.ErrPermission, named: "p/main=example.com/nic=3b:00.0"}, "nic=3b:00.0 ns/p/main|  perhaps; no checkpoint"},
			{"1s", report{entries: "u=example.com/nic=3b:00.0=/dev/nic0", named: "p/main=example.com/nic=3b:00.0"}, "nic=example.com/nic/3b:00.0 ns/p/main|u/main nic0 foreign"}}},
		{name: "checkpoint unreadable", steps: []step{{"0s", report{entries: entry}, old}, {"1h", report{file: fs.ErrPermission}, old + "; no checkpoint"}, {"2h", report{}, ""}}},
		{name: "checkpoint unreadable, given out again", steps: []step{{"0s", report{entries: entry}, old}, {"2s", report{file: fs.ErrPermission, given: "example.com/port=3b:00.0=m@1s"}, "port=3b:00.0 |u/main m,n; no checkpoint"}}},
		{name: "claim ends", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{claims: a}, "accelerator.b-com.com=3b:00.0 | c"}, {"1s", report{kubelet: gone}, "no pod-resources"}}},
		{name: "claim that claims.json lacks", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main|  unknown"}}},
		{name: "claim just unprepared", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{claims: a, named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main| c"}, {"1s", report{named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main| c"},
			{"1.1s", report{}, ""}}},
		{name: "claims.json removed, the kubelet restarted", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{claims: a, named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main| c"},
			{"1s", report{named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main| c"}, {"2s", report{started: "1.5s", lacksOwn: true}, "accelerator.b-com.com=3b:00.0 ns/p/main| c"}}},
		{name: "claims.json has been removed", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{claims: a, named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main| c"},
			{"1s", report{named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main| c"}, {"1h", report{named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main| c"}}},
		{name: "other API: claim", steps: []step{{"0s", report{named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main|  unknown other"}}},
		{name: "other API: claim on record, no socket", steps: []step{{"0s", report{recorded: a, kubelet: fs.ErrNotExist}, taken + "; no pod-resources"},
			{"1h", report{recorded: a, kubelet: fs.ErrNotExist}, taken + "; no pod-resources"}, {"2h", report{recorded: a, started: "2h"}, taken + "; awaiting"}, {"3h", report{recorded: a, started: "2h"}, taken}, {"3h5m", report{recorded: a, started: "2h"}, ""}}},
		{name: "other API: claim on record, perhaps of an init container", steps: []step{{"0s", report{recorded: a}, taken}, {"4m59s", report{recorded: a}, taken}, {"5m", report{recorded: a}, ""},
			{"6m", report{recorded: a}, ""}, {"7m", report{}, ""}, {"8m", report{recorded: a}, taken}}},
		{name: "other API: claim on record, its pod ends", steps: []step{{"0s", report{recorded: a, named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main| c other"},
			{"10s", report{recorded: a}, "accelerator.b-com.com=3b:00.0 ns/p/main| c other"}, {"13s", report{recorded: a}, ""}, {"14s", report{recorded: a}, ""}}},
		{name: "other API: claim on record, no answer within the grace time", steps: []step{{"0s", report{recorded: a, kubelet: os.ErrDeadlineExceeded}, taken + "; awaiting; no pod-resources"},
			{"5m", report{recorded: a, kubelet: os.ErrDeadlineExceeded}, taken + "; no pod-resources"}}},
		{name: "other API: claim on record, the kubelet lists its pod", steps: []step{{"0s", report{recorded: a, named: "p/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main| c other"},
			{"1s", report{recorded: a, kubelet: gone}, "accelerator.b-com.com=3b:00.0 ns/p/main| c other; no pod-resources"}}},
		{name: "the driver's own record", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{recorded: a, kubelet: fs.ErrNotExist}, "no pod-resources"}}},
		{name: "other API: resource", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{entries: entry}, old + " other"}}},
		{name: "unit of a pool", steps: []step{{"0s", report{entries: "u=example.com/port=unit-0=n"}, "port=unit-0 |u/main n"}}},
		{name: "two pods", steps: []step{{"0s", report{named: named + " q/main=example.com/port=3b:00.0"}, "port=3b:00.0 ns/p/main,ns/q/main|  unknown; shared ns/p/main,ns/q/main"}}},
		{name: "one container under two names", steps: []step{{"0s", report{named: named + " p/main=example.com/former=3b:00.0", entries: former},
			"former=3b:00.0 ns/p/main|u/main n; " + held + lacks}}},
		{name: "two containers of a pod", steps: []step{{"0s", report{named: named + " p/side=example.com/port=3b:00.0"}, "port=3b:00.0 ns/p/main,ns/p/side|  unknown; shared ns/p/main,ns/p/side"}}},
		{name: "shared claim", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{claims: a, named: "p/main=" + claim + " q/main=" + claim}, "accelerator.b-com.com=3b:00.0 ns/p/main,ns/q/main| c"}}},
		{name: "resource and claim with admin access", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{admin: a, named: "q/main=" + claim + " " + named}, held + " other"}}},
		{name: "resource and claim", rules: holders.Rules{DRA: true}, steps: []step{{"0s", report{claims: a, named: "p/main=" + claim + " " + named},
			"accelerator.b-com.com=3b:00.0 ns/p/main| c; " + held + " other; shared ns/p/main,ns/p/main"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.rules
			r.Owns, r.DevRoot, r.Grace = func(resource, _ string) bool { return resource == p && !tt.rules.DRA }, "/dev", grace
			r.Pod, r.Confirm, r.Admission = cmp.Or(r.Pod, "own"), holders.Confirm, holders.Admission
			var s holders.State
			for _, step := range tt.steps {
				at := ago(t, step.at)
				s = holders.Merge(s, step.from.make(t, at), r)
				compare.Equal(t, step.at, step.want, text(s.Holdings()))
			}
		})
	}
}

// A pod can have a thousand of another plugin's devices in each of hundreds of init containers. For each container, the
// state keeps only one of them, with the device nodes of all.
func TestMergeManyDevicesOfAnotherPlugin(t *testing.T) {
	rules := holders.Rules{Owns: func(resource, _ string) bool { return resource == "example.com/port" }, Pod: "own", DevRoot: "/dev", Grace: grace}
	r := report{}.make(t, epoch)
	e := entryOf(t, "u", "example.com/kvm", "kvm0", "/dev/dfl-port.0")
	for i := range 999 {
		e.IDs = append(e.IDs, fmt.Sprintf("kvm%d", i+1))
	}
	r.Checkpoint.Entries = []checkpoint.Entry{e}
	want := "kvm=example.com/kvm/kvm0 |u/main dfl-port.0 foreign"
	compare.Equal(t, "holdings", want, text(holders.Merge(holders.State{}, r, rules).Holdings()))
}

// The same goes for virtual functions, whose ids are PCI addresses, unless the container got them through CDI.
func TestMergeManyFunctionsOfAnotherPlugin(t *testing.T) {
	rules := holders.Rules{Owns: func(resource, _ string) bool { return resource == "example.com/port" }, Pod: "own", DevRoot: "/dev", Grace: grace}
	for node, want := range map[string]int{"/dev/vfio/7": 1, "cdi": 256} {
		r := report{}.make(t, epoch)
		e := entryOf(t, "u", "example.com/nic", "0000:18:00.0", node)
		for i := range 255 {
			e.IDs = append(e.IDs, fmt.Sprintf("0000:18:%02x.%d", (i+1)/8, (i+1)%8))
		}
		r.Checkpoint.Entries = []checkpoint.Entry{e}
		compare.Equal(t, "holdings with "+node, want, len(holders.Merge(holders.State{}, r, rules).Holdings().Of))
	}
}

// The state can't grow larger than the sources.
func TestMergeLargeAnswer(t *testing.T) {
	r := report{}.make(t, epoch)
	for i := range 50_000 {
		r.Answer.Holders[holders.Key{Resource: "example.com/port", ID: fmt.Sprintf("\x00%d", i)}] = []podresources.Holder{{}}
		r.Answer.Holders[holders.Key{Resource: "example.com/gpu", ID: fmt.Sprint(i)}] = []podresources.Holder{{}}
	}
	rules := holders.Rules{Owns: func(resource, _ string) bool { return resource == "example.com/port" }, Pod: "own", Grace: grace}
	s := holders.Merge(holders.State{}, r, rules)
	compare.Equal(t, "devices", 50_000, len(s.Holdings().Of))
	for _, after := range []time.Duration{time.Second, time.Minute} {
		s = holders.Merge(s, report{}.make(t, epoch.Add(after)), rules)
	}
	compare.Equal(t, "devices after their end", 0, len(s.Holdings().Of))
}

// The end of a container is confirmed by asking again, Confirm after the first answer that lacks the container. Asking
// for other reasons in between doesn't change that.
func TestAgain(t *testing.T) {
	const entry, named = "u=example.com/port=3b:00.0=n", "p/main=example.com/port=3b:00.0"
	rules := holders.Rules{Owns: func(resource, _ string) bool { return resource == port }, Pod: "own", DevRoot: "/dev", Grace: grace,
		Confirm: holders.Confirm, Admission: holders.Admission}
	var s holders.State
	for _, step := range []struct {
		at, named string
		want      time.Duration
	}{
		{"0s", named, 0}, {"57s", "", time.Second}, {"58s", "", time.Second}, // the checkpoint has an entry that no answer has
		{"59500ms", "", 600 * time.Millisecond}, {"60s", "", 0},
	} {
		at := ago(t, step.at)
		s = holders.Merge(s, report{pods: "ns/p", named: step.named, entries: entry}.make(t, at), rules)
		compare.Equal(t, "at "+step.at+": ask again after", step.want, s.Holdings().Again)
	}
}
