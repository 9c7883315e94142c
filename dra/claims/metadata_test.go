package claims_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/devicemetadata"

	"b-com.com/accelerator-device-plugin/dra/claims"
	draslices "b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

const attributesDir = "/var/run/kubernetes.io/dra-device-attributes"

// describingRig is newRig with metadata files.
func describingRig(t testing.TB, devices ...*inventory.Device) *rig {
	t.Helper()
	r := newRig(t, devices...)
	r.describes = true
	r.restart()
	return r
}

// fromTemplate returns the claim as if it had been made from a template, for a pod whose name for it is pod.
func fromTemplate(c *resourceapi.ResourceClaim, pod string) *resourceapi.ResourceClaim {
	c.Annotations = map[string]string{"resource.kubernetes.io/pod-claim-name": pod}
	return c
}

// files returns what containers find: the metadata by its path in the container. It uses the same library with which
// consumers read the metadata. It also checks that the spec mounts all files in the driver's directory read-only.
func (r *rig) files() map[string]metadata.DeviceMetadata {
	r.t.Helper()
	found, mounted := map[string]metadata.DeviceMetadata{}, []string{}
	for _, d := range r.cdiDevices() {
		for _, m := range d.ContainerEdits.Mounts {
			info, err := os.Lstat(m.HostPath)
			if err != nil || info.Mode() != 0o644 || !slices.Contains(m.Options, "ro") {
				r.t.Errorf("%s: found %v, %v, %q, want a file that all users can read, mounted ro", m.HostPath, info, err, m.Options)
			}
			var content metadata.DeviceMetadata
			var invalid error
			text := readFile(r.t, m.HostPath)
			if err := devicemetadata.DecodeMetadataFromStream(json.NewDecoder(strings.NewReader(text)), &content,
				devicemetadata.DecodeMetadataWithValidationResult(&invalid)); err != nil || invalid != nil {
				r.t.Errorf("%s: %v, %v in %s", m.HostPath, err, invalid, text)
			}
			found[m.ContainerPath] = content
			mounted = append(mounted, m.HostPath)
		}
	}
	slices.Sort(mounted)
	stored, err := filepath.Glob(r.dir + "/metadata/*")
	compare.NoError(r.t, "files that exist, if they are those that are mounted", err)
	compare.Values(r.t, "files that exist, if they are those that are mounted", mounted, append([]string{}, stored...))
	if info, err := os.Lstat(r.dir + "/metadata"); err == nil && len(stored) == 0 {
		r.t.Errorf("without files: found %v, want no directory", info.Name())
	}
	return found
}

// describesAt expects the metadata of a request in a container: its generation, and these devices of it.
func (r *rig) describesAt(path string, generation int64, request string, devices ...*inventory.Device) {
	r.t.Helper()
	found, ok := r.files()[path]
	if !ok {
		r.t.Fatalf("found the files %q, want %s", slices.Sorted(maps.Keys(r.files())), path)
	}
	want := []metadata.DeviceMetadataRequest{{Name: request}}
	for _, d := range devices {
		want[0].Devices = append(want[0].Devices, metadata.Device{
			Driver: "accelerator.b-com.com", Pool: node, Name: result("", d.ID).Device, Attributes: draslices.Options{}.Attributes(d),
		})
	}
	if diff := cmp.Diff(want, found.Requests); diff != "" || found.Generation != generation {
		r.t.Errorf("%s: generation %d, want %d; requests (-want +got):\n%s", path, found.Generation, generation, diff)
	}
}

