package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// attributesDir is the directory of the metadata files inside containers.
const attributesDir = "/var/run/kubernetes.io/dra-device-attributes"

// attributes maps a device's name to its attributes.
type attributes map[string]map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// inFile returns the path of a request's metadata file inside a container. kind is resourceclaims or
// resourceclaimtemplates.
func inFile(kind, claim, request string) string {
	return filepath.Join(attributesDir, kind, claim, request, draDriver+"-metadata.json")
}

// inside returns the host path of a file in a pod's container.
func (s *scene) inside(pod, path string) string {
	object := must(s.readPod(pod))
	return filepath.Join(fmt.Sprintf("/proc/%d/root", s.pid(object.Status.ContainerStatuses[0].ContainerID)), path)
}

// metadata returns the content of a metadata file in a pod's container: the attributes and the generation.
func (s *scene) metadata(pod, path string) (attributes, int64) {
	file := must(os.Open(s.inside(pod, path)))
	defer file.Close()
	var content struct {
		APIVersion, Kind string
		Metadata         metav1.ObjectMeta
		Requests         []struct {
			Devices []struct {
				Driver, Pool, Name string
				Attributes         map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
			}
		}
	}
	s.check(json.NewDecoder(file).Decode(&content)) // the first object; the file contains one per API version
	same(s, "kind in "+path, content.APIVersion+" "+content.Kind, "metadata.resource.k8s.io/v1beta1 DeviceMetadata")
	found := attributes{}
	for _, r := range content.Requests {
		for _, d := range r.Devices {
			same(s, "driver and pool in "+path, d.Driver+" "+d.Pool, draDriver+" "+cluster.NodeName)
			found[d.Name] = d.Attributes
		}
	}
	return found, content.Metadata.Generation
}

// published returns the attributes that the slices list for the devices with these IDs.
func (s *scene) published(ids ...string) attributes {
	slices, err := s.Client.ResourceV1().ResourceSlices().List(s.ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + draDriver})
	s.check(err)
	found := attributes{}
	for _, slice := range slices.Items {
		for _, d := range slice.Spec.Devices {
			for _, id := range ids {
				if d.Name == deviceName(id) {
					found[d.Name] = d.Attributes
				}
			}
		}
	}
	return found
}

// metadataIsPublished checks that a metadata file in a pod's container has the given generation and contains the same
// attributes as the slices for the devices with these IDs.
func (s *scene) metadataIsPublished(pod, path string, generation int64, ids ...string) {
	found, version := s.metadata(pod, path)
	same(s, path+" of "+pod, found, s.published(ids...))
	same(s, "generation of "+path, version, generation)
}

// noMetadata waits until there are no metadata files left on the node.
func (s *scene) noMetadata() {
	await(s, "metadata files on the node", func() (bool, error) {
		_, err := os.Stat(draPlugin + "/metadata")
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return true, err
	}, false)
}

