package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// PullAnswer is the output of `accelerator-device-plugin can-pull -o json`.
type PullAnswer struct {
	Address string       `json:"address"`
	Answer  string       `json:"answer"` // yes, no or unknown
	Reasons []PullReason `json:"reasons"`
}

// PullReason is one of the reasons for a [PullAnswer], with what the user can do about it.
type PullReason struct {
	Answer string `json:"answer"` // no, unknown or yes
	What   string `json:"what"`
	Do     string `json:"do"` // remedy; "" if there is none
}

// Limits for the pod that CanPull creates.
const (
	maxAnswer    = 256 << 10        // maximum size of its log, in bytes
	removeWithin = 10 * time.Second // time limit for creating the pod, and for removing it
	spareTime    = 30 * time.Second // the pod's lifetime is f.Limit plus this, in case this program is killed
)

// CanPull finds out whether it is safe to pull a card out of a node. Only a pod that can see the node's processes can
// find this out, so CanPull creates such a pod, waits up to f.Limit for its answer, and removes it, even if ctx is
// done. It calls tell whenever the pod's state changes.
func (f *Fleet) CanPull(ctx context.Context, node, card string, tell func(string)) (a PullAnswer, err error) {
	plugin, err := f.podOf(ctx, node)
	if err != nil {
		return a, err
	}
	pods, pod := f.client.Pods(plugin.Namespace), pullPod(plugin, card, f.Limit)
	// Don't let ctx interrupt the pod's creation or removal, because then we wouldn't know whether the pod exists.
	always := func(do func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
		defer cancel()
		return refusal(do(ctx))
	}
	tell("creating pod " + pod.Name)
	remove := metav1.NewDeleteOptions(0)
	err = always(func(ctx context.Context) error {
		created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		if err == nil { // from now on, delete only the pod with this UID
			pod.UID, remove.Preconditions = created.UID, metav1.NewUIDPreconditions(string(created.UID))
		}
		return err
	})
	if errors.Is(err, ErrRefused) && strings.Contains(err.Error(), ` cannot create resource "pods"`) {
		return a, fmt.Errorf("%w: the role accelerator-operate of docs/kubectl.md has it", err)
	}
	if errors.Is(err, ErrRefused) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) {
		return a, err // no pod was created
	}
	defer func() {
		tell("removing pod " + pod.Name)
		removed := always(func(ctx context.Context) error { return pods.Delete(ctx, pod.Name, *remove) })
		if removed != nil && !apierrors.IsNotFound(removed) && !apierrors.IsConflict(removed) {
			err = errors.Join(err, fmt.Errorf("the pod could not be removed: %w: kubectl --namespace %s delete pod %s", removed, pod.Namespace, pod.Name))
		}
	}()
	if err != nil {
		return a, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.Limit)
	defer cancel()
	code, err := f.untilEnded(ctx, pod, tell)
	if err != nil {
		return a, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	log, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).Stream(ctx)
	if err != nil {
		return a, fmt.Errorf("log of pod %s: %w", pod.Name, refusal(err))
	}
	defer log.Close()
	text, err := io.ReadAll(io.LimitReader(log, maxAnswer))
	if err != nil {
		return a, fmt.Errorf("log of pod %s: %w", pod.Name, err)
	}
	if _, err := f.untilEnded(ctx, pod, tell); err != nil { // the log may come from another pod with the same name
		return a, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	return parsePull(text, card, code)
}

// podOf returns the plugin's pod on a node, even if the pod isn't running. It returns an error unless exactly one
// release has a pod on the node.
func (f *Fleet) podOf(ctx context.Context, node string) (*corev1.Pod, error) {
	pods, err := f.list(ctx, []string{node})
	if err != nil {
		return nil, err
	}
	var names []string
	var found corev1.Pod
	for _, t := range choose(pods) {
		names = append(names, t.Namespace+"/"+t.Pod)
		found = pods[slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Namespace == t.Namespace && p.Name == t.Pod })]
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s: %w", node, errNoPod)
	case len(names) > 1:
		return nil, fmt.Errorf("%s: found pods of %d releases (%s), want one: choose it with --namespace or --selector", node, len(names), strings.Join(names, ", "))
	case !slices.ContainsFunc(found.Spec.Containers, isPlugin):
		return nil, fmt.Errorf("%s: pod %s has no container %s", node, names[0], container)
	case !slices.ContainsFunc(found.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }):
		// Anyone who can create a pod can give it the plugin's labels, but not everyone is allowed to mount host
		// directories.
		return nil, fmt.Errorf("%s: pod %s has no directory of the node, so it is not that of the plugin: choose one with --namespace or --selector", node, names[0])
	}
	return &found, nil
}

