package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// A card for each family other than DFL, whose card is the one at first, and the names of all families' resources.
const (
	vfCard                       = "0000:02:00.0" // has three virtual functions on vfio-pci
	xrtCard, xrtUser, xrtID      = "0000:03:00.0", "0000:03:00.1", "03:00.1"
	awsCard, awsID               = "0000:04:00.0", "04:00.0"
	portResource, vfResource     = "e2e.b-com.com/port", "e2e.b-com.com/vf"
	shell, otherShell            = "xilinx_u250_gen3x16_xdma_shell_4_1", "xilinx_u250_gen3x16_base_4"
	shellResource, otherResource = "amd.com/" + shell + "-0", "amd.com/" + otherShell + "-0"
)

var vfIDs = []string{"02:00.1", "02:00.2", "02:00.3"}

// allFamilies lists the chart values for the cards that [scene.plugFamilies] plugs in.
var allFamilies = []string{
	"config.families={dfl,vfio,xrt,aws}",
	"config.resources[0].name=" + vfResource, "config.resources[0].match.family=vfio",
}

// plugFamilies plugs in one card of each family.
func (s *scene) plugFamilies() {
	s.plug(first)
	for address, board := range map[string]string{vfCard: "n6001-vfs", xrtCard: "u250", awsCard: "aws-f2"} {
		s.simulate("plug", address, "--board", board)
	}
}

// families shows that pods get cards of each family. While the pods hold the cards, the XRT card is reset and gets
// another shell, and an image is loaded into the AWS card.
func families(s *scene, values ...string) {
	s.plugFamilies()
	s.step("helm install with all families: each card is offered under its name")
	s.install(slices.Concat(allFamilies, values, []string{
		"config.resources[1].name=" + portResource, "config.resources[1].match.family=dfl",
	})...)
	s.awaitAdvertised(portResource, 1, 1)
	s.awaitAdvertised(vfResource, 3, 3)
	s.awaitAdvertised(shellResource, 1, 1)
	s.awaitAdvertised(s.resource, 1, 1) // the mode's default name, for the AWS card
	s.step("a pod of each: a port, three groups, a card with XRT, a card of AWS, whose files it maps")
	s.create(s.pod("port", portResource, 1))
	s.create(s.pod("vfs", vfResource, 3))
	s.create(s.pod("xrt", shellResource, 1))
	files := s.writeBars("the first image")
	s.create(s.pod("aws", s.resource, 1))
	s.hasReport("port", reportOf(firstID, "dfl-port.0"))
	s.hasReport("vfs", s.withNodes(reportOf(strings.Join(vfIDs, ",")), "vfio/*"))
	s.hasReport("xrt", s.withNodes(reportOf(xrtID), "dri/renderD128"))
	s.hasReport("aws", withFiles(reportOf(awsID), files))
	s.answered(files, awsID)

	s.step("the card with XRT is reset: unhealthy; it is back: the pod keeps it")
	s.health("xrt", map[string]string{xrtID: "Healthy"})
	s.hardware(func(n *simnode.Node) error { return n.BeginReset(xrtUser) })
	s.awaitAdvertised(shellResource, 1, 0)
	s.hasReasons(map[string][]string{xrtID: {"resetting"}})
	s.health("xrt", map[string]string{xrtID: "Unhealthy"})
	s.hardware(func(n *simnode.Node) error { return n.EndReset(xrtUser, "") })
	s.awaitAdvertised(shellResource, 1, 1)
	s.health("xrt", map[string]string{xrtID: "Healthy"})
	s.step("it gets another shell: it stays with its pod under its former name, then it has the new one")
	s.hardware(func(n *simnode.Node) error {
		return errors.Join(n.BeginReset(xrtUser), n.EndReset(xrtUser, otherShell))
	})
	s.awaitAdvertised(shellResource, 1, 0)
	s.hasReasons(map[string][]string{xrtID: {"replaced-in-use"}})
	s.health("xrt", map[string]string{xrtID: "Unhealthy"})
	s.deletePods("xrt")
	s.awaitAdvertisedSoon(otherResource, 1, 1)
	s.awaitAdvertised(shellResource, 0, 0)
	s.create(s.pod("xrt", otherResource, 1))
	s.hasReport("xrt", s.withNodes(reportOf(xrtID), "dri/renderD128"))

	s.step("an image is loaded into the card of AWS while its pod runs")
	s.hardware(func(n *simnode.Node) error { return n.Remove(awsCard) })
	s.awaitAdvertised(s.resource, 1, 0)
	s.hasReasons(map[string][]string{awsID: {"loading"}})
	s.health("aws", map[string]string{awsID: "Unhealthy"})
	s.hardware(func(n *simnode.Node) error { return n.Rescan(awsCard, "1d0f:f010:1d0f:1d51") })
	s.awaitAdvertised(s.resource, 1, 1)
	s.health("aws", map[string]string{awsID: "Healthy"})
	s.step("the pod ends: the next one has the files of the new image")
	s.deletePods("aws")
	files = s.writeBars("the second image")
	s.create(s.pod("aws", s.resource, 1))
	s.hasReport("aws", withFiles(reportOf(awsID), files))
	s.answered(files, awsID)
	s.reachesPhase("port", corev1.PodRunning)
	s.reachesPhase("vfs", corev1.PodRunning)
	s.uninstall()
	s.check(os.RemoveAll(specs))
}

