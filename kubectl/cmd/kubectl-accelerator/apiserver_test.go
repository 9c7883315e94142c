package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

const pluginNamespace = "fpga-system"

// apiServer is a real API server. A stand-in for the kubelets of all its nodes speaks the real protocol of exec.
type apiServer struct {
	client.Client
	t      testing.TB
	env    *envtest.Environment
	config *rest.Config
	port   int32 // of the kubelets

	mu   sync.Mutex                    // held while pods are added
	runs map[string]simcluster.Command // by pod
	logs map[string]string             // by pod
}

func newAPIServer(t testing.TB) *apiServer {
	bin := os.Getenv("ACCELERATOR_E2E_BIN")
	if bin == "" {
		t.Skip("NOT RUN: ACCELERATOR_E2E_BIN: found none, want a directory with etcd and kube-apiserver; make test-kubectl sets it if make e2e has built them")
	}
	s := &apiServer{t: t, env: &envtest.Environment{BinaryAssetsDirectory: bin}, runs: map[string]simcluster.Command{}, logs: map[string]string{}}
	var err error
	s.config, err = s.env.Start()
	s.must(err)
	t.Cleanup(func() { s.must(s.env.Stop()) })
	s.config.QPS = -1
	s.Client, err = client.New(s.config, client.Options{})
	s.must(err)
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		streams, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, executor{s}, r.PathValue("pod"), "", r.PathValue("container"), r.URL.Query()["command"], streams,
			time.Hour, time.Minute, remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = io.WriteString(w, s.logs[r.PathValue("pod")])
	})
	kubelet := httptest.NewTLSServer(mux)
	t.Cleanup(kubelet.Close)
	address, err := url.Parse(kubelet.URL)
	s.must(err)
	_, port, err := net.SplitHostPort(address.Host)
	s.must(err)
	n, err := strconv.ParseInt(port, 10, 32)
	s.must(err)
	s.port = int32(n)
	s.must(s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pluginNamespace}}))
	return s
}

func (s *apiServer) must(err error) {
	s.t.Helper()
	must.Succeed(s.t, err)
}

// executor is what the streaming server of a container runtime calls.
type executor struct{ s *apiServer }

func (e executor) ExecInContainer(ctx context.Context, pod, _, _ string, command []string, _ io.Reader, out, err io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	code := e.s.runs[pod](ctx, command, out, err)
	if code < 0 { // a runtime that fails does this
		return errors.New("container is in an unknown state")
	}
	if code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
	}
	return nil
}

// add creates a node with a pod.
func (s *apiServer) add(p *simcluster.Pod) {
	s.t.Helper()
	ctx := s.t.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.NodeName, Labels: map[string]string{"topology.kubernetes.io/zone": "a"}}}
	s.must(s.Create(ctx, node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = s.port
	s.must(s.Status().Update(ctx, node))
	pod, status := p.DeepCopy(), p.Status
	pod.OwnerReferences[0].APIVersion = "apps/v1"
	pod.Spec.Containers[0].Image = cmp.Or(pod.Spec.Containers[0].Image, "accelerator-device-plugin:v1")
	s.must(s.Create(ctx, pod))
	pod.Status = status
	s.must(s.Status().Update(ctx, pod))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[p.Name] = p.Run
	s.logs[p.Name] = strings.Join(p.Logs, "")
}

// runPods ends the pods with a name, as a kubelet does, until the test ends.
func (s *apiServer) runPods(name string, run func(*corev1.Pod) (log string, code int32)) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var done sync.WaitGroup
	s.t.Cleanup(func() { cancel(); done.Wait() })
	done.Go(func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			var pods corev1.PodList
			if s.List(ctx, &pods, client.MatchingLabels{"app.kubernetes.io/name": name}) != nil {
				continue // the command sees no answer, and the test fails
			}
			for _, p := range pods.Items {
				if p.Status.Phase != corev1.PodPending {
					continue
				}
				log, code := run(&p)
				s.mu.Lock()
				s.logs[p.Name] = log
				s.mu.Unlock()
				p.Status.Phase = corev1.PodSucceeded
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, Image: "a", ImageID: "a", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}}
				_ = s.Status().Update(ctx, &p) // the same
			}
		}
	})
}

