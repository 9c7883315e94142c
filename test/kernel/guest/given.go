package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// given calls Allocate as soon as the kubelet's list shows the device as healthy. It returns an error unless the
// response contains these device nodes or CDI names, in this order.
func (r *rig) given(ctx context.Context, device string, want []string) error {
	if r.kubelet == nil {
		return errors.New("the kubelet is not running")
	}
	for !met(story.Expectation{Device: device, Health: "healthy"}, r.newest().of("")) {
		if pause(ctx, time.Millisecond) != nil {
			return r.unmet(ctx)
		}
	}
	resource, err := r.newest().resourceOf(device)
	if err != nil {
		return err
	}
	answer, err := r.kubelet.kubelet.Allocate(ctx, resource, device)
	if err != nil {
		return err
	}
	r.kubelet.kubelet.End(resource, device)                               // the container ends immediately
	if err := r.kubelet.kubelet.Allocated(resource, answer); err != nil { // doesn't record any devices, but writes the checkpoint
		return err
	}
	var got []string
	for _, d := range answer.Devices {
		got = append(got, strings.TrimPrefix(d.HostPath, "/dev/"))
	}
	for _, d := range answer.CdiDevices {
		got = append(got, d.Name)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("answer of Allocate: found %v, want %v", got, want)
	}
	return nil
}

// cdi waits until the CDI specs, from whatever vendor, contain exactly these device nodes for a device. If want is
// empty, it waits until no spec contains the device.
func (r *rig) cdi(ctx context.Context, device string, want []string) error {
	for {
		specs, err := readSpecs(cdiDir)
		if err == nil && slices.Equal(specs[device], want) {
			return nil
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("CDI specs: found %v (%v), want %v for %s: %w", specs, err, want, device, context.Cause(ctx))
		}
	}
}

// readSpecs reads all CDI specs in a directory, and returns the names in /dev of each device's nodes, keyed by the
// device's name. It returns an error if a device node has a different path in the container than on the host.
func readSpecs(dir string) (map[string][]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	nodes := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var spec struct {
			Devices []struct {
				Name           string
				ContainerEdits struct {
					DeviceNodes []struct{ Path, HostPath string }
				}
			}
		}
		if err := json.Unmarshal(text, &spec); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, d := range spec.Devices {
			for _, n := range d.ContainerEdits.DeviceNodes {
				if n.HostPath != "" && n.HostPath != n.Path {
					return nil, fmt.Errorf("%s: path: found %s, want hostPath %s", file, n.Path, n.HostPath)
				}
				nodes[d.Name] = append(nodes[d.Name], strings.TrimPrefix(n.Path, "/dev/"))
			}
		}
	}
	return nodes, nil
}
