package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// The operator's release. Its objects have the same name as the release.
const (
	operator          = "accelerator-operator"
	operatorNamespace = "fpga-system"
	operatorSelector  = "app.kubernetes.io/name=" + operator + ",app.kubernetes.io/instance=" + operator
	operatorSecret    = "accelerator-operator-tls" // contains the operator's CA
	operatorService   = operator + "." + operatorNamespace + ".svc"
	webhookPort       = "9443"

	domain = "fpga.intel.com/" // prefix of the names that pods request

	functionsCRD = "acceleratorfunctions.fpga.intel.com"
	regionsCRD   = "fpgaregions.fpga.intel.com"
)

// installOperator installs the operator, and waits until its replicas are ready.
func (s *scene) installOperator(args ...string) {
	s.cleanups = append(s.cleanups, s.removeOperator)
	must(s.helmOperator("install", append([]string{"--create-namespace"}, args...)...))
}

// helmOperator runs helm install or helm upgrade for the operator.
func (s *scene) helmOperator(command string, args ...string) (string, error) {
	return s.Run(s.ctx, "helm", append([]string{command, operator, s.packaged(operator), "--namespace", operatorNamespace, "--wait", "--timeout", "1m"}, args...)...)
}

// removeOperator removes the operator and its CRDs, and with them all mappings. It removes the webhook first, so that
// pods can be created even if a later step fails. It kills the operator's processes, so that none of them renews its
// lease once the next story has begun. The empty namespace stays.
func (s *scene) removeOperator() {
	run := func(command string, args ...string) {
		s.must(command, args...)
	}
	run("kubectl", "delete", "mutatingwebhookconfigurations", "--selector", operatorSelector)
	pods := must(s.operators())
	run("helm", "uninstall", operator, "--namespace", operatorNamespace, "--ignore-not-found")
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses { // some may have ended already
			_, _ = s.Run(s.ctx, "ctr", "tasks", "kill", "--signal", "SIGKILL", strings.TrimPrefix(c.ContainerID, "containerd://"))
		}
	}
	run("kubectl", "delete", "pods", "--all", "--force", "--namespace", operatorNamespace)
	run("kubectl", "delete", "secrets,leases", "--all", "--namespace", operatorNamespace)
	run("kubectl", "delete", "crd", "--ignore-not-found", functionsCRD, regionsCRD)
	run("kubectl", "delete", "validatingadmissionpolicybindings,validatingadmissionpolicies", "--selector", operatorSelector)
}

// operators returns the operator's pods, except for those that are being deleted.
func (s *scene) operators() ([]corev1.Pod, error) {
	list, err := s.Client.CoreV1().Pods(operatorNamespace).List(s.ctx, metav1.ListOptions{LabelSelector: operatorSelector})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), nil
}

// scale changes the number of the operator's replicas, and waits until all of them are ready and there are no other
// pods.
func (s *scene) scale(replicas int) {
	s.must("kubectl", "--namespace", operatorNamespace, "scale", "deployment", operator, "--replicas", strconv.Itoa(replicas))
	await(s, "replicas", func() ([2]int, error) {
		list, err := s.Client.CoreV1().Pods(operatorNamespace).List(s.ctx, metav1.ListOptions{LabelSelector: operatorSelector})
		if err != nil {
			return [2]int{}, err
		}
		return [2]int{len(list.Items), len(slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !ready(pod) }))}, nil
	}, [2]int{replicas, replicas})
}

// webhook returns the webhook's configuration from the API server.
func (s *scene) webhook() (admissionregistrationv1.MutatingWebhook, error) {
	list, err := s.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(s.ctx, metav1.ListOptions{LabelSelector: operatorSelector})
	if err != nil {
		return admissionregistrationv1.MutatingWebhook{}, err
	}
	if len(list.Items) != 1 || len(list.Items[0].Webhooks) != 1 {
		return admissionregistrationv1.MutatingWebhook{}, fmt.Errorf("found %d webhook configurations, want one with one webhook", len(list.Items))
	}
	return list.Items[0].Webhooks[0], nil
}

