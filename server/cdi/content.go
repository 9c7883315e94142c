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

// errInvalid: no runtime would take the spec.
var errInvalid = errors.New("the new one is invalid")

// hookTimeout is the number of seconds after which the runtime kills a hook. It is above the
// deadline of the hook itself, since the runtime gives no reason when it kills. It is below the
// 2 minutes after which the kubelet gives up the start of a container, but the hook continues.
const hookTimeout = 110

// content is what a file is to say.
type content struct {
	spec  specs.Spec
	bytes []byte            // the spec as JSON; empty: there is to be no file
	names map[string]string // id → qualified name of each device in the spec
}

// document is a spec as it is written: without edits for all devices at once,
// which we have none of. The library would write an empty object, under a key
// that not every version of the project's JSON schema allows.
type document struct {
	specs.Spec
	ContainerEdits *struct{} `json:"containerEdits,omitempty"`
}

// render turns devices into a spec. Equal devices in any order give equal bytes.
func render(kind, hostDevRoot string, devices []Device) (*content, error) {
	c := &content{spec: specs.Spec{Kind: kind}, names: map[string]string{}}
	vendor, class := parser.ParseQualifier(kind)
	for _, d := range devices {
		if len(d.Nodes) == 0 {
			continue // CDI refuses a device that changes nothing
		}
		device := specs.Device{Name: d.ID}
		for _, node := range d.Nodes {
			if !filepath.IsLocal(node) {
				return nil, fmt.Errorf("%w: device %q: node %q is not a name below the device root", errInvalid, d.ID, node)
			}
			device.ContainerEdits.DeviceNodes = append(device.ContainerEdits.DeviceNodes, &specs.DeviceNode{
				Path:        path.Join("/dev", node),
				HostPath:    path.Join(hostDevRoot, node),
				Permissions: "rw",
				// Neither type nor numbers: the runtime asks the node itself.
			})
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

// check has the library read and validate the file as a runtime does, and makes
// sure that it understands what was meant.
func (c *content) check(path string) error {
	read, err := cdi.ReadSpec(path, 0)
	if disk := (*fs.PathError)(nil); errors.As(err, &disk) {
		return err
	}
	if err != nil { // it may have the name of the temporary file, which differs each time
		return fmt.Errorf("%w: %s", errInvalid, strings.ReplaceAll(err.Error(), path, "file"))
	}
	if !reflect.DeepEqual(*read.Spec, c.spec) {
		return fmt.Errorf("%w: it would be read as something else", errInvalid)
	}
	return nil
}

// covers reports whether a spec gives each of its devices the nodes and the hook that the
// content gives it. The spec may have fewer devices.
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
