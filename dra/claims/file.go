package claims

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

const (
	fileName = "claims.json"
	lockName = "claims.lock"
	// maxFile is the maximum size of claims.json, in bytes. A claim with 32 devices, the most that the API allows,
	// takes 6 kB.
	maxFile = 4 << 20
	// formatVersion must be increased whenever a field is added to claims.json. A driver rejects files with a newer
	// version, because it would lose the new field when rewriting the file. A file that doesn't use any fields of
	// version 2 is written as version 1, so that an older driver can read it after a rollback.
	formatVersion = 2
)

const (
	// noNode separates the Nodes and Later lists of a device in the file. No node has this name, so drivers that don't
	// know about Later can still read the file, and reserve all of the nodes.
	noNode = ""
	// maxLater is the maximum length of a device's Later list. Once the list is full, no more nodes are recorded.
	// Kernel drivers reuse small numbers, so even a card that is pulled and plugged in all day doesn't get many
	// different nodes.
	maxLater = 256
)

type content struct {
	Version int      `json:"version"`
	Boot    string   `json:"boot,omitempty"` // boot ID when the file was written
	Claims  []record `json:"claims"`
}

// record is what claims.json stores about a claim.
type record struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Waiting means that the claim isn't prepared. Devices then lists the claim's devices that had left the node, or
	// the devices that the claim had before the node was restarted.
	Waiting bool     `json:"waiting,omitempty"`
	Devices []device `json:"devices"` // in allocation order
}

// device is one of a claim's devices.
type device struct {
	Request string `json:"request"` // REQUEST or REQUEST/SUBREQUEST
	Name    string `json:"device"`  // name in the API, for example pci-0000-3b-00-0
	id      string // ID in snapshots, for example 3b:00.0; "" if Name isn't valid
	Admin   bool   `json:"adminAccess,omitempty"`
	// Nodes lists the names and numbers (MAJOR:MINOR) of the nodes that the device had when the claim was prepared. In
	// the file, they are followed by noNode and Later.
	Nodes []string `json:"nodes,omitempty"`
	// Later lists nodes that the device has acquired since the claim was prepared, for example because its card was
	// pulled and plugged in again. Containers that restarted after that got these nodes.
	Later []string `json:"-"`
	// These fields, recorded by Prepare, distinguish the device from another card in the same slot.
	Family      string `json:"family,omitempty"`
	PCIID       string `json:"pciId,omitempty"`
	AFUID       string `json:"afuId,omitempty"`
	InterfaceID string `json:"interfaceId,omitempty"`
	// Wanted is the AFU that the device is programmed with whenever a container starts, or "" if the device isn't
	// programmed. The field was added in version 2 of the format.
	Wanted string `json:"wantedAfuId,omitempty"`
}

// identified returns d with its id filled in.
func (d device) identified() device {
	if id, ok := draname.ID(d.Name); ok {
		d.id = id
	}
	return d
}

// of returns a copy of d with the nodes and identity that the device has now.
func (d device) of(now *inventory.Device) device {
	d.Nodes = slices.Concat(now.Nodes, now.NodeNumbers)
	d.Family, d.PCIID, d.AFUID, d.InterfaceID = now.Family, now.PCIID, now.AFUID, now.InterfaceID
	return d
}

// fresh returns the names and numbers of the nodes that the device has now but that d doesn't list.
func (d device) fresh(now *inventory.Device) []string {
	return slices.DeleteFunc(slices.Concat(now.Nodes, now.NodeNumbers), func(node string) bool {
		return slices.Contains(d.Nodes, node) || slices.Contains(d.Later, node)
	})
}

// identity returns the device's identity, or nil if it is unknown.
func (d device) identity() *inventory.Device {
	if d.Family == "" {
		return nil
	}
	return &inventory.Device{ID: d.id, Family: d.Family, Facts: inventory.Facts{PCIID: d.PCIID, AFUID: d.AFUID, InterfaceID: d.InterfaceID}}
}

// cdiName returns the name of the CDI device for one of the claim's devices.
func (r record) cdiName(d device) string {
	return r.UID + "-" + strings.ReplaceAll(d.Request, "/", ".") + "-" + d.Name
}

