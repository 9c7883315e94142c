package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// withConfig adds a configuration for the driver to a claim, and returns the claim.
func withConfig(devices resourceapi.DeviceClaim, parameters string) resourceapi.DeviceClaim {
	devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
		Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: draDriver, Parameters: runtime.RawExtension{Raw: []byte(parameters)}},
	}}}
	return devices
}

// programmed returns a claim for the card with this PCI address that requires the card to have this AFU or to be
// programmed with it.
func programmed(address, afu string) resourceapi.DeviceClaim {
	return withConfig(selects(`device.attributes["resource.kubernetes.io"].pciBusID == "`+address+`"`),
		`{"apiVersion": "`+draDriver+`/v1alpha1", "kind": "AcceleratorConfig", "afuId": "`+afu+`"}`)
}

// oneLine waits until the kubelet reports in an event that it couldn't prepare the pod's claim, which has the same
// name. It checks that the event's message is a single line that contains the driver's error for the claim and all of
// these strings.
func (s *scene) oneLine(name string, texts ...string) {
	message := s.cannotPrepare(name, append(texts, "claim "+s.users+"/"+name+": ")...)
	if strings.Contains(message, "\n") || len(message) > 1024 {
		s.failf("event of pod %s: found %q, want one line of at most 1024 bytes", name, message)
	}
	s.step("  %s", message)
}

// draProgram shows that a claim can have its device programmed, by a hook in the claim's CDI device that the container
// runtime runs. If the claim is rejected or the hook fails, the pod's events say why.
func draProgram(s *scene) {
	s.plug(first)
	s.plugCard(second, 1, -1, otherAFU)
	s.step("helm install with programming: the program is on the host; the driver reads the store, and has no capability")
	s.check(os.RemoveAll(filepath.Dir(hostDir)))
	s.cleanups = append(s.cleanups, func() {
		s.uninstall()
		s.check(errors.Join(os.RemoveAll(filepath.Dir(hostDir)), os.RemoveAll(specs)))
	})
	s.installDRA(programmingValues...)
	slices := s.followSlices()
	shown := slices.shows(time.Now(), offer(firstID, secondID))
	s.hostTool("version")
	same(s, "mounts of the driver", s.daemonMounts("/host"+hostDir, store), map[string]string{store: "ro"})
	status := s.daemonStatus()
	same(s, "capabilities of the driver", []string{status["CapEff"], status["CapBnd"], status["NoNewPrivs"]}, []string{"0000000000000000", "0000000000000000", "1"})

	s.step("a card has the AFU of the claim: the hook runs before the container, and does not use the container's variables")
	s.claim("user", programmed(first, strings.ToUpper(afuID[:8]+"-"+afuID[8:12]+"-"+afuID[12:16]+"-"+afuID[16:20]+"-"+afuID[20:])))
	pod := s.claimant("user", "user")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FPGA_REGION_1", Value: interfaceID}, {Name: "FPGA_AFU_1", Value: otherAFU}, {Name: "FPGA_AFU_2", Value: "../.."}}
	s.create(pod)
	s.hasReport("user", draReport(firstID, "dfl-port.0"))
	same(s, "events programming.present", s.countHookEvents("programming.present"), 1)
	s.step("its container is restarted, then a second pod uses the claim: the hook runs again")
	s.restartsWith("user", draReport(firstID, "dfl-port.0"), 1)
	s.create(s.claimant("beside", "user"))
	s.hasReport("beside", draReport(firstID, "dfl-port.0"))
	same(s, "events programming.present", s.countHookEvents("programming.present"), 3)
	s.deletePods("beside")

	s.step("the store has no bitstream: the claim is refused")
	const afu = "0123456789abcdef0123456789abcdef"
	s.claimed("missing", programmed(second, afu))
	s.oneLine("missing", "device "+deviceName(secondID)+" ("+secondID+") of request card: has AFU "+otherAFU+", but the claim requests "+afu+
		": no bitstream for interface "+interfaceID+" and AFU "+afu+" in the store", filepath.Join(store, interfaceID, afu)+".gbs or .aocx, which accelerator-fpga install FILE writes")
	s.logged("claim.refused", line{"claim": s.users + "/missing"})
	s.deleteClaimed("missing")
	s.step("the bitstream could be changed by other users: the claim is refused")
	given := filepath.Join(cluster.Root, "programming", "given.gbs")
	s.check(os.WriteFile(given, bits.GBS(bits.Metadata(interfaceID, afu), make([]byte, 4096)), 0o644))
	s.hostTool("install", "--store", store, given)
	s.check(os.Chmod(store, 0o777))
	s.claimed("writable", programmed(second, afu))
	s.oneLine("writable", store, "chmod go-w")
	s.deleteClaimed("writable")
	s.check(os.Chmod(store, 0o755))

	s.step("the card cannot be programmed, as it has no driver: the container does not start, and the event has the hook's line")
	s.claim("retried", programmed(second, afu))
	s.create(restarting(s.claimant("retried", "retried")))
	s.step("  %s", s.hookFails("retried", "--afu: card "+secondID))
	same(s, "failures", s.countHookEvents("programming.failed") > 0, true)
	s.step("the card has the AFU, as after a programming: the next attempt starts the container, and the device had no taint")
	s.hardware(func(n *simnode.Node) error { return n.Reprogram(second, 0, afu) })
	s.hasReport("retried", draReport(secondID, "dfl-port.1"))
	slices.keep(shown, offer(firstID, secondID))
	described, _ := s.metadata("retried", inFile("resourceclaims", "retried", "card"))
	same(s, "AFU in the metadata", described[deviceName(secondID)]["afuId"], s.published(secondID)[deviceName(secondID)]["afuId"])
	s.deleteClaimed("retried")
	s.step("a privileged container, which has all devices of the host: the hook checks the claim's device")
	s.hostNode("dfl-port.0")
	s.claim("privileged", programmed(second, afu))
	privileged, yes := s.claimant("privileged", "privileged"), true
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	before := s.countHookEvents("programming.present")
	s.create(privileged)
	s.reachesPhase("privileged", corev1.PodRunning)
	same(s, "events programming.present", s.countHookEvents("programming.present"), before+1)
	s.deleteClaimed("privileged")
	slices.keep(shown, offer(firstID, secondID))

	s.step("helm upgrade without programming, which the naming contains: a claim with another AFU is refused")
	old, upgraded := s.daemon().Name, time.Now()
	s.mustHelm("upgrade", s.settings(s.draValues("programming.enabled=false")...)...)
	await(s, "another driver", func() (bool, error) { return s.daemon().Name != old, nil }, true)
	s.claimed("off", programmed(second, otherAFU))
	s.oneLine("off", "has AFU "+afu+", but the claim requests "+otherAFU+": programming is off on this node")
	s.deleteClaimed("off")
	s.step("one with the AFU of its card is prepared, and the first pod is restarted, both without the hook")
	s.claimed("has", programmed(second, afu))
	s.hasReport("has", draReport(secondID, "dfl-port.1"))
	s.restartsWith("user", draReport(firstID, "dfl-port.0"), 2)
	same(s, "events programming.present", s.countHookEvents("programming.present"), before+1)
	slices.shows(upgraded, offer(firstID, secondID))
}