// kubeconfig writes a kubeconfig of a user with a role in the namespace of the plugin.
func (s *apiServer) kubeconfig(user string, roles ...string) string {
	s.t.Helper()
	for _, role := range roles {
		s.must(s.Create(s.t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pluginNamespace, Name: role + "-" + user},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}))
	}
	added, err := s.env.AddUser(envtest.User{Name: user}, nil)
	s.must(err)
	text, err := added.KubeConfig()
	s.must(err)
	path := filepath.Join(s.t.TempDir(), user)
	s.must(os.WriteFile(path, text, 0o600))
	return path
}

// The example roles are tested at a real API server, with real daemons: each command with each role.
func TestRoles(t *testing.T) {
	s := newAPIServer(t)
	text, err := os.ReadFile("../../../deploy/examples/kubectl-roles.yaml")
	s.must(err)
	for _, document := range strings.Split(string(text), "\n---\n") {
		var o unstructured.Unstructured
		s.must(yaml.Unmarshal([]byte(document), &o.Object))
		s.must(s.Create(t.Context(), &o))
	}
	s.must(s.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "accelerator-spdy"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
			{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}},
		},
	}))
	n := startNode(t, "two-ports")
	sets := []*appsv1.DaemonSet{s.daemonSet("accelerator-device-plugin"), s.daemonSet("accelerator-dra-driver")}
	for i, api := range []string{"devicePlugin", "dra"} {
		p := simcluster.NewPod(fmt.Sprintf("worker-%d", i+1), pluginNamespace, "fpga", api, n.run)
		p.Spec = sets[i].Spec.Template.Spec
		p.Spec.NodeName = p.Name[len("fpga-"):]
		log, err := os.ReadFile("../../../internal/timeline/testdata/hotplug.log")
		s.must(err)
		p.Logs = []string{string(log)}
		s.add(p)
	}
	s.must(s.Create(t.Context(), sets[1]))
	s.must(s.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pluginNamespace, Name: "accelerator-device-plugin"}}))
	s.must(s.Create(t.Context(), &corev1.LimitRange{ // its annotation on the pod of can-pull is allowed, and so is the label of the zone
		ObjectMeta: metav1.ObjectMeta{Namespace: pluginNamespace, Name: "limits"},
		Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: "Container", Default: corev1.ResourceList{"cpu": resource.MustParse("1")}}}},
	}))
	created := make(chan *corev1.Pod, 10) // of can-pull
	s.runPods("accelerator-can-pull", func(p *corev1.Pod) (string, int32) {
		created <- p.DeepCopy()
		return `{"address":"0000:3b:00.0","answer":"no","reasons":[{"answer":"no","what":"in use by a/b/c","do":"end it"}]}`, 1
	})
	s.must(s.Create(t.Context(), &rbacv1.RoleBinding{ // the authorizer of nodes allows it, but this API server does not have it
		ObjectMeta: metav1.ObjectMeta{Namespace: pluginNamespace, Name: "kubelets"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "accelerator-operate"},
	}))
	look, operate, spdy, nobody := s.kubeconfig("lou", "accelerator-look"), s.kubeconfig("olga", "accelerator-operate"), s.kubeconfig("sid", "accelerator-spdy"), s.kubeconfig("nora")
	rita := s.kubeconfig("rita", "accelerator-operate")
	s.must(s.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes-rita"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "rita"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "accelerator-nodes"},
	}))
	long := s.kubeconfig(strings.Repeat("long", 20)+"-é-end", "accelerator-operate")
	dir := t.TempDir()
	run := func(kubeconfig string, args ...string) (string, int) {
		var out bytes.Buffer
		code := run(t.Context(), append([]string{"--kubeconfig", kubeconfig, "-n", pluginNamespace, "--node-timeout", "30s"}, args...), &out, &out)
		return out.String(), code
	}
	patient.Await(t, "the policy", func() error { // the API server applies a new policy only some time later
		if out, _ := run(look, "uncordon", "worker-1", "99:00.0"); !strings.Contains(out, "needs the role accelerator-operate") {
			return errors.New(out)
		}
		return nil
	})
	for _, test := range []struct {
		user string
		args []string
		code int
		says string
	}{
		{look, []string{"devices"}, 0, "worker-2  3b:00.0-p1  healthy"},
		{look, []string{"flaps"}, 0, "found no card whose health"},
		{look, []string{"logs", "worker-1", "--summary"}, 0, "FLAPS"},
		{look, []string{"forget", "worker-1", "3b:00.0"}, 1, "you don't have permission: needs the role accelerator-operate in fpga-system ("},
		{look, []string{"cordon", "worker-1", "3b:00.0", "--why", "fan"}, 1, "you don't have permission: needs the role accelerator-operate in fpga-system ("},
		{operate, []string{"cordon", "worker-1", "3b:00.0", "--why", "fan"}, 0, "3b:00.0 cordoned by olga since"},
		{operate, []string{"devices", "worker-2", "--unhealthy"}, 0, "cordoned"},
		{operate, []string{"uncordon", "worker-1", "3b:00.0"}, 0, "ended: 3b:00.0 cordoned by olga"},
		{operate, []string{"forget", "worker-1", "3b:00.0"}, 1, "card: found 3b:00.0, which is present"}, // from the daemon
		{long, []string{"cordon", "worker-1", "3b:00.0", "3b:00.0-p1", "--why", "--fan", "--for", "2h"}, 0, "3b:00.0 cordoned by longlonglonglonglonglonglonglon…"},
		{long, []string{"uncordon", "worker-1", "3b:00.0", "3b:00.0-p1"}, 0, "ended: "},
		{operate, []string{"logs", "worker-2"}, 0, "daemon stopped"},
		{operate, []string{"can-pull", "worker-2", "3b:00.0"}, 1, "no\nin use by a/b/c: end it\n"},
		{rita, []string{"report", "worker-2", "--file", dir + "/all"}, 0, dir + "/all"},
		{operate, []string{"report", "worker-2", "--file", dir + "/some"}, 1, `node.json: you don't have permission: nodes "worker-2" is forbidden: User "olga" cannot get resource "nodes" in API group "" at the cluster scope`},
		{look, []string{"report", "worker-1", "--file", dir + "/less"}, 1, `plugin-1/scan.json: you don't have permission: `},
		{look, []string{"can-pull", "worker-1", "3b:00.0"}, 1, `you don't have permission: pods is forbidden: User "lou" cannot create resource "pods" in API group "" in the namespace "fpga-system": the role accelerator-operate of docs/kubectl.md has it`},
		{spdy, []string{"devices"}, 0, "worker-2  3b:00.0-p1  healthy"},
		{spdy, []string{"logs", "worker-1"}, 1, `you don't have permission: pods "fpga-worker-1" is forbidden: User "sid" cannot get resource "pods/log" in API group "" in the namespace "fpga-system"`},
		{nobody, []string{"devices"}, 1, `you don't have permission: pods is forbidden: User "nora" cannot list resource "pods" in API group "" in the namespace "fpga-system"`},
	} {
		out, code := run(test.user, test.args...)
		t.Logf("%s: %v: exit code %d\n%s", filepath.Base(test.user), test.args, code, out)
		if code != test.code || !strings.Contains(out, test.says) {
			t.Errorf("want exit code %d and %q", test.code, test.says)
		}
	}
	s.testUI(t, look)
	s.testCommands(operate)
	s.must(s.Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Handler: "vm"}))
	s.testPods(operate, sets[1], <-created)
	s.must(s.Delete(t.Context(), sets[1]))
	s.must(s.Create(t.Context(), sets[0]))
	patient.Await(t, "the policy", func() error {
		if out, _ := run(operate, "can-pull", "worker-1", "3b:00.0"); !strings.HasPrefix(out, "no\n") {
			return errors.New(out)
		}
		return nil
	})
	made := <-created
	s.testPods(operate, sets[0], made)
	s.must(s.Delete(t.Context(), sets[0]))
	patient.Await(t, "the policy without a DaemonSet", func() error {
		if out, _ := run(operate, "can-pull", "worker-1", "3b:00.0"); !strings.Contains(out, " (refused by a policy: ") {
			return errors.New(out)
		}
		return nil
	})
}

