package claims

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
)

// request is a claim and its devices that belong to this driver. The devices' Nodes aren't set.
type request struct {
	record
	wants    []want // one per element of Devices
	podClaim string // the name that the pod uses for the claim, if the claim was created from a template
}

// want holds the AFU that a device must have for the claim, and the taints that the claim tolerates.
type want struct {
	afu         string // "" means any
	tolerations []resourceapi.DeviceToleration
}

// newRequest returns the request for a claim, after checking everything about the claim that doesn't depend on the
// state of its devices. programs is true if devices can be programmed for the claim.
func newRequest(claim *resourceapi.ResourceClaim, node string, programs bool) (request, error) {
	r := request{record: record{UID: string(claim.UID), Namespace: claim.Namespace, Name: claim.Name}, podClaim: podClaimOf(claim)}
	if claim.Status.Allocation == nil {
		return r, errors.New("allocation: found none, want the devices of the claim")
	}
	allocated := claim.Status.Allocation.Devices
	settings, err := settingsOf(allocated.Config)
	if err != nil {
		return r, err
	}
	loads, err := bitstreamOf(allocated.Results)
	if err != nil {
		return r, err
	}
	for _, result := range allocated.Results {
		if result.Driver != draname.Driver {
			continue
		}
		if _, ok := draname.BitstreamAFU(result.Device); ok && result.Pool == node {
			continue
		}
		d := device{Request: result.Request, Name: result.Device, Admin: result.AdminAccess != nil && *result.AdminAccess}.identified()
		if result.Pool != node {
			return r, fmt.Errorf("device %.100s: pool: found %.100q, want that of this node, %q", d.Name, result.Pool, node)
		}
		if !d.Admin && slices.ContainsFunc(r.Devices, func(o device) bool { return o.Name == d.Name && !o.Admin }) {
			return r, fmt.Errorf("device %.100s: found it twice in the allocation, want each device once", d.Name)
		}
		afu := cmp.Or(afuFor(d.Request, settings), loads)
		if programs && !d.Admin && afu != programming.OpenCL {
			d.Wanted = afu
		}
		r.Devices = append(r.Devices, d)
		r.wants = append(r.wants, want{afu, result.Tolerations})
	}
	if len(r.Devices) == 0 && loads == "" {
		return r, nil
	}
	if err := r.withoutCard(allocated.Results, loads); err != nil {
		return r, err
	}
	return r, r.check()
}

// bitstreamOf returns the AFU of an allocation's bitstream, or "" if there is none. It ignores bitstreams with admin
// access, because a claim with admin access to all devices gets every bitstream unless its class excludes them.
func bitstreamOf(results []resourceapi.DeviceRequestAllocationResult) (found string, err error) {
	for _, result := range results {
		afu, ok := draname.BitstreamAFU(result.Device)
		switch {
		case !ok || result.Driver != draname.Driver || result.AdminAccess != nil && *result.AdminAccess:
		case found != "" && found != afu:
			return "", fmt.Errorf("device %.100s: found the bitstreams of AFU %s and of AFU %s, want one in each claim", result.Device, found, afu)
		default:
			found = afu
		}
	}
	return found, nil
}

// withoutCard returns an error if a request was allocated a bitstream instead of a card, because the container would
// start without the card. This happens if the request's class selects all of the driver's devices.
func (r request) withoutCard(results []resourceapi.DeviceRequestAllocationResult, loads string) error {
	if loads == "" {
		return nil
	}
	for _, result := range results {
		_, ok := draname.BitstreamAFU(result.Device)
		mixed := slices.ContainsFunc(r.Devices, func(d device) bool { return d.Request == result.Request && !d.Admin })
		if ok && result.Driver == draname.Driver && (mixed || len(r.Devices) == 0) {
			return fmt.Errorf("device %.100s of request %.100s: found a bitstream, want a card: the DeviceClass must leave out devices with the attribute bitstream", result.Device, result.Request)
		}
	}
	return nil
}

// same reports whether the request has the same devices as the record o.
func (r request) same(o record) bool {
	return slices.EqualFunc(r.Devices, o.Devices, func(a, b device) bool {
		return a.Request == b.Request && a.Name == b.Name && a.Admin == b.Admin
	})
}

// sameAFUs returns an error if the claim's record has different AFUs than the request. The record must have the same
// devices as the request. sameAFUs accepts a record without an AFU if the device has the right one, because older
// drivers, and drivers with programming turned off, write such records.
func (r request) sameAFUs(was record, s inventory.Snapshot) error {
	for i, d := range r.Devices {
		before := was.Devices[i].Wanted
		if d.Wanted == "" || before == d.Wanted {
			continue
		}
		if now := s.Device(d.id); before != "" || now != nil && now.AFUID != d.Wanted {
			return d.named(fmt.Errorf("is prepared for AFU %s, but the claim requests %s: delete the pods of the claim first", cmp.Or(before, "none"), d.Wanted))
		}
	}
	return nil
}

var (
	// errGone is the error for a device that the inventory no longer lists.
	errGone = errors.New("has left the node")
	// errNotOffered is the error for a device that is listed but no longer advertised.
	errNotOffered = errors.New("is no longer advertised, because the settings of this node have changed")
	// errNotYet is wrapped by errors that make Prepare wait and retry.
	errNotYet = errors.New("not yet")
)