func isPlugin(c corev1.Container) bool { return c.Name == container }

// untilEnded waits for a pod to end, and returns its container's exit code, which is 0 or 1. If the pod ends in any
// other way, untilEnded returns an error.
func (f *Fleet) untilEnded(ctx context.Context, pod *corev1.Pod, tell func(string)) (code int32, err error) {
	last := "Pending"
	for {
		p, err := f.client.Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && p.UID != pod.UID:
			return 0, errors.New("somebody has deleted it")
		case err == nil:
			state, end, err := stateOf(p)
			if err != nil {
				return 0, err
			}
			if end != nil {
				return end.ExitCode, nil
			}
			if state != last {
				tell("pod " + pod.Name + ": " + state)
				last = state
			}
		case errors.Is(refusal(err), ErrRefused):
			return 0, refusal(err)
		case ctx.Err() == nil:
			last = "not known: " + err.Error()
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return 0, fmt.Errorf("no answer within %s, it is %s", f.Limit, last)
			}
			return 0, errors.New("interrupted")
		case <-time.After(f.pause):
		}
	}
}

// hopeless lists the reasons for a container's waiting state that won't go away by themselves.
var hopeless = []string{"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// stateOf describes a pod's state. end is non-nil once the pod has produced an answer, and err is non-nil if it never
// will.
func stateOf(p *corev1.Pod) (state string, end *corev1.ContainerStateTerminated, err error) {
	state = string(p.Status.Phase)
	if p.Status.Phase == corev1.PodPending && p.Status.StartTime == nil {
		state += ", and the kubelet has not accepted it: is the node ready?"
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.Name != container { // a container that a webhook has added
			continue
		}
		end, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case end != nil && (end.ExitCode == 0 || end.ExitCode == 1):
			return state, end, nil
		case end != nil:
			return state, nil, fmt.Errorf("its container has ended with exit code %d %s", end.ExitCode, Printable(end.Reason))
		case waiting != nil && slices.Contains(hopeless, waiting.Reason):
			return state, nil, fmt.Errorf("its container does not start: %s: %s", waiting.Reason, Printable(waiting.Message))
		case waiting != nil:
			state += " " + Printable(waiting.Reason)
		}
	}
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded { // ended before a container was started
		return state, nil, fmt.Errorf("the node has refused or ended it: %s %s", Printable(p.Status.Reason), Printable(p.Status.Message))
	}
	return state, nil, nil
}

// parsePull parses the answer in a pod's log, where lines from stderr may come before and after it. It checks that the
// exit code is 0 if and only if the answer is yes.
func parsePull(log []byte, card string, code int32) (a PullAnswer, err error) {
	begin := 0
	if !bytes.HasPrefix(log, []byte("{")) {
		begin = bytes.Index(log, []byte("\n{")) + 1
	}
	err = json.NewDecoder(bytes.NewReader(log[begin:])).Decode(&a)
	address := strings.ToLower(card)
	if strings.Count(address, ":") == 1 {
		address = "0000:" + address
	}
	if err != nil || a.Address != address || !slices.Contains([]string{"yes", "no", "unknown"}, a.Answer) || (a.Answer == "yes") != (code == 0) {
		return PullAnswer{}, fmt.Errorf("its answer is not that of the plugin: exit code %d, %q", code, Printable(string(log[:min(len(log), 300)])))
	}
	for i, r := range a.Reasons {
		a.Reasons[i] = PullReason{Printable(r.Answer), Printable(r.What), Printable(r.Do)}
	}
	return a, nil
}

