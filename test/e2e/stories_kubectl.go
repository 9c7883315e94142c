package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// accelerator runs kubectl accelerator as a user, or as the administrator if user is "", and returns its output.
func (s *scene) accelerator(user string, args ...string) (string, error) {
	args = append([]string{"accelerator", "--namespace", namespace}, args...)
	if user != "" {
		args = append(args, "--as", user)
	}
	return s.Run(s.ctx, "kubectl", args...)
}

// shows waits until kubectl accelerator succeeds and prints these words.
func (s *scene) shows(words []string, user string, args ...string) {
	await(s, "kubectl accelerator "+strings.Join(args, " "), func() (missing []string, err error) {
		out, err := s.accelerator(user, args...)
		text := strings.Join(strings.Fields(out), " ")
		for _, w := range words {
			if !strings.Contains(text, w) {
				missing = append(missing, w)
			}
		}
		return missing, err
	}, nil)
}

// refuses waits until kubectl accelerator fails with exit code 1 and prints these words on stderr.
func (s *scene) refuses(words string, user string, args ...string) {
	await(s, "refusal of kubectl accelerator "+strings.Join(args, " "), func() (bool, error) {
		_, err := s.accelerator(user, args...)
		return err != nil && strings.Contains(err.Error(), "exit status 1") && strings.Contains(err.Error(), words), nil
	}, true)
}

// kubectlAccelerator runs every command of kubectl accelerator, as the administrator and as users who have the example
// roles.
func kubectlAccelerator(s *scene, values ...string) {
	s.plug(first, second)
	s.step("helm install; devices lists both cards")
	s.install(values...)
	node := cluster.NodeName
	healthy := []string{node + " " + firstID + " healthy", node + " " + secondID + " healthy"}
	s.shows(healthy, "", "devices")
	s.shows([]string{firstID + " healthy"}, "", "devices", node)
	s.refuses("no answer from nowhere", "", "devices", node, "nowhere")

	s.step("a card breaks, and heals: devices, flaps and logs have the reason")
	s.breakCard(first)
	s.shows([]string{node + " " + firstID + " unhealthy", "port-ap6"}, "", "devices", "--unhealthy")
	s.shows([]string{"port-ap6"}, "", "explain", "port-ap6")
	s.healCard(first)
	s.shows(healthy, "", "devices")
	flapped := []string{node + " " + firstID + " 1 1 0 ", " healthy port-ap6"}
	s.shows(flapped, "", "flaps")

	s.step("another daemon: flaps has the same; the log of a restarted container is not lost")
	s.restartDaemon()
	s.shows(healthy, "", "devices")
	s.shows(flapped, "", "flaps")
	s.shows([]string{firstID}, "", "logs", node, "--device", firstID)

	s.step("without rights: the error names the right")
	s.refuses(`you don't have permission: pods is forbidden: User "lou" cannot list resource "pods" in API group "" in the namespace "`+namespace+`"`, "lou", "devices")

	s.step("accelerator-look: devices, flaps and logs, but not cordon")
	s.grantRoles()
	s.shows(healthy, "lou", "devices")
	s.shows(flapped, "lou", "flaps")
	s.shows([]string{firstID}, "lou", "logs", node)
	denied := "you don't have permission: needs the role accelerator-operate in " + namespace
	s.refuses(denied, "lou", "uncordon", node, firstID) // the API server doesn't apply a new policy immediately
	s.refuses(denied, "lou", "cordon", node, firstID, "--why", "fan")
	s.hasCordons()

	s.step("accelerator-look: the page of ui shows that a card breaks")
	s.follow("lou", func(shows func(...string)) {
		shows(`"id":"`+firstID+`"`, `"id":"`+secondID+`"`)
		s.breakCard(first)
		shows(`"id":"`+firstID+`","card":"`+firstID+`","health":"unhealthy"`, "port-ap6")
		s.healCard(first)
		shows(`"id":"` + firstID + `","card":"` + firstID + `","health":"healthy"`)
	})

	s.step("can-pull, from a pod that is removed: no while the card is in service, yes when it is cordoned and free")
	s.refuses(`cannot create resource "pods"`, "lou", "can-pull", node, firstID)
	s.canPull("no " + firstID + " is not cordoned: a new pod can get it at any time: kubectl accelerator --as olga --namespace " + namespace + " cordon " + node + " " + firstID)
	s.shows([]string{firstID + " cordoned by olga"}, "olga", "cordon", node, firstID, "--why", "pull")
	if _, err := os.Readlink("/proc/1/fd/0"); err != nil { // this machine is itself a sandbox
		s.step("  NOT TRIED: the answer yes: root cannot read the files of process 1 on this machine: %v", err)
		s.canPull("unknown not all processes that have the card open are known: process 1: ")
	} else {
		s.canPull("yes")
	}
	s.shows([]string{"ended: "}, "olga", "uncordon", node, firstID)

	s.step("report: all parts for the administrator, some for a user without accelerator-nodes; no names of pods")
	s.report(len(values) > 0)

	if len(values) > 0 && s.minor >= 37 {
		s.step("a DeviceTaintRule is shown to the administrator")
		rules := s.Client.ResourceV1().DeviceTaintRules()
		rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "fan"}, Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Pool: new(node), Device: new(deviceName(firstID))},
			Taint:          resourceapi.DeviceTaint{Key: "example.com/fan", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		}}
		_, err := rules.Create(s.ctx, rule, metav1.CreateOptions{})
		s.check(err)
		s.shows([]string{firstID + " healthy", "DeviceTaintRule/fan"}, "", "devices", "--unhealthy")
		s.check(rules.Delete(s.ctx, "fan", metav1.DeleteOptions{}))
	}

	s.step("accelerator-operate: cordon and uncordon, in the name of the user")
	s.shows([]string{firstID + " cordoned by olga since", ": replace the fan"}, "olga", "cordon", node, firstID, "--why", "replace the fan")
	s.hasCordons(firstID + " olga replace the fan")
	s.shows([]string{firstID + " unhealthy", "cordoned"}, "lou", "devices", "--unhealthy")
	s.shows([]string{"ended: " + firstID + " cordoned by olga"}, "olga", "uncordon", node, firstID)
	s.hasCordons()
}