// notYet wraps an error so that it matches errNotYet, without changing its text.
type notYet struct{ error }

func (notYet) Is(target error) bool { return target == errNotYet }
func (e notYet) Unwrap() error      { return e.error }

// named adds the device's names to an error.
func (d device) named(err error) error {
	return fmt.Errorf("device %s (%s) of request %s: %w", d.Name, d.id, d.Request, err)
}

// usable returns an error if containers must not get d's nodes. d is a device in a snapshot, or nil.
func usable(d *inventory.Device) error {
	switch {
	case d == nil, slices.Contains(d.Reasons, inventory.ReasonRemoved), slices.Contains(d.Reasons, inventory.ReasonRemovedInUse):
		return errGone
	case withheld(d):
		return notYet{fmt.Errorf("is unhealthy (%s), so its device nodes are withheld", reasons(d))}
	case len(d.Nodes) == 0 && len(d.Mounts) == 0:
		return notYet{fmt.Errorf("is %s, and its device nodes are not known", d.Health)}
	}
	return nil
}

// heldElsewhere returns the error for a device that a container holds through the device plugin API. Tolerations can't
// override it, because two containers would then have the device.
func heldElsewhere(h inventory.Holding) error {
	return notYet{fmt.Errorf("is in use as %s, through the device plugin API, by %s", h.As, cmp.Or(cut(strings.Join(h.Holders, ", ")), "a pod"))}
}

// withheld reports whether d's nodes must be withheld from containers that start now.
func withheld(d *inventory.Device) bool {
	return slices.ContainsFunc(d.Reasons, func(r string) bool { return inventory.ReasonOf(r).WithholdsNodes })
}

// reasons returns a device's health reasons as text for an error. It shortens the text, because the API server rejects
// Events larger than 1 kB.
func reasons(d *inventory.Device) string { return cut(strings.Join(d.Reasons, ", ")) }

// judge returns the request's devices with their nodes. Devices that the inventory doesn't list or advertise are
// returned as gone, along with an error. taints returns a device's taints, and problems comes from
// [Claims.unprogrammable].
func (r request) judge(s inventory.Snapshot, taints func(*inventory.Device) []resourceapi.DeviceTaint, problems []error) (given, gone []device, err error) {
	var refused error
	for i, d := range r.Devices {
		now := s.Device(d.id)
		switch problem := d.refusal(now, r.wants[i], taints, problems[i]); {
		case problem == nil:
			given = append(given, d.of(now))
		case errors.Is(problem, errGone), errors.Is(problem, errNotOffered):
			gone = append(gone, d)
			if err == nil {
				err = d.named(problem)
			}
		case refused == nil:
			refused = d.named(problem)
		}
	}
	if err == nil {
		err = refused
	}
	return given, gone, err
}

// refusal returns an error that says why the claim can't have the device now, or nil if it can. The error is errGone or
// errNotOffered if this node doesn't advertise the device.
func (d device) refusal(now *inventory.Device, w want, taints func(*inventory.Device) []resourceapi.DeviceTaint, problem error) error {
	if now != nil && now.OfferedAs == "" {
		return errNotOffered
	}
	if err := usable(now); err != nil {
		return err
	}
	if !d.Admin {
		if err := available(now, w.tolerations, taints); err != nil {
			return err
		}
	}
	if problem != nil && w.afu != now.AFUID {
		return otherAFU(now, w.afu, problem)
	}
	return nil
}

// available returns an error if a claim without admin access must not use d, which is a device in a snapshot.
//
// A device that an administrator has taken out of service isn't available, no matter what the claim tolerates: tenants
// write their claims' tolerations themselves, and a cordoned card may be pulled at any moment. Settings and cordons can
// change without a restart, so Prepare waits the same way it does for an unhealthy device.
func available(d *inventory.Device, tolerations []resourceapi.DeviceToleration, taints func(*inventory.Device) []resourceapi.DeviceTaint) error {
	switch {
	case d.OfferedAs != draname.Driver:
		return heldElsewhere(inventory.Holding{As: d.OfferedAs})
	case slices.Contains(d.Reasons, inventory.ReasonCordoned):
		return notYet{errors.New("is cordoned: uncordon it, or delete the pod so that it gets another device")}
	case slices.Contains(d.Reasons, inventory.ReasonExcluded):
		return notYet{errors.New("is excluded by the settings of this node: delete the pod so that it gets another device")}
	case d.Health == inventory.Unhealthy && !tolerated(taints(d), tolerations):
		return notYet{fmt.Errorf("is unhealthy (%s), which the claim does not tolerate", reasons(d))}
	}
	return nil
}

// tolerated reports whether there are taints and all of them are tolerated. There is no way to tolerate an unhealthy
// device that doesn't have a taint.
func tolerated(taints []resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration) bool {
	return len(taints) > 0 && !slices.ContainsFunc(taints, func(taint resourceapi.DeviceTaint) bool {
		return !slices.ContainsFunc(tolerations, func(t resourceapi.DeviceToleration) bool { return resourceclaim.ToleratesTaint(t, taint) })
	})
}