// draFamilies shows that claims can select cards of all families by their attributes. Through a device class, an
// unchanged pod gets the XRT card under the resource name that the device plugin uses for it.
func draFamilies(s *scene) {
	s.plugFamilies()
	s.installDRA(append(allFamilies,
		"dra.deviceClasses[0].name=u250.example.com", "dra.deviceClasses[0].match.vbnv="+shell, "dra.deviceClasses[0].extendedResourceName="+shellResource,
	)...)
	slices := s.followSlices()
	slices.shows(time.Now(), offer(append(vfIDs, firstID, xrtID, awsID)...))
	s.step("claims by family, and an unchanged pod with the name of the shell")
	files := s.writeBars("the first image")
	s.claimed("aws", selects(attribute("family")+` == "aws"`))
	vfs := selects(attribute("family") + ` == "vfio"`)
	vfs.Requests[0].Exactly.Count = 3
	s.claimed("vfs", vfs)
	s.create(s.pod("xrt", shellResource, 1))
	s.hasReport("aws", withFiles(draReport(awsID), files))
	s.answered(files, awsID)
	s.hasReport("vfs", s.withNodes(draReport(strings.Join(vfIDs, ",")), "vfio/*"))
	s.hasReport("xrt", s.withNodes(draReport(xrtID), "dri/renderD128"))
	s.step("the card with XRT is reset, and an image is loaded into the card of AWS: no pod is evicted")
	s.hardware(func(n *simnode.Node) error { return errors.Join(n.BeginReset(xrtUser), n.Remove(awsCard)) })
	all := offer(append(vfIDs, firstID)...)
	slices.shows(time.Now(), all.with(xrtID, "resetting:NoSchedule").with(awsID, "loading:NoSchedule"))
	s.claimHealth("aws", map[string]string{awsID: "Unhealthy"})
	s.hardware(func(n *simnode.Node) error {
		return errors.Join(n.EndReset(xrtUser, ""), n.Rescan(awsCard, "1d0f:f010:1d0f:1d51"))
	})
	slices.shows(time.Now(), all.with(xrtID, "").with(awsID, ""))
	s.claimHealth("aws", map[string]string{awsID: "Healthy"})
	s.reachesPhase("xrt", corev1.PodRunning)
	s.reachesPhase("aws", corev1.PodRunning)
	s.step("the pod ends: the next one has the files of the new image")
	s.deletePods("aws")
	files = s.writeBars("the second image")
	s.create(s.claimant("next", "aws"))
	s.hasReport("next", withFiles(draReport(awsID), files))
	s.answered(files, awsID)
}

// withNodes adds to a report those of the simulated node's device nodes whose paths match a pattern.
func (s *scene) withNodes(r report, pattern string) report {
	paths := must(filepath.Glob(filepath.Join(simulated, "dev", pattern)))
	for _, path := range paths {
		var stat syscall.Stat_t
		s.check(syscall.Stat(path, &stat))
		number := fmt.Sprintf("%d:%d", stat.Rdev>>8, stat.Rdev&0xff)
		r.Nodes[strings.TrimPrefix(path, simulated+"/dev/")] = number
		r.Opens = append(r.Opens, number)
	}
	slices.Sort(r.Opens)
	return r
}

// withFiles returns the report with these mounted files.
func withFiles(r report, files map[string]string) report {
	r.Files = files
	return r
}

// writeBars writes a text to each BAR file of the AWS card's application function, and returns the texts, keyed by the
// files' paths. The paths are the same inside containers.
func (s *scene) writeBars(text string) map[string]string {
	entry := filepath.Join(simulated, "sys/bus/pci/devices", awsCard)
	target := must(os.Readlink(entry))
	files := map[string]string{}
	for _, name := range []string{"resource0", "resource4", "resource4_wc"} {
		path := filepath.Join(filepath.Dir(entry), target, name)
		f := must(os.OpenFile(path, os.O_WRONLY, 0))
		files[path] = name + " of " + text
		_, err := f.WriteAt([]byte(files[path]), 0)
		s.check(errors.Join(err, f.Close()))
	}
	return files
}

// answered checks that a container has written its device's ID to each of the files, at the offset that
// test/e2e/workload uses.
func (s *scene) answered(files map[string]string, id string) {
	for path := range files {
		page := must(os.ReadFile(path))
		if got, _, _ := strings.Cut(string(page[2048:]), "\x00"); got != id {
			s.failf("%s: found %q, want %q, which the container writes", path, got, id)
		}
	}
}