// daemonSet returns the DaemonSet of a manifest.
func (s *apiServer) daemonSet(name string) *appsv1.DaemonSet {
	text, err := os.ReadFile("../../../deploy/manifests/" + name + ".yaml")
	s.must(err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if set := new(appsv1.DaemonSet); strings.Contains(document, "\nkind: DaemonSet\n") {
			s.must(yaml.Unmarshal([]byte(document), set))
			set.Namespace = pluginNamespace
			return set
		}
	}
	s.t.Fatalf("%s: found no DaemonSet", name)
	return nil
}

// testCommands checks that a user with the role operate can run only the commands of kubectl accelerator, and only
// under the user's own name.
func (s *apiServer) testCommands(operate string) {
	config, err := clientcmd.BuildConfigFromFlags("", operate)
	s.must(err)
	pods, err := corev1client.NewForConfig(config)
	s.must(err)
	for _, command := range [][]string{
		{"cordon", "3b:00.0", "--why=x"}, {"cordon", "3b:00.0", "--why=x", "--by=jane"}, {"cordon", "3b:00.0", "--why=x", "--by=olga", "--by=jane"},
		{"cordon", "3b:00.0", "--by=olga", "--why=x", "--by", "jane"}, {"uncordon", "3b:00.0", "--by=olga", "--socket=/x"}, {"uncordon", "--by=olga", "--config", "/x"},
		{"cordon", "--by=olga", "", "3b:00.0"}, {"forget", "3b:00.0"}, {"forget", "3b:00.0", "--by=olga", "--socket=/x"}, {"can-pull", "3b:00.0", "--by=olga"}, {"devices", "--scan", "-o", "json", "--sysfs-root=/x"}, {"serve"},
		{"devices", "-o", "state", "--by=olga"}, {"../sh", "-c", "cordon", "--by=olga"},
	} {
		options := &corev1.PodExecOptions{Container: "accelerator-device-plugin", Command: append([]string{"accelerator-device-plugin"}, command...), Stdout: true}
		if command[0] == "../sh" {
			options.Command = command
		}
		exec := func() error {
			return pods.RESTClient().Post().Resource("pods").Namespace(pluginNamespace).Name("fpga-worker-1").SubResource("exec").VersionedParams(options, scheme.ParameterCodec).Do(s.t.Context()).Error()
		}
		if err := exec(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "and cordon, uncordon and forget with --by=olga") {
			s.t.Errorf("%q with the role to operate: %v, want that it is refused", options.Command, err)
		}
	}
	options := &corev1.PodExecOptions{Container: "accelerator-device-plugin", Command: []string{"accelerator-device-plugin", "devices", "--scan", "-o", "json"}, Stdin: true}
	if err := pods.RESTClient().Post().Resource("pods").Namespace(pluginNamespace).Name("fpga-worker-1").SubResource("exec").VersionedParams(options, scheme.ParameterCodec).Do(s.t.Context()).Error(); !apierrors.IsForbidden(err) {
		s.t.Errorf("stdin with the role to operate: %v, want that it is refused", err)
	}
}