// canPull runs can-pull for the first card as a user with the operate role, until the answer contains these words. It
// then checks that can-pull's pod is gone.
func (s *scene) canPull(words string) {
	await(s, "answer of can-pull", func() (string, error) {
		out, err := s.accelerator("olga", "can-pull", cluster.NodeName, firstID)
		if text := strings.Join(strings.Fields(out), " "); !strings.HasPrefix(text, words) {
			return text, fmt.Errorf("%s: %w", text, err)
		}
		return words, nil
	}, words)
	pods := s.must("kubectl", "--namespace", namespace, "get", "pods", "--output", "name", "--selector", "app.kubernetes.io/name=accelerator-can-pull")
	same(s, "pods of can-pull", pods, "")
}

// report checks the reports that the administrator and a user with the operate role can create.
func (s *scene) report(dra bool) {
	dir := must(os.MkdirTemp("", "report"))
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "all")
	out, err := s.accelerator("", "report", cluster.NodeName, "--file", file)
	s.check(err)
	same(s, "output of report", out, file+"\n")
	parts := map[string]string{}
	packed := tar.NewReader(must(gzip.NewReader(bytes.NewReader(must(os.ReadFile(file))))))
	for header, err := packed.Next(); !errors.Is(err, io.EOF); header, err = packed.Next() {
		s.check(err)
		parts[path.Base(header.Name)] = string(must(io.ReadAll(packed)))
	}
	words := map[string]string{
		"state.json": `"id": "` + firstID + `"`, "scan.json": `"id": "` + secondID + `"`, "pod.json": `"phase": "Running"`, "settings-1.json": `"config.yaml"`, "log.txt": `"event":"daemon.started"`,
		"node.json": `"type": "Ready"`,
	}
	if dra {
		words["slices.json"] = `"driver": "` + draDriver + `"`
	}
	for part, word := range words {
		same(s, part+" of the report has "+word, strings.Contains(parts[part], word), true)
	}
	for part, text := range parts {
		same(s, part+" of the report has a name", strings.Contains(text, s.daemon().Name) || strings.Contains(text, "ACCELERATOR_"), false)
	}
	_, err = s.accelerator("olga", "report", cluster.NodeName, "--file", filepath.Join(dir, "some"))
	s.refused("report without accelerator-nodes", err, `cannot get resource "nodes"`)
	_, err = s.accelerator("", "report", cluster.NodeName, "--file", file)
	s.refused("report over a file", err, "file exists")
}

// follow runs kubectl accelerator ui as a user while do runs. do can call shows to wait until the page receives an
// event that contains all of the given strings.
func (s *scene) follow(user string, do func(shows func(texts ...string))) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "kubectl"), "accelerator", "ui", "--namespace", namespace, "--as", user)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	out := must(cmd.StdoutPipe())
	s.check(cmd.Start())
	defer func() {
		cancel()
		_ = cmd.Wait() // the error only says that it was killed
	}()
	words := strings.Fields(must(bufio.NewReader(out).ReadString('\n')))
	if len(words) < 2 {
		s.failf("kubectl accelerator ui: printed %q, want an address", words)
	}
	answer := must(http.DefaultClient.Do(must(http.NewRequestWithContext(ctx, http.MethodGet, words[1]+"events", nil))))
	defer answer.Body.Close()
	events := bufio.NewReader(answer.Body)
	do(func(texts ...string) {
		for {
			event := must(events.ReadString('\n'))
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(event, text) }) {
				return
			}
		}
	})
}

// grantRoles applies the example roles for the release's namespace, and grants them to the users lou (look) and olga
// (operate).
func (s *scene) grantRoles() {
	text := string(must(os.ReadFile(filepath.Join(s.tree, "deploy/examples/kubectl-roles.yaml"))))
	text = strings.ReplaceAll(text, "fpga-system", namespace)
	// Don't delete the policies at the end. If a policy were deleted and created again, the API server would no longer
	// apply it to changes to DaemonSets.
	s.cleanups = append(s.cleanups, func() {
		s.must("kubectl", "--namespace", namespace, "delete", "rolebinding", "--ignore-not-found", "look-lou", "operate-olga")
	})
	must(s.kubectl(text, "apply", "--filename", "-"))
	s.must("kubectl", "--namespace", namespace, "create", "rolebinding", "look-lou", "--clusterrole=accelerator-look", "--user=lou")
	s.must("kubectl", "--namespace", namespace, "create", "rolebinding", "operate-olga", "--clusterrole=accelerator-operate", "--user=olga")
}