// certificates parses PEM-encoded certificates.
func certificates(text []byte) (all []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all, nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
}

// authority returns the operator's CA from its Secret.
func (s *scene) authority() (*x509.Certificate, error) {
	return s.certificateIn(operatorSecret, corev1.TLSCertKey)
}

// certificateIn returns the first certificate in a Secret in the operator's namespace.
func (s *scene) certificateIn(name, key string) (*x509.Certificate, error) {
	secret, err := s.Client.CoreV1().Secrets(operatorNamespace).Get(s.ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	all, err := certificates(secret.Data[key])
	if err == nil && len(all) == 0 {
		err = errors.New("found no certificate, want one")
	}
	if err != nil {
		return nil, fmt.Errorf("secret %s, %s: %w", name, key, err)
	}
	return all[0], nil
}

// trusted returns the CAs that the API server uses to verify the webhook.
func (s *scene) trusted() ([]*x509.Certificate, error) {
	hook, err := s.webhook()
	if err != nil {
		return nil, err
	}
	return certificates(hook.ClientConfig.CABundle)
}

// countSigned returns how many of the operator's replicas serve a certificate signed by ca.
func (s *scene) countSigned(ca *x509.Certificate) (int, error) {
	all, err := s.served()
	all = slices.DeleteFunc(all, func(c *x509.Certificate) bool { return c.CheckSignatureFrom(ca) != nil })
	return len(all), err
}

// served returns the certificates that the operator's replicas serve.
func (s *scene) served() (all []*x509.Certificate, err error) {
	pods, err := s.operators()
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second}, Config: &tls.Config{InsecureSkipVerify: true, ServerName: operatorService}}
		connection, err := dialer.DialContext(s.ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, webhookPort))
		if err != nil {
			return nil, err
		}
		all = append(all, connection.(*tls.Conn).ConnectionState().PeerCertificates[0])
		connection.Close()
	}
	return all, nil
}

// mapping is an AcceleratorFunction or, if it has neither a mode nor an AFU, an FpgaRegion.
type mapping struct{ name, mode, afu, iface string }

func (m mapping) manifest() []byte {
	kind, spec := "FpgaRegion", map[string]string{"interfaceId": m.iface}
	if m.mode != "" {
		kind, spec["mode"], spec["afuId"] = "AcceleratorFunction", m.mode, m.afu
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "fpga.intel.com/v2", "kind": kind, "metadata": map[string]string{"name": m.name}, "spec": spec})
	if err != nil {
		panic(err)
	}
	return text
}

// manifest returns a YAML file that contains these mappings, pods and Deployments.
func manifest(objects ...any) string {
	var file bytes.Buffer
	for _, object := range objects {
		var text []byte
		var err error
		switch o := object.(type) {
		case mapping:
			text = o.manifest()
		case *corev1.Pod:
			o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
			text, err = json.Marshal(o)
		case *appsv1.Deployment:
			o.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
			text, err = json.Marshal(o)
		default:
			err = fmt.Errorf("found a %T, want a mapping, a Pod or a Deployment", o)
		}
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&file, "---\n%s\n", text)
	}
	return file.String()
}

// kubectl runs kubectl in the namespace of the story's pods, and returns its stdout and stderr.
func (s *scene) kubectl(stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.ctx, filepath.Join(s.bin, "kubectl"), append([]string{
		"--kubeconfig", s.Kubeconfig, "--cache-dir", filepath.Join(cluster.Root, "kubectl"), "--namespace", s.users}, args...)...)
	cmd.Env = os.Environ()
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", args[0], err, out)
	}
	return string(out), err
}

// mustKubectl is like kubectl but without input, and ends the story if the command fails.
func (s *scene) mustKubectl(args ...string) {
	must(s.kubectl("", args...))
}

// apply applies objects, and returns kubectl's output.
func (s *scene) apply(objects ...any) string {
	out := must(s.kubectl(manifest(objects...), "apply", "--filename", "-"))
	return out
}