// testPods checks that a user with the role operate can create only the pod that can-pull creates for a pod of the
// DaemonSet. Administrators and the cluster itself can create other pods.
func (s *apiServer) testPods(operate string, set *appsv1.DaemonSet, made *corev1.Pod) {
	ctx := s.t.Context()
	config, err := clientcmd.BuildConfigFromFlags("", operate)
	s.must(err)
	clientOf := func(config *rest.Config) client.Client {
		config.QPS = -1
		c, err := client.New(config, client.Options{})
		s.must(err)
		return c
	}
	as := func(user string, groups ...string) client.Client {
		config := rest.CopyConfig(s.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
		return clientOf(config)
	}
	olga := clientOf(config)
	pod := func(change func(*corev1.Pod, *corev1.Container)) *corev1.Pod {
		p := made.DeepCopy()
		p.ObjectMeta = metav1.ObjectMeta{Namespace: p.Namespace, Name: "accelerator-can-pull-x", Labels: p.Labels, OwnerReferences: p.OwnerReferences}
		p.Status = corev1.PodStatus{}
		change(p, &p.Spec.Containers[0])
		return p
	}
	if len(made.Annotations) != 1 || len(made.Labels) != 2 {
		s.t.Errorf("annotations %v, labels %v, want those of the API server, too", made.Annotations, made.Labels)
	}
	if err := olga.Create(ctx, pod(func(*corev1.Pod, *corev1.Container) {}), client.DryRunAll); err != nil {
		s.t.Fatalf("the pod of can-pull: %v", err)
	}
	host := func(path string) corev1.VolumeSource {
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
	}
	volume := func(p *corev1.Pod) *corev1.Volume {
		return &p.Spec.Volumes[slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "pods-of-the-node" })]
	}
	both, yes, shell := corev1.MountPropagationBidirectional, true, &corev1.ExecAction{Command: []string{"sh"}}
	no, runtimeClass := false, "vm"
	for name, change := range map[string]func(p *corev1.Pod, c *corev1.Container){
		"image: image":        func(_ *corev1.Pod, c *corev1.Container) { c.Image = "evil:v1" },
		"command: command":    func(_ *corev1.Pod, c *corev1.Container) { c.Command = []string{"sh", "-c", "reboot"} },
		"command: program":    func(_ *corev1.Pod, c *corev1.Container) { c.Command[0] = "/host/dev/shm/sh" },
		"command: card":       func(_ *corev1.Pod, c *corev1.Container) { c.Command[5] = "--config=/x" },
		"command: more":       func(_ *corev1.Pod, c *corev1.Container) { c.Command = append(c.Command, "x") },
		"command: args":       func(_ *corev1.Pod, c *corev1.Container) { c.Args = []string{"x"} },
		"command: no command": func(_ *corev1.Pod, c *corev1.Container) { c.Command = nil },
		"command: workingDir": func(_ *corev1.Pod, c *corev1.Container) { c.WorkingDir = "/host/dev" },
		"command: postStart": func(_ *corev1.Pod, c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: shell}}
		},
		"command: preStop": func(_ *corev1.Pod, c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: shell}}
		},
		"command: livenessProbe": func(_ *corev1.Pod, c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: shell}}
		},
		"command: readinessProbe": func(_ *corev1.Pod, c *corev1.Container) {
			c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: shell}}
		},
		"command: startupProbe": func(_ *corev1.Pod, c *corev1.Container) {
			c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: shell}}
		},
		"command: termination": func(_ *corev1.Pod, c *corev1.Container) { c.TerminationMessagePath = "/usr/bin/x" },
		"container: envFrom": func(_ *corev1.Pod, c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}}}
		},
		"container: port": func(_ *corev1.Pod, c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 22, HostPort: 22}}
		},
		"container: a card": func(_ *corev1.Pod, c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{"b-com.com/accelerator": resource.MustParse("1")}
		},
		"container: a claim": func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimName: &p.Name}}
		},
		"env: variable": func(_ *corev1.Pod, c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "LD_PRELOAD", Value: "/x"})
		},
		"env: value":     func(_ *corev1.Pod, c *corev1.Container) { c.Env[0].Value = "/proc/1/root/tmp/x" },
		"env: node name": func(p *corev1.Pod, _ *corev1.Container) { p.Spec.NodeName = "worker-9" },
		"env: secret": func(_ *corev1.Pod, c *corev1.Container) {
			c.Env[0].Value = ""
			c.Env[0].ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}, Key: "x"}}
		},
		"volumeMounts: writable":         func(_ *corev1.Pod, c *corev1.Container) { c.VolumeMounts[0].ReadOnly = false },
		"volumeMounts: over the program": func(_ *corev1.Pod, c *corev1.Container) { c.VolumeMounts[0].MountPath = "/usr/bin" },
		"volumeMounts: subPath":          func(_ *corev1.Pod, c *corev1.Container) { c.VolumeMounts[0].SubPath = "x" },
		"volumeMounts: subPathExpr":      func(_ *corev1.Pod, c *corev1.Container) { c.VolumeMounts[0].SubPathExpr = "x" },
		"volumeMounts: propagation":      func(_ *corev1.Pod, c *corev1.Container) { c.VolumeMounts[0].MountPropagation = &both },
		"volumeMounts: pods elsewhere": func(_ *corev1.Pod, c *corev1.Container) {
			c.VolumeMounts[slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "pods-of-the-node" })].MountPath = "/usr/bin"
		},
		"volumes: host": func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "x", VolumeSource: host("/")})
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "x", MountPath: "/x", ReadOnly: true})
		},
		"volumes: another path": func(p *corev1.Pod, _ *corev1.Container) {
			volume(p).VolumeSource = host("/var/lib/kubelet/pods/x")
		},
		"volumes: pods is etc": func(p *corev1.Pod, _ *corev1.Container) {
			volume(p).VolumeSource = host("/etc")
		},
		"volumes: another source": func(p *corev1.Pod, _ *corev1.Container) { p.Spec.Volumes[0].VolumeSource = host("/tmp") },
		"volumes: ConfigMap":      func(p *corev1.Pod, _ *corev1.Container) { p.Spec.Volumes[0].ConfigMap.Name = "evil" },
		"volumes: Secret": func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}
		},
		"volumes: emptyDir": func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		},
		"spec: token":         func(p *corev1.Pod, _ *corev1.Container) { p.Spec.AutomountServiceAccountToken = &yes },
		"spec: default token": func(p *corev1.Pod, _ *corev1.Container) { p.Spec.AutomountServiceAccountToken = nil },
		"spec: forever":       func(p *corev1.Pod, _ *corev1.Container) { p.Spec.ActiveDeadlineSeconds = nil },
		"spec: restart":       func(p *corev1.Pod, _ *corev1.Container) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways },
		"spec: hostNetwork":   func(p *corev1.Pod, _ *corev1.Container) { p.Spec.HostNetwork = true },
		"spec: hostIPC":       func(p *corev1.Pod, _ *corev1.Container) { p.Spec.HostIPC = true },
		"spec: critical": func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.PriorityClassName, p.Spec.Priority = "system-node-critical", nil
		},
		"spec: runtime": func(p *corev1.Pod, _ *corev1.Container) { p.Spec.RuntimeClassName = &runtimeClass },
		"spec: sysctls": func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "1"}}}
		},
		"spec: init": func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.InitContainers = []corev1.Container{{Name: "x", Image: c.Image, Command: []string{"sh"}, TerminationMessagePolicy: "File", ImagePullPolicy: "Always"}}
		},
		"spec: sidecar": func(p *corev1.Pod, c *corev1.Container) {
			x := *c.DeepCopy()
			x.Name, x.Command = "x", []string{"sh"}
			p.Spec.Containers = append(p.Spec.Containers, x)
		},
		"metadata: label": func(p *corev1.Pod, _ *corev1.Container) {
			p.Labels = map[string]string{"app.kubernetes.io/name": "accelerator-device-plugin"}
		},
		"metadata: more labels": func(p *corev1.Pod, _ *corev1.Container) {
			p.Labels = map[string]string{"app.kubernetes.io/name": "accelerator-can-pull", "a": "b"}
		},
		"metadata: no label": func(p *corev1.Pod, c *corev1.Container) { p.Labels, c.Image = nil, "evil:v1" },
		"metadata: annotation": func(p *corev1.Pod, _ *corev1.Container) {
			p.Annotations = map[string]string{"io.kubernetes.cri-o.Devices": "/dev/sda"}
		},
		"metadata: owner": func(p *corev1.Pod, _ *corev1.Container) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "x", UID: "x", Controller: &no}}
		},
		"metadata: controller": func(p *corev1.Pod, _ *corev1.Container) { p.OwnerReferences[0].Controller = &yes },
		"metadata: finalizer":  func(p *corev1.Pod, _ *corev1.Container) { p.Finalizers = []string{"example.com/x"} },
	} {
		field, _, _ := strings.Cut(name, ":")
		if err := olga.Create(ctx, pod(change), client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied request: "+field+": ") {
			s.t.Errorf("%s: %s: %v, want that a policy refuses it", set.Name, name, err)
		}
	}
	evil := func(p *corev1.Pod, c *corev1.Container) { p.Labels, c.Command = nil, []string{"sh"} }
	for user, c := range map[string]client.Client{
		"administrator": s.Client, "controller": as("system:serviceaccount:kube-system:daemon-set-controller", "system:serviceaccounts"), "kubelet": as("system:node:worker-1", "system:nodes"),
	} {
		if err := c.Create(ctx, pod(evil), client.DryRunAll); err != nil {
			s.t.Errorf("%s: %v, want no error", user, err)
		}
	}
}