// draMetadata shows that containers find their devices' attributes in files, one per request, and that the files don't
// outlive the pods.
func draMetadata(s *scene) {
	s.plugCard(first, 1, 0, afuID)
	s.plugCard(second, 1, 1, otherAFU)
	s.installDRA()
	slices := s.followSlices()
	slices.shows(time.Now(), offer(firstID, secondID))

	s.step("two requests of a claim from a template: each file has the attributes of its device in the slice")
	s.template("cards", resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		request("near", 1, `device.attributes["resource.kubernetes.io"].?numaNode.orValue(-1) == 0`),
		request("far", 1, `device.attributes["resource.kubernetes.io"].?numaNode.orValue(-1) == 1`),
	}})
	s.create(restarting(s.templated("user", "cards")))
	s.hasDevices("user", draReport(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
	near, far := inFile("resourceclaimtemplates", "cards", "near"), inFile("resourceclaimtemplates", "cards", "far")
	s.metadataIsPublished("user", near, 1, firstID)
	s.metadataIsPublished("user", far, 1, secondID)
	found, _ := s.metadata("user", near)
	address := found[deviceName(firstID)]["resource.kubernetes.io/pciBusID"].StringValue
	if address == nil || *address != first {
		s.failf("%s: found %v, want the address %s", near, found, first)
	}
	s.step("the container cannot write them")
	mounts := must(os.ReadFile(filepath.Join(filepath.Dir(s.inside("user", "")), "mounts")))
	readOnly := 0
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 3 && strings.HasPrefix(fields[1], attributesDir) {
			same(s, "options of "+fields[1], strings.Split(fields[3], ",")[0], "ro")
			readOnly++
		}
	}
	same(s, "mounts of files", readOnly, 2)

	s.step("the AFU changes: the running container keeps its file, and the next one has the new attributes")
	before := s.published(secondID)
	changed := s.hardware(func(n *simnode.Node) error { return n.Reprogram(second, 0, afuID) })
	await(s, "AFU in the slice, of a device that is not degraded", func() (string, error) {
		found := s.published(secondID)[deviceName(secondID)]
		if _, degraded := found["degraded"]; found["afuId"].StringValue == nil || degraded {
			return "", nil
		}
		return *found["afuId"].StringValue, nil
	}, afuID)
	s.step("  after %d ms", time.Since(changed).Milliseconds())
	old, generation := s.metadata("user", far)
	same(s, "file of the running container", old, before)
	same(s, "generation", generation, 1)
	s.killContainer("user")
	await(s, "restarts", func() (int32, error) { return s.restarts("user") }, 1)
	s.hasDevices("user", draReport(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
	s.metadataIsPublished("user", near, 1, firstID)
	found, generation = s.metadata("user", far)
	same(s, "file of the next container", found, s.published(secondID))
	if generation < 2 { // programming may publish intermediate states
		s.failf("generation: found %d, want 2 or more", generation)
	}

	s.step("another driver: the container is restarted, and has the files")
	s.restartDaemon()
	s.killContainer("user")
	await(s, "restarts", func() (int32, error) { return s.restarts("user") }, 2)
	s.hasDevices("user", draReport(firstID+","+secondID, "dfl-port.0", "dfl-port.1"))
	s.metadataIsPublished("user", near, 1, firstID)
	s.step("the pod ends: no file is left")
	s.deletePods("user")
	s.prepared(0)
	s.noMetadata()

	s.step("a claim of its own name; a pod of another claim with a path in its annotation")
	s.claimed("direct", one())
	s.reachesPhase("direct", corev1.PodRunning)
	s.metadataIsPublished("direct", inFile("resourceclaims", "direct", "card"), 1, s.idOf("direct"))
	_, err := s.Client.ResourceV1().ResourceClaims(s.users).Create(s.ctx, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "hostile", Annotations: map[string]string{"resource.kubernetes.io/pod-claim-name": "../../../../etc"}},
		Spec:       resourceapi.ResourceClaimSpec{Devices: one()},
	}, metav1.CreateOptions{})
	s.check(err)
	s.create(restarting(s.claimant("hostile", "hostile")))
	s.reachesPhase("hostile", corev1.PodRunning)
	own := inFile("resourceclaims", "hostile", "card")
	s.metadataIsPublished("hostile", own, 1, s.idOf("hostile"))

	s.step("helm upgrade --set dra.deviceMetadata=false: the containers that run keep the file, the next ones have none, and start")
	began := time.Now()
	s.upgradeTo("dra.deviceMetadata=false")
	s.noMetadata()
	s.metadataIsPublished("direct", inFile("resourceclaims", "direct", "card"), 1, s.idOf("direct"))
	id := s.idOf("hostile")
	s.restartsWith("hostile", draReport(id, map[string]string{firstID: "dfl-port.0", secondID: "dfl-port.1"}[id]), 1)
	if _, err := os.Stat(s.inside("hostile", own)); !errors.Is(err, fs.ErrNotExist) {
		s.failf("%s: found %v, want no file", own, err)
	}
	slices.keep(began, offer(firstID, secondID))
	s.deleteClaimed("direct", "hostile")
}

// idOf returns the ID of a claim's device.
func (s *scene) idOf(claim string) string {
	names := must(s.allocated(claim))
	for id, name := range map[string]string{firstID: deviceName(firstID), secondID: deviceName(secondID)} {
		if len(names) == 1 && names[0] == name {
			return id
		}
	}
	s.failf("claim %s: found the devices %q, want one", claim, names)
	return ""
}