// For each request, a container finds a file with the attributes of its devices, as they are in the slice.
func TestMetadata(t *testing.T) {
	a, b, c := port("3b:00.0", 0), port("3b:00.0-p1", 1), port("5e:00.0", 2)
	for i, d := range []*inventory.Device{a, b, c} {
		d.Family, d.PCIID, d.InterfaceID, d.NUMANode, d.PortID = "dfl", "8086:09c4:8086:0000", stored, i%2, i
		d.PCIAddress, d.Attributes = "0000:"+d.ID[:7], map[string]string{"vbnv": "line\n\x1b[31m\"<\\u0000>"}
	}
	r := describingRig(t, a, b, c)
	one := fromTemplate(claimOf("pod-fpga-x7k2p", result("small/big", "3b:00.0"), result("small/big", "3b:00.0-p1"), result("other", "5e:00.0")), "fpga")
	umask := syscall.Umask(0o077)
	r.prepare(one)
	syscall.Umask(umask)
	small, other := attributesDir+"/resourceclaimtemplates/fpga/small/accelerator.b-com.com-metadata.json", attributesDir+"/resourceclaimtemplates/fpga/other/accelerator.b-com.com-metadata.json"
	compare.Values(t, "paths", []string{other, small}, slices.Sorted(maps.Keys(r.files())))
	r.describesAt(small, 1, "small/big", a, b)
	r.describesAt(other, 1, "other", c)
	golden.Compare(t, "testdata/metadata.json", readFile(t, r.dir+"/metadata/uid-pod-fpga-x7k2p.other.json"))
	found := r.files()[small]
	if found.Name != one.Name || found.Namespace != "default" || found.UID != one.UID || *found.PodClaimName != "fpga" {
		t.Errorf("found %+v, want the claim", found)
	}

	two := claimOf("two", admin(result("card", "3b:00.0")))
	r.prepare(two)
	direct := attributesDir + "/resourceclaims/two/card/accelerator.b-com.com-metadata.json"
	r.describesAt(direct, 1, "card", a)
	r.unprepare(one)
	r.describesAt(direct, 1, "card", a)
	r.unprepare(two)
	compare.Empty(t, "files", r.files())
}

// A file follows its device for as long as the device can be given to a container, even after a restart of the driver.
// It is written only when it changes.
func TestMetadataFollows(t *testing.T) {
	at := func(afu string) *inventory.Device { d := port("3b:00.0", 0); d.AFUID = afu; return d }
	r := describingRig(t, at(afu), port("5e:00.0", 1))
	one, two := fromTemplate(claimOf("one", result("a", "3b:00.0")), "fpga"), claimOf("two", result("a", "5e:00.0"))
	path := attributesDir + "/resourceclaimtemplates/fpga/a/accelerator.b-com.com-metadata.json"
	r.prepare(one)
	before := must.Value(os.Stat(r.dir + "/metadata/uid-one.a.json"))(t)
	r.prepare(one) // for a second pod
	if now, err := os.Stat(r.dir + "/metadata/uid-one.a.json"); err != nil || !os.SameFile(before, now) {
		t.Errorf("unchanged device: the file was written again (%v), want it unchanged", err)
	}
	r.set(at(stored), port("5e:00.0", 1))
	r.prepare(two)
	r.describesAt(path, 2, "a", at(stored))
	r.restart()
	r.set(at(stored2), port("5e:00.0", 1))
	r.prepare(two)
	r.describesAt(path, 3, "a", at(stored2))

	// The device leaves. The file stays, because a container that restarts needs the device anyway.
	r.set(tombstone("3b:00.0", "removed-in-use"), port("5e:00.0", 1))
	r.prepare(two)
	if text := readFile(t, r.dir+"/metadata/uid-one.a.json"); !strings.Contains(text, stored2) || strings.Count(text, `"generation": 3`) != 2 {
		t.Errorf("after the device has left: found %s, want generation 3", text)
	}
	r.set(at(stored2), port("5e:00.0", 1))
	r.prepare(two)
	r.describesAt(path, 3, "a", at(stored2))

	// After a reboot the claim waits.
	r.boot = "another"
	r.restart()
	r.prepare(two)
	compare.Equal(t, "after a reboot: files", 1, len(r.files()))
	r.prepare(one)
	r.describesAt(path, 1, "a", at(stored2))
}