// ids returns the IDs of the claim's devices, leaving out devices whose names aren't valid.
func (r record) ids() []string {
	var ids []string
	for _, d := range r.Devices {
		if d.id != "" {
			ids = append(ids, d.id)
		}
	}
	return ids
}

func (r record) equal(o record) bool { return reflect.DeepEqual(r, o) }

func (r record) String() string { return r.Namespace + "/" + r.Name }

func indexOf(all []record, uid string) int {
	return slices.IndexFunc(all, func(r record) bool { return r.UID == uid })
}

// holder returns the claim that a device is prepared for, or nil if there is none. Claims with admin access to the
// device don't count.
func holder(all []record, name string) *record {
	for i, r := range all {
		if !r.Waiting && slices.ContainsFunc(r.Devices, func(d device) bool { return d.Name == name && !d.Admin }) {
			return &all[i]
		}
	}
	return nil
}

// mayGet returns an error if the claim with the given UID must not get these nodes (names and numbers) for its device
// d, because another claim has one of them or because the record would become too long. Admin access by other claims
// doesn't count.
//
// The other claim may have a different device: during an upgrade that changes the mode, one driver prepares cards and
// the other prepares ports. Also, after a card has left, its node may belong to another card while a container still
// has it open.
func (d device) mayGet(nodes []string, all []record, uid string) error {
	for _, r := range all {
		if r.Waiting || r.UID == uid {
			continue
		}
		for _, o := range r.Devices {
			i := slices.IndexFunc(nodes, func(node string) bool { return slices.Contains(o.Nodes, node) || slices.Contains(o.Later, node) })
			if i >= 0 && !o.Admin {
				return notYet{fmt.Errorf("its device node %s is prepared for claim %s (uid %s)", nodes[i], r, r.UID)}
			}
		}
	}
	if len(nodes) > 0 && len(d.Later) >= maxLater {
		return fmt.Errorf("has had %d other device nodes while the claim was prepared: delete the pods of the claim", len(d.Later))
	}
	return nil
}

// read returns the claims in the file, or none if there is no file. It returns claims from an earlier boot as waiting,
// because their containers have ended and their nodes may now belong to other devices.
func read(dir *os.Root, boot string) ([]record, error) {
	text, err := privatedir.ReadFile(dir, fileName, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var c content
	if err == nil {
		if c, err = parse(text); err != nil {
			err = fmt.Errorf("%s: %w", filepath.Join(dir.Name(), fileName), err)
		}
	}
	if errno := syscall.Errno(0); err != nil && !errors.As(err, &errno) {
		return nil, fmt.Errorf("%w; the file is not changed: delete the pods of this node that have claims of %s, then remove the file", err, draname.Driver)
	}
	if c.Boot != boot {
		for i, r := range c.Claims {
			c.Claims[i].Waiting = true
			for j := range r.Devices {
				r.Devices[j].Nodes, r.Devices[j].Later = nil, nil
			}
		}
	}
	return c.Claims, err
}

// write replaces the claims file. If there are no claims, it removes the file, which works even on a full disk. Even if
// it returns an error, the file may have been replaced. The caller must hold the lock.
func write(dir *os.Root, boot string, all []record) error {
	if len(all) == 0 {
		return privatedir.RemoveFile(dir, fileName)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	stored := content{1, boot, slices.Clone(all)}
	err := stored.check() // never write an invalid file, because then the driver couldn't prepare any claims
	for i, r := range all {
		stored.Claims[i].Devices = slices.Clone(r.Devices)
		for j, d := range r.Devices {
			if d.Wanted != "" {
				stored.Version = formatVersion
			}
			if len(d.Later) > 0 {
				stored.Claims[i].Devices[j].Nodes = slices.Concat(d.Nodes, []string{noNode}, d.Later)
			}
		}
	}
	if err == nil {
		err = encoder.Encode(stored)
	}
	if err == nil && text.Len() > maxFile {
		err = fmt.Errorf("found %d bytes to write, want at most %d", text.Len(), maxFile)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir.Name(), fileName), err)
	}
	_, err = privatedir.ReplaceFile(dir, fileName, text.Bytes())
	return err
}

