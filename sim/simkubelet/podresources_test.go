package simkubelet_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/kubelet/podresources"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
)

// patience bounds all waits.
const patience = 20 * time.Second

func startPodResources(t *testing.T, socket string) *simkubelet.PodResources {
	t.Helper()
	p, err := simkubelet.StartPodResources(context.WithoutCancel(t.Context()), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// holders returns the result of podresources.List: "RESOURCE ID" to holders.
func holders(t *testing.T, socket string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all, err := podresources.List(ctx, socket)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]string{}
	for key, list := range all.Holders {
		var names []string
		for _, holder := range list {
			names = append(names, holder.String())
		}
		held[key.Resource+" "+key.ID] = strings.Join(names, " ")
	}
	return held
}

func TestHoldAndRelease(t *testing.T) {
	socket := filepath.Join(directory(t), "pod-resources", "kubelet.sock")
	p := startPodResources(t, socket)
	for _, step := range []struct {
		name string
		do   func()
		want map[string]string
	}{
		{"no holder", func() {}, map[string]string{}},
		{"one pod", func() { p.Hold("ns", "pod", "main", resource, "3b:00.0", "3c:00.0") },
			map[string]string{resource + " 3b:00.0": "ns/pod/main", resource + " 3c:00.0": "ns/pod/main"}},
		{"a second container, another resource, another pod", func() {
			p.Hold("ns", "pod", "side", "other/thing", "3b:00.0")
			p.Hold("ns", "pod2", "main", resource, "3b:00.0")
			p.Hold("ns2", "pod", "main", resource)
			p.Hold("ns2", "pod", "main", resource, "5e:00.0")
		}, map[string]string{
			resource + " 3b:00.0": "ns/pod/main ns/pod2/main", resource + " 3c:00.0": "ns/pod/main",
			"other/thing 3b:00.0": "ns/pod/side", resource + " 5e:00.0": "ns2/pod/main",
		}},
		{"a claim of two containers", func() {
			p.HoldClaim("ns", "pod", "main", "claim", "driver.example.com", "pci-0000-3b-00-0", "pci-0000-3c-00-0")
			p.HoldClaim("ns", "pod", "side", "claim", "driver.example.com", "pci-0000-3b-00-0")
		}, map[string]string{
			resource + " 3b:00.0": "ns/pod/main ns/pod2/main", resource + " 3c:00.0": "ns/pod/main",
			"other/thing 3b:00.0": "ns/pod/side", resource + " 5e:00.0": "ns2/pod/main",
			"driver.example.com pci-0000-3b-00-0": "ns/pod/main ns/pod/side", "driver.example.com pci-0000-3c-00-0": "ns/pod/main",
		}},
		{"the first pod ends", func() { p.Release("ns", "pod") },
			map[string]string{resource + " 3b:00.0": "ns/pod2/main", resource + " 5e:00.0": "ns2/pod/main"}},
		{"an unknown pod ends", func() { p.Release("ns2", "pod2") },
			map[string]string{resource + " 3b:00.0": "ns/pod2/main", resource + " 5e:00.0": "ns2/pod/main"}},
	} {
		step.do()
		if diff := cmp.Diff(step.want, holders(t, socket)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	if n := p.Asked(); n != 6 {
		t.Errorf("asked %d times, want 6", n)
	}
}

func TestPodResourcesMisbehave(t *testing.T) {
	const key = resource + " 3b:00.0"
	socket := filepath.Join(directory(t), "p.sock")
	p := startPodResources(t, socket)
	p.Hold("ns", "pod", "main", resource, "3b:00.0")
	for _, tc := range []struct {
		name      string
		behaviour simkubelet.PodBehaviour
		want      string
		asked     int
	}{
		{"refuses", simkubelet.PodBehaviour{Refuse: true, Stall: true}, "Unavailable", 0},
		{"stalls", simkubelet.PodBehaviour{Stall: true, Fail: "no"}, "DeadlineExceeded", 1},
		{"fails", simkubelet.PodBehaviour{Fail: "no checkpoint", Nothing: true}, "no checkpoint", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := p.Asked()
			p.Behave(tc.behaviour)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			got, err := podresources.List(ctx, socket)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want an error with %q", got, err, tc.want)
			}
			if n := p.Asked() - before; n != tc.asked {
				t.Errorf("asked %d times, want %d", n, tc.asked)
			}
			p.Behave(simkubelet.PodBehaviour{})
			if diff := cmp.Diff(map[string]string{key: "ns/pod/main"}, holders(t, socket)); diff != "" {
				t.Errorf("good again (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodResourcesWrongAnswers(t *testing.T) {
	const key = resource + " 3b:00.0"
	socket := filepath.Join(directory(t), "p.sock")
	p := startPodResources(t, socket)
	p.Hold("ns", "pod", "main", resource, "3b:00.0")

	p.Behave(simkubelet.PodBehaviour{Nothing: true})
	if got := holders(t, socket); len(got) != 0 {
		t.Errorf("held devices: %v, want none", got)
	}
	p.Behave(simkubelet.PodBehaviour{Garbage: true})
	got := holders(t, socket)
	if got[key] != "ns/pod/main" {
		t.Errorf("holder beside garbage: %q, want ns/pod/main", got[key])
	}
	for _, id := range []string{"", "\x00", "3b:00.0\x00", strings.Repeat("x", 10_000)} {
		if holder := got[resource+" "+id]; len(holder) < 20_000 || !strings.Contains(holder, "\x00") {
			t.Errorf("%.10q is held by %.40q…, want long names with a NUL", id, holder)
		}
	}
	p.Behave(simkubelet.PodBehaviour{Garbage: true, Nothing: true})
	alone := holders(t, socket)
	delete(got, key)
	delete(alone, key) // garbage names every pod again
	if diff := cmp.Diff(got, alone); diff != "" {
		t.Errorf("garbage alone (-want +got):\n%s", diff)
	}
	p.Release("ns", "pod")
	maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasPrefix(name, resource) })
	if diff := cmp.Diff(got, holders(t, socket)); diff != "" {
		t.Errorf("garbage when nothing is held (-want +got):\n%s", diff)
	}
}

func TestPodResourcesRestart(t *testing.T) {
	dir := directory(t)
	socket := filepath.Join(dir, "p.sock")
	ended, end := context.WithCancel(t.Context())
	end()
	for range 3 {
		p := startPodResources(t, socket)
		if err := p.AwaitAsked(ended, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("AwaitAsked: %v, want the error of the context", err)
		}
		p.Hold("ns", "pod", "main", resource, "3b:00.0")
		if got := holders(t, socket); len(got) != 1 || p.AwaitAsked(t.Context(), 1) != nil {
			t.Errorf("held devices: %v, want one, and that the kubelet was asked", got)
		}
		p.Stop()
		p.Stop()
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("directory after Stop: %v, want it empty", got)
		}
		if _, err := podresources.List(t.Context(), socket); err == nil {
			t.Error("List answered after Stop")
		}
		if err := p.AwaitAsked(t.Context(), 9); err == nil || !strings.Contains(err.Error(), "the kubelet has stopped") {
			t.Errorf("AwaitAsked after Stop: error %v", err)
		}
	}
}

func TestStartPodResourcesFails(t *testing.T) {
	dir := directory(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, socket, want string }{
		{"on a file", file, "pod-resources socket: "},
		{"below a file", filepath.Join(file, "p.sock"), "pod-resources directory: "},
		{"a path that is too long", filepath.Join(dir, strings.Repeat("x", 200)), "pod-resources socket: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := simkubelet.StartPodResources(t.Context(), tc.socket)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want an error that begins with %q", err, tc.want)
			}
		})
	}
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the file: %v, %v, want it to stay", info, err)
	}
}
