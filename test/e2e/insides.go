package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// insides maps each process that runs the workload to the device nodes inside its container, which don't change while
// the process is running.
type insides map[string]inside

type inside struct {
	pod   string
	nodes []string // MAJOR:MINOR
}

// read returns the device nodes inside all containers, mapped to the sorted names of the pods that have them. It reads
// the containers' own /dev, so it also finds init containers, and containers that the kubelet doesn't know about.
func (all insides) read() map[string][]string {
	var running []string
	for _, pid := range cluster.PodProcesses() {
		running = append(running, strconv.Itoa(pid))
	}
	maps.DeleteFunc(all, func(pid string, _ inside) bool { return !slices.Contains(running, pid) })
	found := map[string][]string{}
	for _, pid := range running {
		in, ok := all[pid]
		if !ok {
			if in, ok = look(pid); !ok {
				continue // the container has ended, or hasn't started yet
			}
			all[pid] = in
		}
		for _, node := range in.nodes {
			if !slices.Contains(found[node], in.pod) {
				found[node] = append(found[node], in.pod)
			}
		}
	}
	for _, pods := range found {
		slices.Sort(pods)
	}
	return found
}

// look returns the pod and the device nodes of a process's container. The process must be running the workload with an
// argument. Without an argument, it belongs to a sandbox; if it is running another program, it may be the runtime,
// which hasn't entered the container yet.
func look(pid string) (inside, bool) {
	dir := filepath.Join("/proc", pid)
	command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || !strings.HasPrefix(string(command), "/workload\x00") || strings.Count(string(command), "\x00") < 2 {
		return inside{}, false
	}
	environment, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return inside{}, false
	}
	var in inside
	for variable := range strings.SplitSeq(string(environment), "\x00") {
		if name, ok := strings.CutPrefix(variable, "HOSTNAME="); ok {
			in.pod = name
		}
	}
	nodes, _ := filepath.Glob(filepath.Join(dir, "root/dev/dfl-*"))
	for _, node := range nodes {
		var stat syscall.Stat_t
		if err := syscall.Stat(node, &stat); err != nil {
			return inside{}, false
		}
		in.nodes = append(in.nodes, fmt.Sprintf("%d:%d", stat.Rdev>>8, stat.Rdev&0xff))
	}
	return in, true
}

// podsWith returns how many pods have at least one of these device nodes.
func podsWith(nodes map[string][]string) int {
	pods := map[string]bool{}
	for _, names := range nodes {
		for _, name := range names {
			pods[name] = true
		}
	}
	return len(pods)
}

// absences measures how long ports go without being offered under any name.
type absences struct {
	ports   map[string]string // device node number to port
	offered map[string]time.Time
	held    map[string]time.Time // when a pod last held the port
	last    time.Time            // when the latest sample was taken

	free  longest // ports that no pod held
	after longest // other ports, since their pod ended
}

// longest counts absences and records how long the longest one lasted.
type longest struct {
	count int
	most  time.Duration
}

func (l *longest) add(took time.Duration) {
	l.count++
	l.most = max(l.most, took)
}

func (l longest) String() string {
	if l.count == 0 {
		return "none"
	}
	return fmt.Sprintf("at most %.2f s of %d", l.most.Seconds(), l.count)
}

// note processes a sample, and returns what is wrong. A port that no pod held must not go without being offered for
// longer than the limit. Any other port must be offered within [soon] after its pod has ended. A port counts as held in
// three cases: the latest list of pods before the sample contains it; that list contains another port of the same card
// (the card may be offered as a whole); or a device node of one of these ports is inside a container.
func (a *absences) note(sample glimpse, before held, limit time.Duration) (wrong []string) {
	if a.offered == nil {
		a.offered, a.held = map[string]time.Time{}, map[string]time.Time{}
	}
	offered, holds := map[string]bool{}, map[string]bool{} // ports; cards
	cardOf := func(port string) string { return strings.TrimSuffix(port, "-p1") }
	for name, devices := range sample.offers {
		for _, device := range devices {
			for _, port := range portsOf(name, device) {
				offered[port] = true
			}
		}
	}
	for _, devices := range before {
		for device := range devices {
			holds[cardOf(device)] = true
		}
	}
	for node := range sample.nodes {
		holds[cardOf(a.ports[node])] = true
	}
	for _, port := range a.ports {
		was, held := a.offered[port], holds[cardOf(port)]
		if held {
			a.held[port] = sample.at
		}
		if !offered[port] {
			continue
		}
		a.offered[port] = sample.at
		away, ended := sample.at.Sub(was), sample.at.Sub(a.held[port])
		switch {
		case was.IsZero(), was.Equal(a.last), held:
		case a.held[port].After(was):
			a.after.add(ended)
			if ended > soon {
				wrong = append(wrong, fmt.Sprintf("%s is offered %v after its pod had ended", port, ended))
			}
		default:
			a.free.add(away)
			if away > limit && ended > soon {
				wrong = append(wrong, fmt.Sprintf("%s was free, and not offered for %v", port, away))
			}
		}
	}
	a.last = sample.at
	slices.Sort(wrong)
	return wrong
}
