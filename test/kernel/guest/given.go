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

// given allocates a device as soon as the kubelet is told that it is healthy, and wants
// the container to be given these nodes, or names of CDI, in this order.
func (r *rig) given(ctx context.Context, device string, want []string) error {
	if r.kubelet == nil {
		return errors.New("no kubelet runs")
	}
	for !met(story.Expectation{Device: device, Health: "healthy"}, r.newest().of("")) {
		if pause(ctx, time.Millisecond) != nil {
			return r.disappointed(ctx)
		}
	}
	resource, err := r.newest().listing(device)
	if err != nil {
		return err
	}
	answer, err := r.kubelet.kubelet.Allocate(ctx, resource, device)
	if err != nil {
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
		return fmt.Errorf("a container is given %v", got)
	}
	return nil
}

// cdi waits until the CDI specs give a container these nodes for a device, by whatever
// vendor; without nodes, until they do not have the device.
func (r *rig) cdi(ctx context.Context, device string, want []string) error {
	for {
		specs, err := readSpecs(cdiDir)
		if err == nil && slices.Equal(specs[device], want) {
			return nil
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("%w; the specs say %v (%v)", context.Cause(ctx), specs, err)
		}
	}
}

// readSpecs reads all CDI specs of a directory: the names of the nodes that each
// device has below /dev, which a container gets under the same names.
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
					return nil, fmt.Errorf("%s: %s of the host is %s in the container", file, n.HostPath, n.Path)
				}
				nodes[d.Name] = append(nodes[d.Name], strings.TrimPrefix(n.Path, "/dev/"))
			}
		}
	}
	return nodes, nil
}