// With the role look, ui follows nodes of both APIs, and nothing else can be run.
func (s *apiServer) testUI(t *testing.T, look string) {
	address := startUI(t, look, "-n", pluginNamespace)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", address+"events", nil)
	s.must(err)
	answer, err := http.DefaultClient.Do(request)
	s.must(err)
	defer answer.Body.Close()
	events := bufio.NewReader(answer.Body)
	for found := map[string]bool{}; len(found) < 2; {
		line, err := events.ReadString('\n')
		s.must(err)
		for _, node := range []string{"worker-1", "worker-2"} {
			if _, rest, ok := strings.Cut(line, `"node":"`+node+`"`); ok && strings.Contains(rest, `"health":"healthy"`) {
				found[node] = true
			}
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", look)
	s.must(err)
	f, err := fleet.New(config, pluginNamespace, "")
	s.must(err)
	targets, err := f.Targets(ctx)
	s.must(err)
	for _, args := range [][]string{
		{"watch", "-o", "state"}, {"watch", "-o", "state", "--for", "9999s"}, {"watch", "-o", "state", "--for", "9s", "--scan"}, {"watch -o state --for 9s\n"},
		{"devices", "-o", "state", "--config", "/etc/shadow"}, {"cordon", "3b:00.0", "--why", "x"},
	} {
		if _, err := f.Run(ctx, targets[0], args...); !errors.Is(err, fleet.ErrRefused) {
			t.Errorf("%q with the role to look: %v, want that it is refused", args, err)
		}
	}
}

// BenchmarkDevices asks 1000 nodes with 8 cards each. 50 of them hang and 20 refuse. It measures the time and memory of
// the program.
func BenchmarkDevices(b *testing.B) {
	const nodes, hang, refuse = 1000, 50, 20
	s := newAPIServer(b)
	text := fullState(b)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range nodes {
		run := simcluster.Prints(text)
		switch {
		case i%20 == 7 && i/20 < hang:
			run = func(ctx context.Context, _ []string, _, _ io.Writer) int { <-ctx.Done(); return -1 }
		case i%50 == 3 && i/50 < refuse:
			run = func(context.Context, []string, io.Writer, io.Writer) int { return -1 }
		}
		group.Go(func() error {
			s.add(simcluster.NewPod(fmt.Sprintf("worker-%04d", i), pluginNamespace, "fpga", "devicePlugin", run))
			return nil
		})
	}
	s.must(group.Wait())
	path := buildProgram(b)
	admin := s.kubeconfig("admin", "cluster-admin")
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), path, "--kubeconfig", admin, "-n", pluginNamespace, "devices")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		answered, unknown := strings.Count(out.String(), "  healthy  "), strings.Count(out.String(), "  unknown  ")
		if want := 8 * (nodes - hang - refuse); cmd.ProcessState.ExitCode() != 1 || answered != want || unknown != hang+refuse {
			b.Fatalf("%v: %d devices and %d nodes that did not answer, want %d and %d:\n%.3000s%s", err, answered, unknown, want, hang+refuse, out.String(), errs.String())
		}
		b.ReportMetric(float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MiB")
		b.ReportMetric((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), "CPU-s")
	}
	b.ReportMetric(float64(len(text))/1024, "KiB/answer")
}