// The file of a device that is programmed for its claim has the AFU that the container will find.
func TestMetadataProgrammed(t *testing.T) {
	r := programmingRig(t, programmable("3b:00.0", 0, loaded), programmable("5e:00.0", 1, loaded))
	r.describes = true
	r.restart()
	r.prepare(configured(claimOf("one", result("a", "3b:00.0"), result("b", "5e:00.0")), wantAFU(stored, "a")))
	r.describesAt(attributesDir+"/resourceclaims/one/a/accelerator.b-com.com-metadata.json", 1, "a", programmable("3b:00.0", 0, stored))
	r.describesAt(attributesDir+"/resourceclaims/one/b/accelerator.b-com.com-metadata.json", 1, "b", programmable("5e:00.0", 1, loaded))
}

// If the files are switched off, restarted containers get no files. If they are switched on again, only claims that are
// prepared after that get files.
func TestMetadataSwitched(t *testing.T) {
	r := describingRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
	one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"))
	r.prepare(one)
	for _, on := range []bool{false, true} {
		r.describes = on
		r.restart()
		r.prepare(two)
		r.unprepare(two)
		compare.Empty(t, "files", r.files())
	}
	r.injects(devicesOf(one, "dfl-port.0")...)
	r.prepare(one)
	r.describesAt(attributesDir+"/resourceclaims/one/a/accelerator.b-com.com-metadata.json", 1, "a", port("3b:00.0", 0))
}

// Files that a killed driver has left disappear with the next call. Files that others have put into the directory are
// neither read nor mounted.
func TestMetadataLeftovers(t *testing.T) {
	const valid = `{"kind":"DeviceMetadata","apiVersion":"metadata.resource.k8s.io/v1beta1","metadata":{"name":"one","namespace":"default","uid":"uid-one","generation":7},"requests":[{"name":"a"}]}`
	for _, tc := range []struct {
		name string
		put  func(dir string) error
	}{
		{"a new file", func(dir string) error { return os.WriteFile(dir+"/uid-one.a.json.new", nil, 0o600) }},
		{"the file of a claim that has ended", func(dir string) error { return os.WriteFile(dir+"/uid-gone.a.json", []byte(valid), 0o644) }},
		{"a directory", func(dir string) error { return os.MkdirAll(dir+"/uid-one.b.json/x", 0o755) }},
		{"a link out", func(dir string) error { return os.Symlink("/etc", dir+"/etc") }},
		{"garbage", func(dir string) error { return os.WriteFile(dir+"/uid-one.a.json", []byte("\x00{{"), 0o644) }},
		{"an unknown version", func(dir string) error {
			return os.WriteFile(dir+"/uid-one.a.json", []byte(strings.ReplaceAll(valid, "v1beta1", "v9")), 0o644)
		}},
		{"another claim's", func(dir string) error {
			return os.WriteFile(dir+"/uid-one.a.json", []byte(strings.ReplaceAll(valid, "uid-one", "uid-two")), 0o644)
		}},
		{"a path as name", func(dir string) error {
			return os.WriteFile(dir+"/uid-one.a.json", []byte(strings.ReplaceAll(valid, `"requests"`, `"podClaimName":"../../etc","requests"`)), 0o644)
		}},
		{"a link in place of the file", func(dir string) error {
			return errors.Join(os.Remove(dir+"/uid-one.a.json"), os.Symlink("/etc/passwd", dir+"/uid-one.a.json"))
		}},
		{"too large", func(dir string) error { return os.Truncate(dir+"/uid-one.a.json", 3<<20) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := describingRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
			one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"))
			r.prepare(one)
			must.Succeed(t, tc.put(r.dir+"/metadata"))
			r.prepare(two) // as an update at any time does
			r.files()      // compares the directory with the spec
			r.prepare(one)
			if text := readFile(t, r.dir+"/metadata/uid-one.a.json"); !strings.Contains(text, afu) || len(r.files()) != 2 {
				t.Errorf("prepared again: found %s", text)
			}
			r.unprepare(one, two)
			r.files()
			compare.NoError(t, "file behind the links", compare.ErrorOf(os.Stat("/etc/passwd")))
		})
	}
}