// draAlternatives shows that a claim can accept two alternatives: a card that already has the AFU or, if there is none,
// a card to be programmed.
func draAlternatives(s *scene) {
	s.plugCard(first, 1, -1, otherAFU)
	s.plug(second)
	s.cleanups = append(s.cleanups, func() {
		s.uninstall()
		s.check(errors.Join(os.RemoveAll(filepath.Dir(hostDir)), os.RemoveAll(specs)))
	})
	s.installDRA(programmingValues...)
	s.followSlices().shows(time.Now(), offer(firstID, secondID))
	given := filepath.Join(cluster.Root, "programming", "given.gbs")
	s.check(os.WriteFile(given, bits.GBS(bits.Metadata(interfaceID, afuID), make([]byte, 4096)), 0o644))
	s.hostTool("install", "--store", store, given)
	devices := withConfig(resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "card", FirstAvailable: []resourceapi.DeviceSubRequest{
		alternative("loaded", attribute("afuId")+` == "`+afuID+`"`),
		alternative("programmed", attribute("interfaceId")+` == "`+interfaceID+`"`),
	}}}}, `{"apiVersion": "`+draDriver+`/v1alpha1", "kind": "AcceleratorConfig", "afuId": "`+afuID+`"}`)
	chosen := func(claim string) string {
		found := must(s.Client.ResourceV1().ResourceClaims(s.users).Get(s.ctx, claim, metav1.GetOptions{})).Status.Allocation.Devices.Results[0]
		return found.Request + " " + found.Device
	}

	s.step("the card with the AFU is the second one: the first pod gets it, as it is")
	s.claimed("one", devices)
	s.hasReport("one", draReport(secondID, "dfl-port.1"))
	same(s, "alternative", chosen("one"), "card/loaded "+deviceName(secondID))
	same(s, "events programming.present", s.countHookEvents("programming.present"), 1)

	s.step("it is in use: the next pod gets the other card, which the hook programs")
	s.claim("two", devices)
	s.create(restarting(s.claimant("two", "two")))
	s.step("  %s", s.hookFails("two", "--afu: card "+firstID)) // simulated cards don't have a driver
	same(s, "alternative", chosen("two"), "card/programmed "+deviceName(firstID))
	s.hardware(func(n *simnode.Node) error { return n.Reprogram(first, 0, afuID) })
	s.hasReport("two", draReport(firstID, "dfl-port.0"))
}