// buildProgram builds kubectl-accelerator, and returns its path.
func buildProgram(b *testing.B) string {
	path := filepath.Join(built, "kubectl-accelerator")
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return path
}

// uiIdle is how long nothing changes in BenchmarkUI.
var uiIdle = flag.Duration("idle", 6*time.Minute, "how long nothing changes in BenchmarkUI: longer than a node's command runs")

// BenchmarkUI follows 1000 nodes with 8 cards each. It measures the time until the first look, the cost while nothing
// changes, and the time until a change of one node is on the page.
func BenchmarkUI(b *testing.B) {
	const nodes = 1000
	s := newAPIServer(b)
	text := fullState(b)
	all := make([]*simcluster.Node, nodes)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range all {
		all[i] = simcluster.NewNode(text)
		group.Go(func() error {
			s.add(simcluster.NewPod(fmt.Sprintf("worker-%04d", i), pluginNamespace, "fpga", "devicePlugin", all[i].Run))
			return nil
		})
	}
	s.must(group.Wait())
	path, admin := buildProgram(b), s.kubeconfig("admin", "cluster-admin")
	server := serverMemory()
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), path, "--kubeconfig", admin, "-n", pluginNamespace, "ui")
		out, err := cmd.StdoutPipe()
		s.must(err)
		began := time.Now()
		s.must(cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		s.must(err)
		answer, err := http.Get(pageAddress.FindString(line) + "events")
		s.must(err)
		events := bufio.NewReader(answer.Body)
		// await reads events until n nodes have an answer that contains a text.
		await := func(n int, text string) {
			seen := map[string]bool{}
			for len(seen) < n {
				line, err := events.ReadBytes('\n')
				s.must(err)
				var change struct{ Nodes []json.RawMessage }
				if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
					s.must(json.Unmarshal(data, &change))
				}
				for _, node := range change.Nodes {
					if bytes.Contains(node, []byte(text)) {
						seen[string(node[:min(len(node), 80)])] = true
					}
				}
			}
		}
		await(nodes, `"health":"healthy"`)
		b.ReportMetric(time.Since(began).Seconds(), "first-look-s")
		cpu := func() time.Duration { return processTime(b, cmd.Process.Pid) }
		b.ReportMetric(cpu().Seconds(), "first-look-CPU-s")
		<-time.After(5 * time.Second)
		before := cpu()
		<-time.After(*uiIdle)
		idle := 100 * (cpu() - before).Seconds() / uiIdle.Seconds()
		if b.ReportMetric(idle, "%-of-a-core"); idle > 5 {
			b.Errorf("%.1f %% of a core while nothing changes, want at most 5", idle)
		}
		b.ReportMetric(float64(memory(cmd.Process.Pid))/1024, "MiB")
		b.ReportMetric(float64(serverMemory()-server)/1024, "MiB-more-in-API-server")
		began = time.Now()
		all[500].Set(strings.ReplaceAll(text, `"healthy"`, `"degraded"`))
		await(1, `"health":"degraded"`)
		took := time.Since(began)
		if b.ReportMetric(took.Seconds(), "change-s"); took > 5*time.Second {
			b.Errorf("a change was on the page after %s, want at most 5s", took)
		}
		answer.Body.Close()
		s.must(cmd.Process.Signal(syscall.SIGTERM))
		s.must(cmd.Wait())
	}
}