// table returns the lines that kubectl get prints, with a single space between words and AGE in place of every age.
func (s *scene) table(args ...string) ([]string, error) {
	out, err := s.kubectl("", append([]string{"get"}, args...)...)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, age.ReplaceAllString(strings.Join(strings.Fields(line), " "), " AGE"))
	}
	return lines, nil
}

// age matches the age of an object, such as 5s or 2m30s, in a line of kubectl's output.
var age = regexp.MustCompile(`\b( (\d+[smhd])+)+\b`)

// mappingsReady waits until all of these mappings are Ready.
func (s *scene) mappingsReady(kind string, names ...string) {
	await(s, "mappings", func() ([]string, error) {
		out, err := s.kubectl("", "get", kind, "--output",
			`jsonpath={range .items[?(@.status.conditions[0].status=="True")]}{.metadata.name} {end}`)
		return strings.Fields(out), err
	}, names)
}

// dryRun returns the pod that the API server would create from the given one.
func (s *scene) dryRun(pod *corev1.Pod) (*corev1.Pod, error) {
	return s.Client.CoreV1().Pods(s.users).Create(s.ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// requestedUnits returns how many devices a container requests, keyed by resource. It includes only resources in
// [domain].
func requestedUnits(c corev1.Container) map[string]int64 {
	all := map[string]int64{}
	for name, quantity := range c.Resources.Limits {
		if strings.HasPrefix(string(name), domain) {
			all[string(name)] = quantity.Value()
		}
	}
	return all
}

// deployment returns a Deployment with one replica of a pod.
func deployment(pod *corev1.Pod) *appsv1.Deployment {
	labels := map[string]string{"app": pod.Name}
	spec := pod.Spec
	spec.RestartPolicy = corev1.RestartPolicyAlways
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

// createDeployment creates a Deployment with one replica of a pod. The Deployment is deleted when the story ends.
func (s *scene) createDeployment(pod *corev1.Pod) {
	s.cleanups = append(s.cleanups, func() { s.deleteDeployment(pod.Name) })
	s.apply(deployment(pod))
}

func (s *scene) deleteDeployment(name string) {
	s.mustKubectl("delete", "deployment", name, "--ignore-not-found")
}

// rolledOut waits until a Deployment's pod is available.
func (s *scene) rolledOut(name string) {
	s.mustKubectl("rollout", "status", "deployment", name, "--timeout", "1m")
}

// inNamespace runs part of a story with its pods in a new namespace. No other story may use the same name.
func (s *scene) inNamespace(namespace string, part func()) {
	s.mustKubectl("create", "namespace", namespace)
	s.cleanups = append(s.cleanups, func() {
		for _, args := range [][]string{{"pods", "--all", "--now", "--namespace", namespace}, {"namespace", namespace, "--wait=false"}} {
			s.must("kubectl", append([]string{"delete"}, args...)...)
		}
	})
	before := s.users
	defer func() { s.users = before }()
	s.users = namespace
	s.awaitAccount()
	part()
}

// sumMetric returns the sum of one of the API server's metrics over all series with labels that contain these words.
func (s *scene) sumMetric(metric string, words ...string) int {
	out := s.must("kubectl", "get", "--raw", "/metrics")
	sum := 0.0
	for line := range strings.Lines(out) {
		labels, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(labels, metric+"{") || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(labels, w) }) {
			continue
		}
		n := must(strconv.ParseFloat(value, 64))
		sum += n
	}
	return int(sum)
}

// webhookCalls returns how often the API server has called the webhook.
func (s *scene) webhookCalls() int {
	return s.sumMetric("apiserver_admission_webhook_request_total", `type="admit"`)
}

// isDenied ends the story unless the webhook denies the pod and kubectl's error contains all of the words.
func (s *scene) isDenied(pod *corev1.Pod, words ...string) {
	_, err := s.kubectl(manifest(pod), "apply", "--filename", "-")
	s.refused("pod "+pod.Name, err, append([]string{"denied the request: "}, words...)...)
	if _, err := s.readPod(pod.Name); err == nil {
		s.check(errors.New("pod " + pod.Name + " was created, want it denied"))
	}
}
