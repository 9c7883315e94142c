// Command kernelrig prepares claims on test/kernel's test machine. It uses the driver's inventory, claims and CDI spec,
// but neither an API server nor a kubelet. It executes commands from stdin, one per line, until end of file, and
// answers each with one line on stdout: "ok" or an error. It logs to stderr.
//
//	prepare NAME DEVICE [AFU]     for a claim whose only request is card
//	unprepare NAME
//	taint DEVICE [VALUE:EFFECT]   waits until the device has this taint, or no taint
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
)

const (
	node    = "node"
	request = "card"
	// requestTimeout is the time limit for a command. Prepare reserves 5 s of it for its answer.
	requestTimeout = 8 * time.Second
)

func main() {
	dir := flag.String("dir", "", "directory of the claims")
	cdiDir := flag.String("cdi-dir", "", "directory of the CDI spec")
	hook := flag.String("hook", "", "path of accelerator-fpga")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *dir, *cdiDir, *hook); err != nil {
		fmt.Fprintln(os.Stderr, "kernelrig:", err)
		os.Exit(1)
	}
}

// rig connects the parts of a driver.
type rig struct {
	*inventory.Inventory
	claims *claims.Claims
	taints func(*inventory.Device) []resourceapi.DeviceTaint
}

func run(ctx context.Context, dir, cdiDir, hook string) error {
	cfg := config.Defaults()
	cfg.HostDevRoot, cfg.LogLevel = cfg.DevRoot, "debug"
	// Use the same values as the daemon in the test stories. With the defaults, the stories would take too long.
	cfg.HealthInterval, cfg.RecoveryHold, cfg.ReprogramTimeout, cfg.FlapLimit = 100*time.Millisecond, 300*time.Millisecond, time.Second, 0
	counts := metrics.New("")
	log := daemon.OpenLog(cfg, os.Stderr, counts)
	defer log.Close()

	spec, err := cdi.Open(cdiDir, draname.Driver+"/claim", cfg.HostDevRoot)
	if err != nil {
		return err
	}
	defer spec.Close()
	r := &rig{taints: slices.Options{Effect: resourceapi.DeviceTaintEffectNoExecute}.Taints}
	r.claims, err = claims.Open(claims.Config{
		Dir: dir, Boot: "boot", Node: node, Spec: spec, HostSysRoot: cfg.SysfsRoot, Devices: r, Taints: r.taints, Log: log.Logger, Metrics: counts,
		Programming: &claims.Programming{Hook: cdi.Hook{Path: hook}, Store: programming.DefaultStore, Ports: true},
	})
	if err != nil {
		return err
	}
	watched := daemon.Watching(cfg, counts)
	watched.Policy.Name = func(*inventory.Device) (string, error) { return draname.Driver, nil }
	watched.Holders = func(ctx context.Context) inventory.Holdings {
		asked := time.Now()
		held, err := r.claims.Holdings(ctx)
		return inventory.Holdings{Of: held, Asked: asked, Err: err}
	}
	watched.Given = r.claims.Added()
	if watched.Record, err = r.claims.Holdings(ctx); err != nil {
		return err
	}
	n, err := daemon.OpenNode(cfg, watched, log.Logger, log.Logger)
	if err != nil {
		return err
	}
	r.Inventory = n.Inventory

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return n.Watch(ctx) })
	tasks.Go(func() error { return r.Inventory.Run(ctx) })
	tasks.Go(func() error { return r.claims.Run(ctx) })
	tasks.Go(func() error { defer cancel(); return r.serve(ctx) })
	return tasks.Wait()
}

// serve executes the commands from stdin.
func (r *rig) serve(ctx context.Context) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer := "ok"
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		if err := r.do(limited, strings.Fields(lines.Text())); err != nil {
			answer = "error: " + err.Error()
		}
		cancel()
		if _, err := fmt.Println(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (r *rig) do(ctx context.Context, words []string) error {
	words = append(words, "", "", "", "")
	switch name := words[1]; words[0] {
	case "prepare":
		return r.claims.Prepare(ctx, claimOf(name, words[2], words[3])).Err
	case "unprepare":
		return r.claims.Unprepare(ctx, kubeletplugin.NamespacedObject{
			NamespacedName: types.NamespacedName{Namespace: "default", Name: name}, UID: types.UID(name),
		})
	case "taint":
		return r.tainted(ctx, name, words[2])
	}
	return fmt.Errorf("found %q, want prepare, unprepare or taint", words[0])
}

// claimOf returns a claim for one device. If afu isn't "", the claim's configuration requires that AFU.
func claimOf(name, device, afu string) *resourceapi.ResourceClaim {
	allocated := resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: request, Driver: draname.Driver, Pool: node, Device: draname.Device(device)},
	}}
	if afu != "" {
		text := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "afuId": %q}`, claims.ConfigAPIVersion, claims.ConfigKind, afu)
		allocated.Config = []resourceapi.DeviceAllocationConfiguration{{
			Source: resourceapi.AllocationConfigSourceClaim,
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: draname.Driver, Parameters: runtime.RawExtension{Raw: []byte(text)},
			}},
		}}
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Status:     resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: allocated}},
	}
}

// tainted waits until the device is listed with the taint want, or without a taint if want is "".
func (r *rig) tainted(ctx context.Context, device, want string) error {
	for {
		s, stale := r.Latest()
		found := "no device"
		if d := s.Device(device); d != nil {
			found = ""
			for _, taint := range r.taints(d) {
				found = taint.Value + ":" + string(taint.Effect)
			}
		}
		if found == want {
			return nil
		}
		select {
		case <-stale:
		case <-ctx.Done():
			return fmt.Errorf("taint of %s: found %q, want %q", device, found, want)
		}
	}
}
