package claims_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	loaded  = bits.AFU // of each device of programmingRig
	stored  = bits.OtherAFU
	stored2 = "00112233445566778899aabbccddeeff"
	hookAt  = "/opt/accelerator-fpga/bin/accelerator-fpga"
)

// programmingRig is newRig with programming, and a store with bitstreams with stored and stored2.
func programmingRig(t testing.TB, devices ...*inventory.Device) *rig {
	t.Helper()
	r := newRig(t, devices...)
	r.programs = &claims.Programming{
		Hook:  cdi.Hook{Path: hookAt, Args: []string{"--timeout=60s"}},
		Store: programming.Store(filepath.Dir(r.dir) + "/store"), Ports: true,
	}
	for _, id := range []string{stored, stored2} {
		r.install(id+".gbs", bits.GBS(bits.Metadata(bits.Interface, id), make([]byte, 64)))
	}
	r.restart()
	return r
}

// restart ends the instance and starts another one.
func (r *rig) restart() {
	r.t.Helper()
	must.Succeed(r.t, r.spec.Close())
	r.open()
}

func (r *rig) install(name string, data []byte) {
	r.t.Helper()
	dir := filepath.Join(string(r.programs.Store), bits.Interface)
	must.Succeed(r.t, os.MkdirAll(dir, 0o755))
	must.Succeed(r.t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
}

// programmable returns a device with an AFU whose card can be programmed.
func programmable(id string, n int, afu string) *inventory.Device {
	d := port(id, n)
	d.Family, d.PCIID, d.InterfaceID, d.AFUID = "dfl", "8086:09c4:8086:0000", bits.Interface, afu
	return d
}

// hooks expects these hooks in the spec: "CDI-NAME PATH ARG ARG". For a device without a hook, there is only the name.
func (r *rig) hooks(want ...string) {
	r.t.Helper()
	var got []string
	for _, d := range r.cdiDevices() {
		line := d.Name
		for _, h := range d.ContainerEdits.Hooks {
			if h.HookName != "createRuntime" || h.Timeout != 110 || len(h.Env) > 0 {
				r.t.Errorf("hook of %s: found %+v, want createRuntime with 110 s and no variables", d.Name, h)
			}
			line += " " + h.Path + " " + strings.Join(h.Args, " ")
		}
		got = append(got, line)
	}
	compare.Values(r.t, "hooks", want, got)
}

// hooked returns the expected line of hooks for a device that is programmed.
func hooked(name, device, afu string) string {
	return fmt.Sprintf("%s %s accelerator-fpga hook --device %s --afu %s --timeout=60s", name, hookAt, device, afu)
}

func configured(c *resourceapi.ResourceClaim, all ...resourceapi.DeviceAllocationConfiguration) *resourceapi.ResourceClaim {
	c.Status.Allocation.Devices.Config = all
	return c
}

// The CDI device of a claim that requires an AFU has the hook, whether or not the device already has the AFU. The name
// of port 0 distinguishes the port from its card.
func TestProgramming(t *testing.T) {
	r := programmingRig(t, programmable("3b:00.0", 0, loaded), programmable("3b:00.0-p1", 1, loaded), programmable("5e:00.0", 2, loaded), programmable("af:00.0", 3, stored))
	class := wantAFU(stored2)
	class.Source = resourceapi.AllocationConfigSourceClass
	// Request a has the AFU of its own configuration, and request b the AFU of the claim for all requests. The
	// configuration of the class is overridden.
	one := configured(claimOf("one", result("a", "3b:00.0"), result("a", "3b:00.0-p1"), result("b", "5e:00.0")), class, wantAFU(stored), wantAFU(stored2, "a"))
	// Only the class has a configuration, for one request.
	class.Requests = []string{"b"}
	two := configured(claimOf("two", result("b/x", "af:00.0")), class)
	r.prepare(one, two)
	want := []string{
		hooked("uid-one-a-pci-0000-3b-00-0", "3b:00.0-p0", stored2), hooked("uid-one-a-pci-0000-3b-00-0-p1", "3b:00.0-p1", stored2),
		hooked("uid-one-b-pci-0000-5e-00-0", "5e:00.0-p0", stored), hooked("uid-two-b.x-pci-0000-af-00-0", "af:00.0-p0", stored2),
	}
	r.hooks(want...)
	compare.Contains(t, "file", `"version": 2`, r.file())

	// The hook has programmed some of them. The kubelet asks again; the driver is restarted; the AFU is not known
	// while a port is programmed.
	changing := programmable("3b:00.0-p1", 1, "")
	changing.Health, changing.Reasons = inventory.Degraded, []string{"reprogramming"}
	r.set(programmable("3b:00.0", 0, stored2), changing, programmable("5e:00.0", 2, stored), programmable("af:00.0", 3, stored))
	file := r.file()
	r.prepare(one)
	r.restart()
	r.prepare(one, two)
	r.hooks(want...)
	compare.Values(t, "record", file, r.file())
	held, err := r.Holdings(t.Context())
	for _, id := range []string{"3b:00.0", "3b:00.0-p1", "5e:00.0", "af:00.0"} {
		if err != nil || len(held[id]) != 1 || !held[id][0].AnyAFU {
			t.Errorf("holding of %s: found %+v, %v, want one for any AFU", id, held[id], err)
		}
	}

	// In the modes whose devices are cards, the hook chooses the port.
	r.programs.Ports = false
	r.restart()
	r.prepare(two)
	want[3] = hooked("uid-two-b.x-pci-0000-af-00-0", "af:00.0", stored2)
	want[0], want[2] = hooked("uid-one-a-pci-0000-3b-00-0", "3b:00.0", stored2), hooked("uid-one-b-pci-0000-5e-00-0", "5e:00.0", stored)
	r.hooks(want...)
	r.unprepare(one, two)
	compare.Equal(t, "files without claims", "", r.file()+r.specText())
}

// If a claim has no configuration for a request, its devices get no hook. Its record can be read by older drivers, and
// another AFU means another device.
func TestNotProgrammed(t *testing.T) {
	r := programmingRig(t, programmable("3b:00.0", 0, loaded), programmable("5e:00.0", 1, loaded))
	c := configured(claimOf("one", result("a", "3b:00.0"), result("b", "5e:00.0")), wantAFU(stored, "c"))
	r.prepare(c)
	r.hooks("uid-one-a-pci-0000-3b-00-0", "uid-one-b-pci-0000-5e-00-0")
	if !strings.Contains(r.file(), `"version": 1`) || strings.Contains(r.file(), "wanted") {
		t.Errorf("file: found %s, want version 1", r.file())
	}
	if held, err := r.Holdings(t.Context()); err != nil || held["3b:00.0"][0].AnyAFU {
		t.Errorf("holdings: found %+v, %v, want none for any AFU", held, err)
	}
	c = configured(claimOf("two", result("a", "3b:00.0"), result("b", "5e:00.0")), wantAFU(stored, "b"))
	r.unprepare(claimOf("one"))
	r.prepare(c)
	r.hooks("uid-two-a-pci-0000-3b-00-0", hooked("uid-two-b-pci-0000-5e-00-0", "5e:00.0-p0", stored))
}

// A device that cannot be programmed with the AFU is refused at once, and the error contains the reason. A device that
// already has the AFU needs no bitstream.
func TestProgrammingRefused(t *testing.T) {
	const other, open = "bfac4d851ee856fe8c95865ce1bbaa2d", bits.OpenCL
	virtual := programmable("5e:00.1", 1, loaded)
	virtual.InterfaceID = ""
	elsewhere := programmable("af:00.0", 2, loaded)
	elsewhere.InterfaceID = strings.Repeat("1", 32)
	r := programmingRig(t, programmable("3b:00.0", 0, loaded), virtual, elsewhere, programmable("d8:00.0", 3, open))
	r.install(open+".gbs", bits.GBS(bits.Metadata(bits.Interface, open), make([]byte, 64)))
	r.install(other+".gbs", bits.GBS(bits.Metadata(bits.Interface, stored), make([]byte, 64))) // renamed by hand
	admins := configured(claimOf("admin", admin(result("a", "3b:00.0"))), wantAFU(stored))
	for _, tc := range []struct {
		claim *resourceapi.ResourceClaim
		want  string
	}{
		{configured(claimOf("one", result("a", "3b:00.0")), wantAFU("ABCDEF01-2345-6789-abcd-ef0123456789")),
			"claim default/one: device pci-0000-3b-00-0 (3b:00.0) of request a: has AFU " + loaded + ", but the claim requests abcdef0123456789abcdef0123456789: " +
				"no bitstream for interface " + bits.Interface + " and AFU abcdef0123456789abcdef0123456789 in the store (file does not exist): want " +
				string(r.programs.Store) + "/" + bits.Interface + "/abcdef0123456789abcdef0123456789.gbs or .aocx, which accelerator-fpga install FILE writes"},
		{configured(claimOf("one", result("a", "5e:00.1")), wantAFU(stored)), "has AFU " + loaded + ", but the claim requests " + stored + ": the device has no interface ID"},
		{configured(claimOf("one", result("a", "af:00.0")), wantAFU(stored)), "bitstream for interface " + elsewhere.InterfaceID},
		{configured(claimOf("one", result("a", "3b:00.0")), wantAFU(other)), "install the file again"},
		{configured(claimOf("one", result("a", "3b:00.0")), wantAFU(open)), "all AOCX files share this id: name the hash of one of them"},
		{admins, "a claim with admin access cannot program a device"},
		{configured(claimOf("one", result("a", "3b:00.0"), result("b", "5e:00.1")), wantAFU(stored)), "of request b: has AFU"},
	} {
		r.refuseNow(tc.claim, tc.want)
	}
	r.install(other+".gbs", bits.GBS(bits.Metadata(bits.Interface, other), make([]byte, 64))) // again, and is found
	again := configured(claimOf("again", result("a", "3b:00.0")), wantAFU(other))
	r.prepare(again)
	r.hooks(hooked("uid-again-a-pci-0000-3b-00-0", "3b:00.0-p0", other))
	r.unprepare(again)
	must.Succeed(t, os.Chmod(string(r.programs.Store), 0o777))
	r.refuseNow(configured(claimOf("one", result("a", "3b:00.0")), wantAFU(stored)), "want it not writable by group and others")
	must.Succeed(t, os.RemoveAll(string(r.programs.Store)))
	r.refuseNow(configured(claimOf("one", result("a", "3b:00.0")), wantAFU(stored)), "in the store (file does not exist)")
	r.programs.Store += "/none"
	r.refuseNow(configured(claimOf("one", result("a", "3b:00.0")), wantAFU(stored)), "in the store (file does not exist)")
	compare.Equal(t, "files after refusals", "", r.file()+r.specText())
	for _, line := range r.lines() {
		if strings.Contains(line, "\n") || len(line) > 1000 {
			t.Errorf("log: found %q, want one line", line)
		}
	}

	// Each has its AFU.
	has := configured(claimOf("has", result("a", "3b:00.0"), result("b", "5e:00.1"), result("c", "af:00.0"), result("d", "d8:00.0"), admin(result("e", "3b:00.0"))),
		wantAFU(loaded), wantAFU(open, "d"))
	r.prepare(has)
	r.hooks(hooked("uid-has-a-pci-0000-3b-00-0", "3b:00.0-p0", loaded), hooked("uid-has-b-pci-0000-5e-00-1", "5e:00.1-p0", loaded),
		hooked("uid-has-c-pci-0000-af-00-0", "af:00.0-p0", loaded), "uid-has-d-pci-0000-d8-00-0", "uid-has-e-pci-0000-3b-00-0")
}

// A failed programming leaves a device without an AFU. While the device is unhealthy, no claim gets it. While it is
// only degraded, a claim gets it. The waiting record of a device that has left has the AFU, which an older driver must
// not drop.
func TestProgrammingFailed(t *testing.T) {
	r := programmingRig(t)
	c := configured(claimOf("one", result("a", "3b:00.0")), wantAFU(stored))
	r.refuseNow(c, "has left the node")
	r.holds("3b:00.0")
	compare.Contains(t, "file", `"wantedAfuId": "`+stored, r.file())
	r.set(sick(programmable("3b:00.0", 0, ""), "reprogramming", "programming-failed"))
	r.refuseNow(c, "unhealthy (reprogramming, programming-failed), which the claim does not tolerate")
	degraded := programmable("3b:00.0", 0, "")
	degraded.Health, degraded.Reasons = inventory.Degraded, []string{"programming-failed"}
	r.set(degraded)
	r.prepare(c)
	want := hooked("uid-one-a-pci-0000-3b-00-0", "3b:00.0-p0", stored)
	r.hooks(want)
	// The container restarts: the hook tries again, even while the device is unhealthy.
	r.set(sick(programmable("3b:00.0", 0, ""), "reprogramming", "programming-failed"))
	r.prepare(c)
	r.hooks(want)
}

// After programming was switched off, a container gets a device only if the device has the container's AFU. After it
// was switched on again, claims that were prepared before stay as they are.
func TestProgrammingSwitched(t *testing.T) {
	r := programmingRig(t, programmable("3b:00.0", 0, loaded), programmable("5e:00.0", 1, stored))
	on := r.programs
	c := configured(claimOf("one", result("a", "3b:00.0"), result("b", "5e:00.0")), wantAFU(stored))
	r.prepare(c)
	r.programs = nil
	r.restart()
	r.refuseNow(c, "of request a: has AFU "+loaded+", but the claim requests "+stored+": programming is off on this node (--programming-hook)")
	r.hooks("uid-one-b-pci-0000-5e-00-0")
	r.programs = on
	r.restart()
	r.prepare(c)
	r.hooks(hooked("uid-one-a-pci-0000-3b-00-0", "3b:00.0-p0", stored), hooked("uid-one-b-pci-0000-5e-00-0", "5e:00.0-p0", stored))
	r.unprepare(c)

	r.programs = nil
	r.restart()
	before := configured(claimOf("before", result("b", "5e:00.0")), wantAFU(stored))
	r.prepare(before)
	r.programs = on
	r.restart()
	r.prepare(before)
	r.hooks("uid-before-b-pci-0000-5e-00-0")
}

// During an upgrade that turns programming on or off, two instances write the spec. Neither of them gives a container a
// device that has another AFU and no hook.
func TestProgrammingOfOneOfTwo(t *testing.T) {
	r := programmingRig(t, programmable("3b:00.0", 0, loaded), programmable("5e:00.0", 1, stored), programmable("af:00.0", 2, loaded))
	c := configured(claimOf("one", result("a", "3b:00.0"), result("b", "5e:00.0")), wantAFU(stored))
	both := []string{hooked("uid-one-a-pci-0000-3b-00-0", "3b:00.0-p0", stored), hooked("uid-one-b-pci-0000-5e-00-0", "5e:00.0-p0", stored)}
	r.prepare(c)
	r.hooks(both...)
	off := *r
	off.programs = nil
	off.open()
	other := claimOf("two", result("a", "af:00.0"))
	off.prepare(other)
	r.hooks("uid-one-b-pci-0000-5e-00-0", "uid-two-a-pci-0000-af-00-0")
	off.refuseNow(c, "programming is off on this node")
	r.prepare(c)
	r.hooks(append(both, "uid-two-a-pci-0000-af-00-0")...)
	off.unprepare(c)
	r.unprepare(other)
	compare.Equal(t, "files without claims", "", r.file()+r.specText())
}

// A driver without programming has written the file. Its claims stay prepared, and new ones are added.
func TestOldFile(t *testing.T) {
	r := programmingRig(t, programmable("3b:00.0", 0, stored), programmable("5e:00.0", 1, loaded))
	r.writeFile(`{"version": 1, "claims": [{"uid": "uid-one", "namespace": "default", "name": "one", "devices": [
		{"request": "a", "device": "pci-0000-3b-00-0", "nodes": ["dfl-port.0", "240:0"], "family": "dfl", "afuId": "` + stored + `"}]}]}`)
	one := configured(claimOf("one", result("a", "3b:00.0")), wantAFU(stored))
	r.prepare(one)
	r.prepare(configured(claimOf("two", result("a", "5e:00.0")), wantAFU(stored)))
	r.hooks("uid-one-a-pci-0000-3b-00-0", hooked("uid-two-a-pci-0000-5e-00-0", "5e:00.0-p0", stored))

	// The claim was deallocated and allocated again without Unprepare, with another configuration.
	r.refuseNow(configured(one, wantAFU(stored2)), "is prepared for AFU none, but the claim requests "+stored2+": delete the pods of the claim first")
	r.refuseNow(configured(claimOf("two", result("a", "5e:00.0")), wantAFU(stored2)), "is prepared for AFU "+stored+", but the claim requests "+stored2)
}

// After a reboot the card has another AFU, and the claim is prepared again.
func TestProgrammingAfterReboot(t *testing.T) {
	r := programmingRig(t, programmable("3b:00.0", 0, loaded))
	c := configured(claimOf("one", result("a", "3b:00.0")), wantAFU(stored))
	r.prepare(c)
	r.set(programmable("3b:00.0", 0, stored))
	r.boot = "second"
	r.set(programmable("3b:00.0", 4, loaded))
	r.restart()
	r.prepare(c)
	r.injects(devicesOf(c, "dfl-port.4")...)
	r.hooks(hooked("uid-one-a-pci-0000-3b-00-0", "3b:00.0-p0", stored))
}

// A device that appears during Prepare is checked like any other device, at whatever moment it appears.
func TestAppearsDuringPrepare(t *testing.T) {
	unknown := configured(claimOf("one", result("a", "3b:00.0")), wantAFU("bfac4d851ee856fe8c95865ce1bbaa2d"))
	for _, tc := range []struct {
		name  string
		on    bool
		claim *resourceapi.ResourceClaim
		want  string
	}{
		{"no bitstream", true, unknown, "bitstream for interface"},
		{"off", false, unknown, "programming is off on this node"},
		{"admin", true, configured(claimOf("admin", admin(result("a", "3b:00.0"))), wantAFU(stored)), "a claim with admin access cannot program a device"},
	} {
		for when := 1; when <= 3; when++ { // without and with the lock, and before the next call
			t.Run(fmt.Sprintf("%s, %d", tc.name, when), func(t *testing.T) {
				r := programmingRig(t)
				if !tc.on {
					r.programs = nil
					r.restart()
				}
				n := 0
				r.onLatest = func() {
					if n++; n == when {
						r.set(programmable("3b:00.0", 0, loaded))
					}
				}
				// If it appears too late, this call treats it as having left the node.
				if got := r.Prepare(t.Context(), tc.claim); got.Err == nil || !strings.Contains(got.Err.Error(), tc.want) && !strings.Contains(got.Err.Error(), "has left the node") {
					t.Errorf("Prepare: found %v, %v, want an error with %q", got.Devices, got.Err, tc.want)
				}
				r.refuseNow(tc.claim, tc.want)
				r.hooks()
			})
		}
	}
}

// A bitstream in a claim determines the AFU of its devices, unless a configuration contradicts it. The claim does not
// hold the bitstream, so several claims can have the same one.
func TestBitstreamOfClaim(t *testing.T) {
	r := programmingRig(t, programmable("3b:00.0", 0, loaded), programmable("5e:00.0", 1, loaded), programmable("af:00.0", 2, loaded))
	bitstream := func(request, afu string) resourceapi.DeviceRequestAllocationResult {
		b := result(request, "3b:00.0")
		b.Device = draname.Bitstream(bits.Interface, afu)
		return b
	}
	one := claimOf("one", bitstream("afu", stored), result("card", "3b:00.0"))
	two := configured(claimOf("two", result("a", "5e:00.0"), result("b", "af:00.0"), bitstream("afu", stored)), wantAFU(stored2, "a"))
	if got := r.Prepare(t.Context(), one); got.Err != nil || len(got.Devices) != 1 || got.Devices[0].Requests[0] != "card" {
		t.Errorf("found %v, want the card only", got)
	}
	if got := r.Prepare(t.Context(), two); got.Err != nil || len(got.Devices) != 2 {
		t.Errorf("found %v, want two cards", got)
	}
	r.hooks(hooked("uid-one-card-pci-0000-3b-00-0", "3b:00.0-p0", stored), hooked("uid-two-a-pci-0000-5e-00-0", "5e:00.0-p0", stored2), hooked("uid-two-b-pci-0000-af-00-0", "af:00.0-p0", stored))
	r.unprepare(one)
	watch := claimOf("watch", admin(result("all", "3b:00.0")), admin(bitstream("all", stored)), admin(bitstream("all", stored2)))
	if got := r.Prepare(t.Context(), watch); got.Err != nil || len(got.Devices) != 1 {
		t.Errorf("admin access to all devices: found %v, want the card", got)
	}
	r.refuse(claimOf("three", bitstream("x", stored), result("card", "3b:00.0"), bitstream("y", stored2)), "want one in each claim")
	r.refuse(claimOf("four", bitstream("x", "00000000000000000000000000000001"), result("card", "3b:00.0")), "accelerator-fpga install")
	elsewhere := bitstream("x", stored)
	elsewhere.Pool = "another"
	r.refuse(claimOf("five", elsewhere, result("card", "3b:00.0")), "want that of this node")
	for _, c := range []*resourceapi.ResourceClaim{claimOf("six", bitstream("x", stored)), claimOf("seven", result("x", "3b:00.0"), bitstream("x", stored))} {
		r.refuse(c, "want a card: the DeviceClass must leave out")
	}
	r.programs = nil
	r.restart()
	r.refuse(one, "programming is off on this node")
}
