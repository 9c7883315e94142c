package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const yes = `{"address":"0000:3b:00.0","answer":"yes","reasons":[{"answer":"yes","what":"3b:00.1 is pulled with the card","do":""}]}`

// ends returns a kubelet that runs a pod, which ends with an exit code and a log.
func ends(c *simcluster.Cluster, code int32, log string) func(*simcluster.Pod) {
	return func(p *simcluster.Pod) {
		next := *p
		next.Status.Phase, next.Status.StartTime = corev1.PodSucceeded, &metav1.Time{Time: time.Now()}
		next.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "accelerator-device-plugin", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}}}}
		next.Logs = []string{log}
		c.Set(&next)
	}
}

func waits(c *simcluster.Cluster, reason string) func(*simcluster.Pod) {
	return func(p *simcluster.Pod) {
		next := *p
		next.Status.StartTime = &metav1.Time{Time: time.Now()}
		next.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "accelerator-device-plugin", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "back\x1boff"}}}}
		c.Set(&next)
	}
}

// Whatever happens to the pod, the result is its answer or an error, and the pod is removed.
func TestCanPull(t *testing.T) {
	for _, test := range []struct {
		name    string
		kubelet func(c *simcluster.Cluster, cancel func()) func(*simcluster.Pod)
		want    string // "ANSWER REASONS" or the error
	}{
		{"yes", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) { return ends(c, 0, yes) }, "yes [{yes 3b:00.1 is pulled with the card }]"},
		{"no, after a warning", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) {
			return ends(c, 1, "warning {\n"+`{"address":"0000:3b:00.0","answer":"no","reasons":[{"answer":"no","what":"in use by a\u001b[2J/b/c","do":"delete it"}]}`+"\nmore")
		}, `no [{no in use by a\x1b[2J/b/c delete it}]`},
		{"wrong arguments", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) { return ends(c, 2, yes) }, "its container has ended with exit code 2 Error"},
		{"killed", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) { return ends(c, 137, yes) }, "exit code 137"},
		{"no answer", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) { return ends(c, 0, "\x1byes") }, `its answer is not that of the plugin: exit code 0, "\\x1byes"`},
		{"empty", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) { return ends(c, 0, "") }, "its answer is not that of the plugin"},
		{"yes, with the exit code of no", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) { return ends(c, 1, yes) }, "exit code 1, "},
		{"no, with the exit code of yes", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) {
			return ends(c, 0, `{"address":"0000:3b:00.0","answer":"no"}`)
		}, "exit code 0, "},
		{"perhaps", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) {
			return ends(c, 0, `{"address":"0000:3b:00.0","answer":"perhaps"}`)
		}, "its answer is not that of the plugin"},
		{"another card", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) {
			return ends(c, 0, strings.Replace(yes, "3b", "5e", 1))
		}, "its answer is not that of the plugin"},
		{"the end is missing", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) { return ends(c, 0, yes[:len(yes)-1]) }, "its answer is not that of the plugin"},
		{"a container of a webhook ends first", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) {
			return func(p *simcluster.Pod) {
				next := *p
				ends(c, 0, yes)(&next)
				next.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "mesh", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
				next.Logs = []string{yes}
				c.Set(&next)
			}
		}, "no answer within 300ms, it is Pending"},
		{"too long", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) {
			return ends(c, 0, `{"address":"0000:3b:00.0","answer":"yes","new":"`+strings.Repeat("0", 1<<20)+`"}`)
		}, "its answer is not that of the plugin"},
		{"no image", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) { return waits(c, "ImagePullBackOff") }, `its container does not start: ImagePullBackOff: back\x1boff`},
		{"pulls", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) { return waits(c, "ContainerCreating") }, "no answer within 300ms, it is Pending ContainerCreating"},
		{"refused by the node", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) {
			return func(p *simcluster.Pod) {
				next := *p
				next.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "too many"}
				c.Set(&next)
			}
		}, "the node has refused or ended it: OutOfpods too many"},
		{"node away", func(*simcluster.Cluster, func()) func(*simcluster.Pod) { return nil }, "no answer within 300ms, it is Pending, and the kubelet has not accepted it: is the node ready?"},
		{"deleted by another", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) {
			return func(p *simcluster.Pod) { c.Delete(p.Namespace, p.Name) }
		}, "somebody has deleted it"},
		{"the API server fails", func(c *simcluster.Cluster, _ func()) func(*simcluster.Pod) {
			return func(*simcluster.Pod) { c.Fail("get pods") }
		}, "no answer within 300ms, it is not known: Internal error occurred: etcd is away"},
		{"interrupted while it is created", func(_ *simcluster.Cluster, cancel func()) func(*simcluster.Pod) {
			return func(*simcluster.Pod) { cancel() }
		}, "interrupted"},
		{"interrupted later", func(c *simcluster.Cluster, cancel func()) func(*simcluster.Pod) {
			return func(p *simcluster.Pod) {
				waits(c, "ContainerCreating")(p)
				time.AfterFunc(50*time.Millisecond, cancel)
			}
		}, "interrupted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := simcluster.Start(t, simcluster.NewPod("n", "lab", "fpga", "devicePlugin", nil))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.Kubelet(test.kubelet(c, cancel))
			f := newFleet(t, c, "")
			if f.Limit = time.Minute; strings.Contains(test.want, "300ms") {
				f.Limit = 300 * time.Millisecond
			}
			a, err := f.CanPull(ctx, "n", "3b:00.0", func(string) {})
			got := fmt.Sprintf("%s %v", a.Answer, a.Reasons)
			if err != nil {
				got = err.Error()
			}
			if (err == nil && got != test.want) || !strings.Contains(got, test.want) || (err != nil && a.Answer != "") {
				t.Errorf("answer %q, want %q", got, test.want)
			}
			compare.Values(t, "pods after the answer", []string{"lab/fpga-n"}, c.Pods())
		})
	}
}