// parse parses the file.
func parse(text []byte) (content, error) {
	var found struct {
		Version int `json:"version"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &found); err != nil {
		return content{}, fmt.Errorf("found %s, want the claims of the driver", cut(err.Error()))
	}
	if found.Version < 1 || found.Version > formatVersion {
		return content{}, fmt.Errorf("version: found %d, want 1 to %d: a newer driver or another program has written the file", found.Version, formatVersion)
	}
	var c content
	if err := unmarshal(text, &c); err != nil {
		return content{}, fmt.Errorf("found %w, want the claims of the driver", err)
	}
	for _, r := range c.Claims {
		for j, d := range r.Devices {
			if k := slices.Index(d.Nodes, noNode); k >= 0 {
				d.Nodes, d.Later = d.Nodes[:k:k], d.Nodes[k+1:]
			}
			r.Devices[j] = d.identified()
		}
	}
	if err := c.check(); err != nil {
		return content{}, err
	}
	return c, nil
}

// check returns an error if a claim isn't valid, or if two claims have the same device.
//
// It accepts two claims with the same node. This driver never gives a node to a second claim, but older drivers
// compared only devices. If parse rejected the file, none of the node's claims could be unprepared, and both claims'
// pods would be stuck. The inventory withholds both devices (node-in-use), and a third claim can't get the node.
func (c content) check() error {
	owners := map[string]int{} // index of the claim that a device is prepared for, by device name
	for i, r := range c.Claims {
		place := fmt.Sprintf("claims[%d]", i)
		if err := r.check(); err != nil {
			return fmt.Errorf("%s.%w", place, err)
		}
		if first := indexOf(c.Claims, r.UID); first < i {
			return fmt.Errorf("%s.uid: found that of claims[%d], want another", place, first)
		}
		for j, d := range r.Devices {
			if r.Waiting || d.Admin {
				continue
			}
			if first, taken := owners[d.Name]; taken {
				return fmt.Errorf("%s.devices[%d]: found %s, want a device that is not in claims[%d]", place, j, d.Name, first)
			}
			owners[d.Name] = i
		}
	}
	return nil
}

// check returns an error if the record can't have come from Prepare.
func (r record) check() error {
	for _, f := range []struct {
		name, found, want string
		problems          []string
	}{
		{"uid", r.UID, "a UUID", validation.IsDNS1123Label(r.UID)},
		{"namespace", r.Namespace, "a DNS label", validation.IsDNS1123Label(r.Namespace)},
		{"name", r.Name, "a DNS name", validation.IsDNS1123Subdomain(r.Name)},
	} {
		if len(f.problems) > 0 {
			return fmt.Errorf("%s: found %.100q, want %s", f.name, f.found, f.want)
		}
	}
	if n := len(r.Devices); n == 0 || n > resourceapi.AllocationResultsMaxSize {
		return fmt.Errorf("devices: found %d, want 1 to %d", n, resourceapi.AllocationResultsMaxSize)
	}
	type key struct{ request, name string }
	seen := map[key]bool{}
	for i, d := range r.Devices {
		main, sub, hasSub := strings.Cut(d.Request, "/")
		if len(validation.IsDNS1123Label(main)) > 0 || hasSub && len(validation.IsDNS1123Label(sub)) > 0 {
			return fmt.Errorf("devices[%d].request: found %.200q, want REQUEST or REQUEST/SUBREQUEST", i, d.Request)
		}
		if d.id == "" {
			return fmt.Errorf("devices[%d].device: found %.100q, want the name of a device, such as %s", i, d.Name, draname.Device("3b:00.0"))
		}
		if d.Wanted != "" && !inventoryID.MatchString(d.Wanted) {
			return fmt.Errorf("devices[%d].wantedAfuId: found %.100q, want 32 lower-case hexadecimal digits", i, d.Wanted)
		}
		if k := (key{d.Request, d.Name}); seen[k] {
			return fmt.Errorf("devices[%d]: found %s a second time in request %s, want another device", i, d.Name, d.Request)
		} else {
			seen[k] = true
		}
	}
	return nil
}
