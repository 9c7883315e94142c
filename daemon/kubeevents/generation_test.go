package kubeevents_test

import (
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/kubeevents"
	"b-com.com/accelerator-device-plugin/inventory"
)

// When the mode changes, it takes the inventory several snapshots to switch to the new families. Only removed cards and
// held devices cause Events.
func TestGenerationInSeveralSnapshots(t *testing.T) {
	type step struct {
		wait     time.Duration // after this step
		complete bool
		devices  []*inventory.Device
	}
	unit := func(id string, reasons ...string) *inventory.Device {
		d := device(id, reasons...)
		d.PCIAddress = ""
		return d
	}
	const card, port, other = "3b:00.0", "3b:00.0-p1", "3c:00.0"
	before := []*inventory.Device{device(card), device(port), device(other)}
	for _, tc := range []struct {
		name  string
		steps []step // starting with the new generation's first snapshot
		want  []string
	}{
		{"in milliseconds", []step{
			{10 * time.Millisecond, true, []*inventory.Device{device(card, "moving"), device(port, "removed"), device(other)}},
			{10 * time.Millisecond, true, []*inventory.Device{device(card, "moving"), device(other, "moving")}},
			{time.Minute, true, []*inventory.Device{device(card), device(other)}},
		}, nil},
		{"the kubelet does not answer, then it is not held", []step{
			{time.Minute, true, []*inventory.Device{device(card), device(port, "removed"), device(other)}},
			{time.Minute, true, []*inventory.Device{device(card), device(other)}},
		}, nil},
		{"the kubelet does not answer, then it is held", []step{
			{time.Minute, true, []*inventory.Device{device(card), device(port, "removed"), device(other)}},
			{time.Minute, true, []*inventory.Device{device(card), device(port, "removed-in-use"), device(other)}},
			{time.Minute, true, []*inventory.Device{device(card), device(other)}},
		}, []string{onNode + "Warning DeviceRemovedInUse x1", onNode + "Normal DeviceReleased x1"}},
		{"the kubelet does not answer, then the former mode", []step{
			{time.Minute, true, []*inventory.Device{device(card), device(port, "removed"), device(other)}},
			{time.Minute, true, before},
			{time.Minute, true, []*inventory.Device{device(card), device(other)}},
		}, []string{onNode + "Normal DeviceRemoved x1"}},
		{"the kubelet does not answer, then the card is removed", []step{
			{time.Minute, true, []*inventory.Device{device(card), device(port, "removed"), device(other)}},
			{time.Minute, true, []*inventory.Device{device(card, "removed"), device(port, "removed"), device(other)}},
			{time.Minute, true, []*inventory.Device{device(other)}},
		}, []string{onNode + "Warning DeviceRemoved x1", onNode + "Warning DeviceRemoved x1"}},
		{"one card is slow", []step{
			{time.Minute, false, []*inventory.Device{device(card), device(port)}},
			{time.Minute, false, []*inventory.Device{device(card)}},
			{time.Minute, true, []*inventory.Device{device(card), device(other), device(other + "-p1")}},
		}, nil},
		{"other devices", []step{
			{time.Minute, true, []*inventory.Device{device(port), device(other+"-p1", "port-ap6")}},
			{time.Minute, true, []*inventory.Device{device(other + "-p1"), device("3d:00.0")}},
		}, []string{
			onNode + "Warning DeviceUnhealthy x1", onNode + "Normal DeviceRemoved x1", onNode + "Normal DeviceRecovered x1", onNode + "Normal DeviceAdded x1",
		}},
		{"no cards, and one device is held", []step{
			{100 * time.Millisecond, true, []*inventory.Device{device(card, "removed"), device(port, "removed"), device(other, "removed"), unit("0"), unit("1")}},
			{time.Minute, true, []*inventory.Device{device(port, "removed-in-use"), unit("0"), unit("1")}},
			{time.Minute, true, []*inventory.Device{unit("0"), unit("1")}},
		}, []string{onNode + "Warning DeviceRemovedInUse x1", onNode + "Normal DeviceReleased x1"}},
		{"a card is removed", []step{
			{time.Minute, true, []*inventory.Device{device(other, "port-ap6")}},
		}, []string{onNode + "Normal DeviceRemoved x1", onNode + "Normal DeviceRemoved x1", onNode + "Warning DeviceUnhealthy x1"}},
	} {
		storyOf(t, tc.name, func(r *rig) {
			r.shows(before...)
			r.generation()
			for _, s := range tc.steps {
				r.publish(s.complete, s.devices...)
				after(s.wait)
			}
			r.events("at the end", tc.want...)
		})
	}
}

// If a card is removed while the families change, its Event gets the time of the first snapshot without it.
func TestRemovedBeforeGeneration(t *testing.T) {
	story(t, func(r *rig) {
		r.shows(device("3b:00.0"), device("3c:00.0"))
		r.publish(true, device("3c:00.0"), device("3d:00.0"))
		after(900 * time.Millisecond)
		r.generation()
		r.shows(device("3c:00.0"), device("3d:00.0"))
		r.events("pulled", onNode+"Normal DeviceRemoved x1")
		if m := r.Events()[0].Message; !strings.Contains(m, "at 2000-01-01T00:00:30Z") || r.Events()[0].Reason != string(kubeevents.DeviceRemoved) {
			r.t.Errorf("message %q, want the time of the first snapshot without the card", m)
		}
	})
}