// If another pod has replaced the created one, its answer does not count, and it is not removed.
func TestCanPullReplaced(t *testing.T) {
	c := simcluster.Start(t, simcluster.NewPod("n", "lab", "fpga", "devicePlugin", nil))
	c.Kubelet(func(p *simcluster.Pod) {
		other := *p
		other.UID = "other"
		ends(c, 0, yes)(&other)
	})
	a, err := newFleet(t, c, "").CanPull(t.Context(), "n", "3b:00.0", func(string) {})
	if err == nil || !strings.HasSuffix(err.Error(), "somebody has deleted it") || a.Answer != "" || len(c.Pods()) != 2 {
		t.Errorf("%v, %v, want that it was deleted; pods %v", a, err, c.Pods())
	}
}

// If a user lacks a permission, the error says which one. Without the permission to delete pods, the pod stays, and
// ends by itself.
func TestCanPullRights(t *testing.T) {
	for right, want := range map[string]string{
		"create pods":  `you don't have permission: pods is forbidden: User "jane" cannot create resource "pods" in API group "" in the namespace "lab": the role accelerator-operate of docs/kubectl.md has it`,
		"get pods":     `cannot get resource "pods"`,
		"get pods/log": `cannot get resource "pods/log"`,
		"delete pods":  `the pod could not be removed: you don't have permission: `,
	} {
		c := simcluster.Start(t, simcluster.NewPod("n", "lab", "fpga", "devicePlugin", nil))
		c.Deny(right)
		c.Kubelet(ends(c, 0, yes))
		a, err := newFleet(t, c, "").CanPull(t.Context(), "n", "3b:00.0", func(string) {})
		if err == nil || !strings.Contains(err.Error(), want) || (a.Answer != "") != (right == "delete pods") {
			t.Errorf("without the right to %s: %v, %v, want %s", right, a, err, want)
		}
		left := 1
		if right == "delete pods" {
			left = 2
		}
		if pods := c.Pods(); len(pods) != left {
			t.Errorf("without the right to %s: pods %v", right, pods)
		}
	}
}

