package cdi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// errInvalid means that no runtime would accept the spec.
var errInvalid = errors.New("new content is invalid")

// hookTimeout is how long the runtime lets a hook run, in seconds. It is longer than the hook's own deadline, because a
// runtime that kills a hook doesn't say why. It is shorter than the 2 minutes that the kubelet waits for a container to
// start, because otherwise the hook would keep running after the kubelet has given up.
const hookTimeout = 110

// content is what a spec file should contain, and the names of the devices in it.
type content struct {
	spec  specs.Spec
	bytes []byte            // the spec as JSON; empty if there should be no file
	names map[string]string // id → qualified name of each device in the spec
}

// document is a spec as written to the file. It leaves out the edits that apply to all devices. These are never used,
// but the library would write them as an empty object, under a key that some versions of CDI's JSON schema don't allow.
type document struct {
	specs.Spec
	ContainerEdits *struct{} `json:"containerEdits,omitempty"`
}

// render returns the content of the spec file for the given devices. The result doesn't depend on their order.
func render(kind, hostDevRoot string, devices []Device) (*content, error) {
	c := &content{spec: specs.Spec{Kind: kind}, names: map[string]string{}}
	vendor, class := parser.ParseQualifier(kind)
	for _, d := range devices {
		if len(d.Nodes) == 0 && len(d.Mounts) == 0 {
			continue // CDI rejects a device that doesn't change anything
		}
		device := specs.Device{Name: d.ID, ContainerEdits: specs.ContainerEdits{Env: append([]string(nil), d.Env...)}}
		for _, node := range slices.Concat(d.Nodes, d.SharedNodes) {
			if !filepath.IsLocal(node) {
				return nil, fmt.Errorf("%w: device %q: node: found %q, want a name below the device root", errInvalid, d.ID, node)
			}
			device.ContainerEdits.DeviceNodes = append(device.ContainerEdits.DeviceNodes, &specs.DeviceNode{
				Path:        path.Join("/dev", node),
				HostPath:    path.Join(hostDevRoot, node),
				Permissions: "rw",
				// Type, Major and Minor stay empty, because the runtime gets them from the device node itself.
			})
		}
		mount := func(file File, access string) error {
			for _, p := range []string{file.HostPath, file.Path} {
				if !filepath.IsAbs(p) || filepath.Clean(p) != p {
					return fmt.Errorf("%w: device %q: mount: found %q, want a clean absolute path", errInvalid, d.ID, p)
				}
			}
			device.ContainerEdits.Mounts = append(device.ContainerEdits.Mounts, &specs.Mount{
				HostPath: file.HostPath, ContainerPath: file.Path,
				Options: []string{"bind", access, "nosuid", "nodev", "noexec", "rprivate"},
			})
			return nil
		}
		for _, path := range d.Mounts {
			if err := mount(File{path, path}, "rw"); err != nil {
				return nil, err
			}
		}
		for _, file := range d.Files {
			if err := mount(file, "ro"); err != nil {
				return nil, err
			}
		}
		if d.Hook != nil {
			timeout := hookTimeout
			device.ContainerEdits.Hooks = []*specs.Hook{{
				HookName: cdi.CreateRuntimeHook, Path: d.Hook.Path, Args: d.Hook.Args, Timeout: &timeout,
			}}
		}
		c.spec.Devices = append(c.spec.Devices, device)
		c.names[d.ID] = parser.QualifiedName(vendor, class, d.ID)
	}
	if len(c.spec.Devices) == 0 {
		return c, nil
	}
	slices.SortFunc(c.spec.Devices, func(a, b specs.Device) int { return cmp.Compare(a.Name, b.Name) })
	var err error
	if c.spec.Version, err = specs.MinimumRequiredVersion(&c.spec); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	text, err := json.MarshalIndent(document{Spec: c.spec}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	c.bytes = append(text, '\n')
	return c, nil
}

// check reads and validates the file with the CDI library, the same way a runtime does. It returns an error unless the
// file contains exactly c.
func (c *content) check(path string) error {
	read, err := cdi.ReadSpec(path, 0)
	if disk := (*fs.PathError)(nil); errors.As(err, &disk) {
		return err
	}
	if err != nil { // the message may contain the name of the temporary file, which is different each time
		return fmt.Errorf("%w: %s", errInvalid, strings.ReplaceAll(err.Error(), path, "file"))
	}
	if !reflect.DeepEqual(*read.Spec, c.spec) {
		return fmt.Errorf("%w: a runtime would read other content than was written", errInvalid)
	}
	return nil
}

// covers reports whether each device in found has the same nodes, variables and hook as in c. found may contain fewer
// devices than c.
func (c *content) covers(found *specs.Spec) bool {
	if found.Kind != c.spec.Kind || !reflect.DeepEqual(found.ContainerEdits, specs.ContainerEdits{}) {
		return false
	}
	for _, d := range found.Devices {
		i, ok := slices.BinarySearchFunc(c.spec.Devices, d.Name, func(w specs.Device, name string) int { return cmp.Compare(w.Name, name) })
		if !ok || !reflect.DeepEqual(d, c.spec.Devices[i]) {
			return false
		}
	}
	return true
}