// processTime returns the CPU time of a process.
func processTime(b *testing.B, pid int) time.Duration {
	text := must.Value(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(b)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] { // utime, stime: proc(5)
		n := must.Value(strconv.Atoi(field))(b)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory returns the resident memory of a process in KiB.
func memory(pid int) (kib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // 0 if it has ended
	if _, rest, ok := strings.Cut(string(text), "VmRSS:"); ok {
		_, _ = fmt.Sscan(rest, &kib)
	}
	return kib
}

// serverMemory returns the memory of the API server of this test.
func serverMemory() (kib int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		if name, rest, ok := strings.Cut(string(text), ") "); ok && strings.HasSuffix(name, "(kube-apiserver") {
			if fields := strings.Fields(rest); fields[1] == strconv.Itoa(os.Getpid()) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				kib += memory(pid)
			}
		}
	}
	return kib
}

// fullState returns the answer of a node with 8 cards that have a long history.
func fullState(b *testing.B) string {
	turn := `{"time":"2026-11-20T00:00:00.000Z","device":"3b:00.0","from":"healthy","to":"unhealthy","reason":"port-ap6"}`
	card := `{"card":"3b:00.0","healthChanges":40,"removals":1,"recent":[` + strings.Repeat(turn+",", 19) + turn + `],"former":null}`
	device := must.Value(json.Marshal(map[string]any{
		"id": "3b:00.0", "resource": "b-com.com/accelerator", "family": "dfl", "health": "healthy", "reasons": []string{},
		"pciAddress": "0000:3b:00.0", "pciVendor": "8086", "pciDevice": "09c4", "numaNode": 0, "portId": 0, "afuId": "d8424dc4a4a3c413f89e433683f9040b",
		"interfaceId": "69528db6eb31577a8c3668f9faa081f6", "deviceNodes": []string{"/dev/dfl-port.0"}, "parent": "dfl-fme.0",
		"holder": []string{"default/training-job-1/main"}, "holderKnown": true, "held": true, "nodeNumbers": []string{"245:1"}, "parentNodes": []string{"dfl-fme.0"},
		"cordon": nil, "pciId": "8086:09c4", "subsystem": "8086:0000", "attributes": map[string]string{}, "members": []string{}, "sharedNodes": []string{}, "mounts": []string{},
	}))(b)
	var indented bytes.Buffer // as the plugin prints it
	all := `{"version":"v1","api":"devicePlugin","devices":[` + strings.Repeat(string(device)+",", 7) + string(device) + `],"cards":[` + strings.Repeat(card+",", 7) + card + `]}`
	must.Succeed(b, json.Indent(&indented, []byte(all), "", "  "))
	return indented.String()
}