// The error says who has refused a pod, and why, whatever the code of the refusal. No pod is left behind.
func TestCanPullRefused(t *testing.T) {
	for words, test := range map[string]struct {
		code   int
		reason metav1.StatusReason
		want   string
	}{
		`pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged`:                           {403, metav1.StatusReasonForbidden, "refused by Pod Security admission, by the labels of the namespace: WORDS"},
		`pods "x" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=9, limited: pods=9`:         {403, metav1.StatusReasonForbidden, "refused by a quota of the namespace: WORDS"},
		`pods "x" is forbidden: failed quota: cpu: must specify limits.cpu`:                                     {403, metav1.StatusReasonForbidden, "refused by a quota of the namespace: WORDS"},
		`pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: image: not ours`: {422, metav1.StatusReasonInvalid, "image: not ours (refused by a policy: ValidatingAdmissionPolicy 'p' with binding 'b')"},
		`admission webhook "gate.example" denied the request: no privileged pods`:                               {400, metav1.StatusReasonBadRequest, "refused by a policy: WORDS"},
	} {
		c := simcluster.Start(t, simcluster.NewPod("n", "lab", "fpga", "devicePlugin", nil))
		c.Refuse(test.code, test.reason, words)
		_, err := newFleet(t, c, "").CanPull(t.Context(), "n", "3b:00.0", func(string) {})
		if want := "you don't have permission: " + strings.Replace(test.want, "WORDS", words, 1); err == nil || err.Error() != want || len(c.Pods()) != 1 {
			t.Errorf("error %v, want %s; pods %v", err, want, c.Pods())
		}
	}
}