// pullPod returns a pod that runs can-pull on the same node as the given plugin pod. It uses the plugin's image,
// settings and directories, but mounts the directories read-only. It has to see all processes, so it is privileged,
// which turns off the runtime's AppArmor and SELinux profiles. If no one removes the pod, it ends by itself, and is
// deleted together with the plugin's pod.
func pullPod(plugin *corev1.Pod, card string, limit time.Duration) *corev1.Pod {
	of := plugin.Spec.Containers[slices.IndexFunc(plugin.Spec.Containers, isPlugin)]
	var root int64
	no, yes, seconds := false, true, int64((limit+spareTime)/time.Second)
	c := corev1.Container{
		Name: container, Image: of.Image, ImagePullPolicy: corev1.PullIfNotPresent, // the node already has the image
		Command:         []string{"accelerator-device-plugin", "can-pull", "--scan", "--output=json", "--", card},
		SecurityContext: &corev1.SecurityContext{Privileged: &yes, RunAsUser: &root, RunAsGroup: &root, ReadOnlyRootFilesystem: &yes},
	}
	pods, kubelet := "/var/lib/kubelet/pod-resources", "/var/lib/kubelet/device-plugins"
	for _, e := range of.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "spec.nodeName" {
			e.Value, e.ValueFrom = plugin.Spec.NodeName, nil
		}
		if !strings.HasPrefix(e.Name, "ACCELERATOR_") || e.ValueFrom != nil {
			continue
		}
		switch c.Env = append(c.Env, e); e.Name {
		case "ACCELERATOR_POD_RESOURCES_SOCKET":
			pods = path.Dir(e.Value)
		case "ACCELERATOR_KUBELET_DIR":
			kubelet = path.Clean(e.Value)
		}
	}
	var volumes []corev1.Volume
	for _, m := range of.VolumeMounts {
		i := slices.IndexFunc(plugin.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 || plugin.Spec.Volumes[i].HostPath == nil && plugin.Spec.Volumes[i].ConfigMap == nil {
			continue
		}
		v := *plugin.Spec.Volumes[i].DeepCopy()
		if v.HostPath != nil {
			v.HostPath.Type = unlessCreated(v.HostPath.Type)
		}
		m.ReadOnly = true
		if !slices.ContainsFunc(volumes, func(o corev1.Volume) bool { return o.Name == v.Name }) {
			volumes = append(volumes, v)
		}
		c.VolumeMounts = append(c.VolumeMounts, m)
		if v.HostPath != nil && path.Clean(m.MountPath) == pods { // the directory next to it shows which pods have ended
			directory, follow := corev1.HostPathDirectory, corev1.MountPropagationHostToContainer // follow the host, so that pods' volumes can be unmounted
			volumes = append(volumes, corev1.Volume{Name: "pods-of-the-node", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path.Join(path.Dir(path.Clean(v.HostPath.Path)), "pods"), Type: &directory}}})
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
				Name: "pods-of-the-node", MountPath: path.Join(path.Dir(kubelet), "pods"), ReadOnly: true, MountPropagation: &follow})
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: plugin.Namespace, Name: "accelerator-can-pull-" + rand.String(10),
			Labels:          map[string]string{"app.kubernetes.io/name": "accelerator-can-pull"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: plugin.Name, UID: plugin.UID}},
		},
		Spec: corev1.PodSpec{
			NodeName: plugin.Spec.NodeName, HostPID: true, RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: &seconds,
			ServiceAccountName: plugin.Spec.ServiceAccountName, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			ImagePullSecrets: plugin.Spec.ImagePullSecrets,
			Tolerations:      []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:       []corev1.Container{c}, Volumes: volumes,
		},
	}
}

// unlessCreated returns t or, if t would make the kubelet create a missing directory, the type that requires the
// directory to exist.
func unlessCreated(t *corev1.HostPathType) *corev1.HostPathType {
	if directory := corev1.HostPathDirectory; t != nil && *t == corev1.HostPathDirectoryOrCreate {
		return &directory
	}
	return t
}