// alternative returns a subrequest for a device that matches a CEL expression.
func alternative(name, expression string) resourceapi.DeviceSubRequest {
	return resourceapi.DeviceSubRequest{Name: name, DeviceClassName: draDriver, Selectors: request(name, 1, expression).Exactly.Selectors}
}

// draBitstream shows that the pod of a claim that requires a bitstream waits until a node has the bitstream, and that
// its card is then programmed. Two claims can use the same bitstream at the same time.
func draBitstream(s *scene) {
	s.plugCard(first, 1, -1, otherAFU)
	s.plug(second)
	s.cleanups = append(s.cleanups, func() {
		s.uninstall()
		s.check(errors.Join(os.RemoveAll(filepath.Dir(hostDir)), os.RemoveAll(specs)))
	})
	s.installDRA(append(slices.Clone(programmingValues), "dra.publishBitstreams=true")...)
	published := s.followSlices()
	cards := offer(firstID, secondID)
	published.shows(time.Now(), cards)
	interfaces := resourceapi.FullyQualifiedName(draDriver + "/interfaceId")
	bitstream := request("afu", 1, attribute("afuId")+` == "`+afuID+`"`)
	bitstream.Exactly.DeviceClassName = "bitstream." + draDriver
	claim := resourceapi.DeviceClaim{
		Requests:    []resourceapi.DeviceRequest{request("card", 1, ""), bitstream},
		Constraints: []resourceapi.DeviceConstraint{{Requests: []string{"card", "afu"}, MatchAttribute: &interfaces}},
	}
	s.step("no node has the bitstream: the pod is pending")
	s.claim("one", claim)
	s.create(restarting(s.claimant("one", "one")))
	s.pending("one")
	s.step("  %s", s.unscheduled("one"))
	s.step("it is installed: the pod is scheduled, and the hook programs its card")
	given := filepath.Join(cluster.Root, "programming", "given.gbs")
	s.check(os.WriteFile(given, bits.GBS(bits.Metadata(interfaceID, afuID), make([]byte, 4096)), 0o644))
	installed := time.Now()
	s.hostTool("install", "--store", store, given)
	name := "afu-" + afuID + "-" + interfaceID[:16]
	shown := maps.Clone(cards)
	shown[name] = ""
	s.step("  in the slice after %d ms", published.shows(installed, shown).Sub(installed).Milliseconds())
	s.step("  %s", s.hookFails("one", "--afu: card "+firstID)) // simulated cards don't have a driver
	same(s, "devices of the claim", must(s.allocated("one")), []string{name, deviceName(firstID)})
	s.hardware(func(n *simnode.Node) error { return n.Reprogram(first, 0, afuID) })
	s.hasReport("one", draReport(firstID, "dfl-port.0"))
	s.step("a second claim gets the same bitstream, with a card that has it already; a third one waits for a card")
	s.claimed("two", claim)
	s.hasReport("two", draReport(secondID, "dfl-port.1"))
	same(s, "devices of the claim", must(s.allocated("two")), []string{name, deviceName(secondID)})
	s.claimed("three", claim)
	s.pending("three")
	s.step("the bitstream is removed while the claims have it: their pods run on, and no further pod is scheduled")
	s.check(os.Remove(filepath.Join(store, interfaceID, afuID+".gbs")))
	published.shows(time.Now(), cards)
	s.deleteClaimed("two")
	s.staysInPhase("one", corev1.PodRunning)
	s.pending("three")
}

// unscheduled waits until the scheduler says why it hasn't found a node for a pod, and returns the scheduler's message.
func (s *scene) unscheduled(name string) (message string) {
	await(s, "message of the scheduler", func() (bool, error) {
		pod, err := s.readPod(name)
		if err != nil {
			return false, err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				message = c.Message
			}
		}
		return message != "", nil
	}, true)
	return message
}