// The pod has the image, the settings and the directories of the plugin's pod on the node, but cannot write to the
// directories.
func TestPullPod(t *testing.T) {
	directory, created := corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate
	host := func(path string, t corev1.HostPathType) corev1.VolumeSource {
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &t}}
	}
	plugin := simcluster.NewPod("n", "lab", "fpga", "devicePlugin", nil)
	plugin.Spec.ServiceAccountName = "fpga"
	plugin.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "other"}, {
		Name: "accelerator-device-plugin", Image: "registry.example/plugin:v1",
		Env: []corev1.EnvVar{
			{Name: "ACCELERATOR_CONFIG", Value: "/etc/config.yaml"}, {Name: "GOMEMLIMIT", Value: "1"}, {Name: "PASSWORD", Value: "x"},
			{Name: "ACCELERATOR_NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			{Name: "ACCELERATOR_POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
			{Name: "ACCELERATOR_POD_RESOURCES_SOCKET", Value: "/pods/kubelet.sock"},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc"}, {Name: "run", MountPath: "/run"}, {Name: "state", MountPath: "/var/lib/x"}, {Name: "res", MountPath: "/pods", ReadOnly: true},
		},
	}}
	plugin.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "fpga"}}}},
		{Name: "run", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "state", VolumeSource: host("/var/lib/x", created)}, {Name: "res", VolumeSource: host("/data/kubelet/pod-resources", directory)},
		{Name: "not-mounted", VolumeSource: host("/", directory)},
	}
	c := simcluster.Start(t, plugin)
	var got corev1.Pod
	c.Kubelet(func(p *simcluster.Pod) {
		got = p.Pod
		got.UID = ""
		ends(c, 0, yes)(p)
	})
	f := newFleet(t, c, "")
	f.Limit = 2 * time.Minute
	must.Value(f.CanPull(t.Context(), "n", "3b:00.0", func(string) {}))(t)
	no, true_, root, seconds := false, true, int64(0), int64(150)
	follow := corev1.MountPropagationHostToContainer
	want := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "lab", Name: got.Name, Labels: map[string]string{"app.kubernetes.io/name": "accelerator-can-pull"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: plugin.Name, UID: plugin.UID}},
		},
		Spec: corev1.PodSpec{
			NodeName: "n", HostPID: true, RestartPolicy: "Never", ActiveDeadlineSeconds: &seconds, ServiceAccountName: "fpga",
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no, Tolerations: []corev1.Toleration{{Operator: "Exists"}},
			Containers: []corev1.Container{{
				Name: "accelerator-device-plugin", Image: "registry.example/plugin:v1", ImagePullPolicy: "IfNotPresent",
				Command: []string{"accelerator-device-plugin", "can-pull", "--scan", "--output=json", "--", "3b:00.0"},
				Env: []corev1.EnvVar{
					{Name: "ACCELERATOR_CONFIG", Value: "/etc/config.yaml"}, {Name: "ACCELERATOR_NODE_NAME", Value: "n"},
					{Name: "ACCELERATOR_POD_RESOURCES_SOCKET", Value: "/pods/kubelet.sock"},
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "config", MountPath: "/etc", ReadOnly: true}, {Name: "state", MountPath: "/var/lib/x", ReadOnly: true}, {Name: "res", MountPath: "/pods", ReadOnly: true},
					{Name: "pods-of-the-node", MountPath: "/var/lib/kubelet/pods", ReadOnly: true, MountPropagation: &follow},
				},
				SecurityContext: &corev1.SecurityContext{Privileged: &true_, RunAsUser: &root, RunAsGroup: &root, ReadOnlyRootFilesystem: &true_},
			}},
			Volumes: []corev1.Volume{
				plugin.Spec.Volumes[0], {Name: "state", VolumeSource: host("/var/lib/x", directory)}, plugin.Spec.Volumes[3],
				{Name: "pods-of-the-node", VolumeSource: host("/data/kubelet/pods", directory)},
			},
		},
		Status: corev1.PodStatus{Phase: "Pending"},
	}
	compare.Values(t, "pod", want, got)
	c.Set(simcluster.NewPod("n", "lab", "other", "dra", nil))
	pretends := simcluster.NewPod("o", "evil", "fpga", "devicePlugin", nil)
	pretends.Spec.Volumes = nil
	c.Set(pretends)
	c.Set(simcluster.NewPod("p", "lab", "fpga", "devicePlugin", nil))
	newer := simcluster.NewPod("p", "evil", "fpga", "devicePlugin", nil) // has the UID of the DaemonSet in another namespace
	newer.CreationTimestamp = metav1.Now()
	c.Set(newer)
	for node, want := range map[string]string{
		"n": "n: found pods of 2 releases (lab/fpga-n, lab/other-n), want one: choose it with", "m": "m: found no pod of the plugin on this node",
		"o": "o: pod evil/fpga-o has no directory of the node, so it is not that of the plugin", "p": "p: found pods of 2 releases (evil/fpga-p, lab/fpga-p)",
	} {
		compare.Error(t, node, want, compare.ErrorOf(f.CanPull(t.Context(), node, "3b:00.0", func(string) {})))
	}
}

// Whatever the log contains, the answer is yes only if the log has the complete answer about the card. All texts can be
// shown on a terminal.
func FuzzParsePull(f *testing.F) {
	f.Add([]byte(yes), int32(0))
	f.Add([]byte("warning\n{\"address\":\"0000:3b:00.0\",\"answer\":\"no\",\"reasons\":[{\"what\":\"\\u001b\"}]}\n"), int32(1))
	f.Add([]byte(yes[:60]), int32(0))
	f.Fuzz(func(t *testing.T, log []byte, code int32) {
		a, err := fleet.ParsePull(log, "3B:00.0", code)
		all := []any{a.Answer, a.Address}
		for _, r := range a.Reasons {
			all = append(all, r.Answer, r.What, r.Do)
		}
		if err != nil {
			all = []any{fleet.Printable(err.Error())}
		}
		if err == nil && a.Address != "0000:3b:00.0" || (a.Answer == "yes") != (err == nil && code == 0) || !harmless(all) {
			t.Errorf("%q, exit code %d: %q, %v", log, code, all, err)
		}
	})
}
