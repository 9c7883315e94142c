package main

import (
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// claimShows waits until a claim's status shows a single device, with this ID, PCI address, AFU and condition. It
// returns the condition's last transition time.
func (s *scene) claimShows(claim, id, address, afu, condition string) time.Time {
	var since time.Time
	await(s, "status of claim "+claim, func() (string, error) {
		object, err := s.Client.ResourceV1().ResourceClaims(s.users).Get(s.ctx, claim, metav1.GetOptions{})
		if err != nil || len(object.Status.Devices) != 1 {
			return fmt.Sprintf("%d devices", len(object.Status.Devices)), err
		}
		d := object.Status.Devices[0]
		var data struct{ ID, PCIBusID, AFUID string }
		if d.Data == nil || len(d.Conditions) != 1 {
			return "no data or condition", nil
		}
		if err := json.Unmarshal(d.Data.Raw, &data); err != nil {
			return "", err
		}
		c := d.Conditions[0]
		since = c.LastTransitionTime.Time
		return fmt.Sprintf("%s %s %s %s %s=%s %s", d.Device, data.ID, data.PCIBusID, data.AFUID, c.Type, c.Status, c.Message), nil
	}, fmt.Sprintf("%s %s %s %s Ready=%s", deviceName(id), id, address, afu, condition))
	return since
}

// draStatus shows that a claim's status lists the claim's card, and follows the card's health.
func draStatus(s *scene) {
	s.plugCard(first, 1, -1, afuID)
	s.installDRA("dra.claimStatus=true", "dra.taintEffect=NoSchedule")
	s.followSlices().shows(time.Now(), offer(firstID))
	s.step("a claim is prepared: its status has the card")
	began := time.Now()
	s.claimed("user", one())
	s.hasReport("user", draReport(firstID, "dfl-port.0"))
	s.claimShows("user", firstID, first, afuID, "True ")
	s.step("  %d ms after the creation of the pod", time.Since(began).Milliseconds())
	s.step("the card breaks, and recovers")
	broken := s.breakCard(first)
	since := s.claimShows("user", firstID, first, afuID, "False port-ap6")
	s.step("  shown after %d ms", time.Since(broken).Milliseconds())
	s.step("another driver changes nothing")
	s.restartDaemon()
	same(s, "time of the condition", s.claimShows("user", firstID, first, afuID, "False port-ap6"), since)
	s.healCard(first)
	s.claimShows("user", firstID, first, afuID, "True ")
	s.step("with the token of the driver's pod: neither the allocation nor another driver's entry can be written")
	pod := s.daemon()
	driver := s.clientOf(&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}).ResourceV1().ResourceClaims(s.users)
	patch := func(text string) error {
		_, err := driver.Patch(s.ctx, "user", types.MergePatchType, []byte(text), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		return err
	}
	s.refused("allocation", patch(`{"status":{"allocation":null}}`), "resourceclaims/binding")
	s.refused("pods", patch(`{"status":{"reservedFor":null}}`), "resourceclaims/binding")
	claim := must(s.Client.ResourceV1().ResourceClaims(s.users).Get(s.ctx, "user", metav1.GetOptions{}))
	foreign := append(claim.Status.Devices, resourceapi.AllocatedDeviceStatus{Driver: "nic.example.com", Pool: cluster.NodeName, Device: "nic0"})
	text := must(json.Marshal(map[string]any{"status": map[string]any{"devices": foreign}}))
	s.refused("entry of another driver", patch(string(text)), "nic.example.com")
	s.step("the pod ends: the entry is gone")
	s.deletePods("user")
	await(s, "devices in the status", func() (int, error) {
		claim, err := s.Client.ResourceV1().ResourceClaims(s.users).Get(s.ctx, "user", metav1.GetOptions{})
		if err != nil {
			return -1, err
		}
		return len(claim.Status.Devices), nil
	}, 0)
}