// The annotation of a claim, which any user can write, never becomes a path.
func TestMetadataAnnotation(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../../etc", "/etc", "a/b", "a b", "fpga\n", "fpga\x00", "Fpga", "fpga.x", strings.Repeat("a", 64), strings.Repeat("a/", 1<<17)} {
		r := describingRig(t, port("3b:00.0", 0))
		c := fromTemplate(claimOf("one", result("a", "3b:00.0")), name)
		r.prepare(c)
		r.describesAt(attributesDir+"/resourceclaims/one/a/accelerator.b-com.com-metadata.json", 1, "a", port("3b:00.0", 0))
		r.prepare(fromTemplate(c, "fpga")) // a claim of another user cannot have this uid, but its annotation can change
		r.describesAt(attributesDir+"/resourceclaimtemplates/fpga/a/accelerator.b-com.com-metadata.json", 2, "a", port("3b:00.0", 0))
	}
}

// The largest possible claim has a file that can be read back.
func TestMetadataBounded(t *testing.T) {
	var devices []*inventory.Device
	var results []resourceapi.DeviceRequestAllocationResult
	for i := range resourceapi.AllocationResultsMaxSize {
		d := port(fmt.Sprintf("%02x:00.0", i), i)
		d.Attributes = map[string]string{}
		for j := range 64 {
			d.Attributes[fmt.Sprintf("a%031d", j)] = strings.Repeat("\x01", 64)
		}
		devices, results = append(devices, d), append(results, result("a", d.ID))
	}
	r := describingRig(t, devices...)
	c := claimOf("one", results...)
	r.prepare(c)
	r.describesAt(attributesDir+"/resourceclaims/one/a/accelerator.b-com.com-metadata.json", 1, "a", devices...)
	if info, err := os.Stat(r.dir + "/metadata/uid-one.a.json"); err != nil || info.Size() > claims.MaxMetadata || info.Size() < claims.MaxMetadata/4 {
		t.Errorf("found %d bytes, %v, want at most %d, and more than a quarter of that", info.Size(), err, claims.MaxMetadata)
	}
}

// A file that cannot be written concerns only its own claim.
func TestMetadataOfOneClaim(t *testing.T) {
	r := describingRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
	one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"))
	r.prepare(one)
	inTheWay := r.dir + "/metadata/uid-one.a.json.new"
	must.Succeed(t, os.MkdirAll(inTheWay+"/x", 0o755))
	changed := port("3b:00.0", 0)
	changed.AFUID = stored
	r.set(changed, port("5e:00.0", 1))
	r.prepare(two)
	r.refuse(one, r.dir+"/metadata/uid-one.a.json: ")
	compare.Error(t, "Ready", "uid-one.a.json", r.Ready())
	must.Succeed(t, os.RemoveAll(inTheWay))
	r.prepare(one)
	r.describesAt(attributesDir+"/resourceclaims/one/a/accelerator.b-com.com-metadata.json", 2, "a", changed)
	compare.NoError(t, "Ready", r.Ready())
}

// A directory that another user could change is not used. Until then, a claim gets no devices, but can be unprepared,
// and the driver works without the files. A file that has become superfluous is removed later.
func TestMetadataBadDirectory(t *testing.T) {
	r := describingRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
	one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"))
	r.prepare(one, two)
	must.Succeed(t, os.Chmod(r.dir+"/metadata", 0o777))
	r.unprepare(one)
	r.holds("5e:00.0 dfl-port.1 240:1")
	if text := r.specText(); strings.Contains(text, "uid-one") || !strings.Contains(text, "uid-two.a.json") {
		t.Errorf("found %s, want the other claim with its file", text)
	}
	r.refuse(one, r.dir+"/metadata: ")
	compare.Error(t, "Ready", r.dir+"/metadata: ", r.Ready())
	r.unprepare(one)
	must.Succeed(t, os.Chmod(r.dir+"/metadata", 0o755))
	r.prepare(two)
	compare.Equal(t, "files", 1, len(r.files()))
	must.Succeed(t, os.Chmod(r.dir+"/metadata", 0o777))
	r.describes = false
	r.restart()
	r.prepare(one)
	compare.Empty(t, "files", r.files())
}
