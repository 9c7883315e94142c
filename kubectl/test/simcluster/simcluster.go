package simcluster

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// User is the user's name.
const User = "jane"

// Command is the program that runs in a pod. It returns the exit code, or a negative number to break the connection.
type Command func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// Pod is one of the plugin's pods.
type Pod struct {
	corev1.Pod
	Run  Command
	Logs []string // the container's logs, oldest first; the last one is the current log
}

// Cluster is a simulated API server.
type Cluster struct {
	http *httptest.Server

	mu      sync.Mutex
	pods    map[string]*Pod // by NAMESPACE/NAME
	denied  map[string]bool // keys are VERB RESOURCE
	failing map[string]bool // keys are VERB RESOURCE
	refusal *metav1.Status  // what creating a pod returns; if nil, the pod is created
	asked   int
	kubelet func(*Pod)        // if nil, pods stay pending
	objects map[string]string // JSON by path
}

// Start starts an API server for a test.
func Start(t testing.TB, pods ...*Pod) *Cluster {
	c := &Cluster{pods: map[string]*Pod{}, denied: map[string]bool{}, failing: map[string]bool{}, objects: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/pods", c.list)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", c.list)
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/pods", c.create)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", c.get)
	mux.HandleFunc("DELETE /api/v1/namespaces/{namespace}/pods/{name}", c.remove)
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{name}/exec", c.exec)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}/log", c.logs)
	mux.HandleFunc("GET /api/v1/nodes/{name}", c.object("nodes"))
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/configmaps/{name}", c.object("configmaps"))
	mux.HandleFunc("GET /apis/resource.k8s.io/v1/resourceslices", c.object("resourceslices"))
	mux.HandleFunc("GET /apis/resource.k8s.io/{version}/devicetaintrules", c.object("devicetaintrules"))
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusCreated, &authenticationv1.SelfSubjectReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
			Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: User}},
		})
	})
	c.http = httptest.NewUnstartedServer(mux)
	c.http.Config.ErrorLog = log.New(io.Discard, "", 0) // don't log clients that break connections
	c.http.StartTLS()
	t.Cleanup(c.http.Close)
	for _, p := range pods {
		c.Set(p)
	}
	return c
}

// Config returns a client configuration for the API server.
func (c *Cluster) Config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.http.Certificate().Raw})
	return &rest.Config{Host: c.http.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// Kubeconfig writes a client configuration to a file, and returns the file's path.
func (c *Cluster) Kubeconfig(t testing.TB) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "sim",
		"clusters": []any{map[string]any{"name": "sim", "cluster": map[string]any{"server": c.http.URL, "certificate-authority-data": c.Config().CAData}}},
		"users":    []any{map[string]any{"name": User, "user": map[string]any{}}},
		"contexts": []any{map[string]any{"name": "sim", "context": map[string]any{"cluster": "sim", "user": User}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Set adds a pod, or replaces the pod with the same name.
func (c *Cluster) Set(p *Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods[p.Namespace+"/"+p.Name] = p
}

// Delete removes a pod.
func (c *Cluster) Delete(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, namespace+"/"+name)
}

// Kubelet sets the function that handles a pod once it has been created. accept can call Set to change the pod's state.
func (c *Cluster) Kubelet(accept func(*Pod)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kubelet = accept
}

// SetObject sets the JSON that is served at a path, for example for a node, a ConfigMap or the list of ResourceSlices.
func (c *Cluster) SetObject(path, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[path] = text
}

// object returns a handler that serves a resource's objects, which are set with SetObject.
func (c *Cluster) object(resource string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		verb := "get"
		if r.PathValue("name") == "" {
			verb = "list"
		}
		if !c.allowed(w, verb, resource, r.PathValue("namespace"), r.PathValue("name")) {
			return
		}
		c.mu.Lock()
		text, ok := c.objects[r.URL.Path]
		c.mu.Unlock()
		if !ok {
			write(w, http.StatusNotFound, withType(apierrors.NewNotFound(schema.GroupResource{Resource: resource}, r.PathValue("name")).Status()))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// Pods returns the names of all pods.
func (c *Cluster) Pods() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.pods))
}

// Deny takes away one of the user's permissions, such as "list pods".
func (c *Cluster) Deny(right string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied[right] = true
}

// Refuse makes the API server reject the creation of pods with the given code, reason and message.
func (c *Cluster) Refuse(code int, reason metav1.StatusReason, words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal = &metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: words}
}

// Fail makes requests of a given kind, such as "get pods", fail.
func (c *Cluster) Fail(request string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing[request] = true
}

// Asked returns how many commands have run in pods.
func (c *Cluster) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// NewPod returns a running pod that belongs to a release, with the labels that the chart sets for the API (devicePlugin
// or dra).
func NewPod(node, namespace, release, api string, run Command) *Pod {
	name, yes := "accelerator-device-plugin", true
	if api == "dra" {
		name += "-dra"
	}
	return &Pod{Run: run, Pod: corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: release + "-" + node, UID: types.UID(release + node),
			Labels:          map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/instance": release},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: release, UID: types.UID(release), Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "accelerator-device-plugin"}},
			Volumes: []corev1.Volume{{Name: "dev", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/dev"}}}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "accelerator-device-plugin", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}}
}

func write(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o) // the client may have disconnected
}

// allowed reports whether the user may make a request. If not, it writes the error that a real API server would send.
func (c *Cluster) allowed(w http.ResponseWriter, verb, resource, namespace, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing[verb+" "+resource] {
		write(w, http.StatusInternalServerError, withType(apierrors.NewInternalError(errors.New("etcd is away")).Status()))
		return false
	}
	if !c.denied[verb+" "+resource] {
		return true
	}
	where := "at the cluster scope"
	if namespace != "" {
		where = fmt.Sprintf("in the namespace %q", namespace)
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", User, verb, resource, "", where)
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New(text))
	write(w, http.StatusForbidden, withType(err.Status()))
	return false
}

func withType(s metav1.Status) metav1.Status {
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return s
}

func (c *Cluster) list(w http.ResponseWriter, r *http.Request) {
	namespace, query := r.PathValue("namespace"), r.URL.Query()
	if !c.allowed(w, "list", "pods", namespace, "") {
		return
	}
	byLabels, err := labels.Parse(query.Get("labelSelector"))
	byFields, fieldErr := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil || fieldErr != nil {
		write(w, http.StatusBadRequest, withType(apierrors.NewBadRequest("bad selector").Status()))
		return
	}
	found := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(c.pods)) {
		p := c.pods[key]
		if (namespace == "" || p.Namespace == namespace) && byLabels.Matches(labels.Set(p.Labels)) && byFields.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName}) {
			found.Items = append(found.Items, p.Pod)
		}
	}
	write(w, http.StatusOK, found)
}

// pod returns the pod that a request is about. If there is none, it writes the error and returns nil.
func (c *Cluster) pod(w http.ResponseWriter, r *http.Request) *Pod {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pods[namespace+"/"+name]
	if p == nil {
		write(w, http.StatusNotFound, withType(apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name).Status()))
	}
	return p
}

func (c *Cluster) create(w http.ResponseWriter, r *http.Request) {
	if !c.allowed(w, "create", "pods", r.PathValue("namespace"), "") {
		return
	}
	body, err := io.ReadAll(r.Body)
	p := &Pod{}
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &p.Pod)
	}
	if err != nil {
		write(w, http.StatusBadRequest, withType(apierrors.NewBadRequest(err.Error()).Status()))
		return
	}
	c.mu.Lock()
	refusal := c.refusal
	c.mu.Unlock()
	if refusal != nil {
		write(w, int(refusal.Code), withType(*refusal))
		return
	}
	p.Status.Phase, p.UID = corev1.PodPending, types.UID("of "+p.Name)
	c.Set(p)
	c.mu.Lock()
	accept := c.kubelet
	c.mu.Unlock()
	if accept != nil {
		accept(p)
	}
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	write(w, http.StatusCreated, p.Pod)
}

func (c *Cluster) get(w http.ResponseWriter, r *http.Request) {
	if !c.allowed(w, "get", "pods", r.PathValue("namespace"), r.PathValue("name")) {
		return
	}
	if p := c.pod(w, r); p != nil {
		o := p.Pod
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		write(w, http.StatusOK, o)
	}
}

func (c *Cluster) remove(w http.ResponseWriter, r *http.Request) {
	if !c.allowed(w, "delete", "pods", r.PathValue("namespace"), r.PathValue("name")) {
		return
	}
	if p := c.pod(w, r); p != nil {
		var options metav1.DeleteOptions
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &options)
		}
		if err != nil || options.Preconditions != nil && *options.Preconditions.UID != p.UID {
			write(w, http.StatusConflict, withType(apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, p.Name, errors.Join(err, errors.New("another UID"))).Status()))
			return
		}
		c.Delete(p.Namespace, p.Name)
		write(w, http.StatusOK, withType(metav1.Status{Status: metav1.StatusSuccess}))
	}
}

func (c *Cluster) logs(w http.ResponseWriter, r *http.Request) {
	if !c.allowed(w, "get", "pods/log", r.PathValue("namespace"), r.PathValue("name")) {
		return
	}
	p := c.pod(w, r)
	if p == nil {
		return
	}
	back := 1
	if r.URL.Query().Get("previous") == "true" {
		back = 2
	}
	if len(p.Logs) < back {
		write(w, http.StatusBadRequest, withType(apierrors.NewBadRequest("previous terminated container not found").Status()))
		return
	}
	_, _ = io.WriteString(w, p.Logs[len(p.Logs)-back])
}

// exec runs a command and writes its output using the v5.channel.k8s.io protocol.
func (c *Cluster) exec(w http.ResponseWriter, r *http.Request) {
	if !c.allowed(w, "create", "pods/exec", r.PathValue("namespace"), r.PathValue("name")) {
		return
	}
	p := c.pod(w, r)
	if p == nil {
		return
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{remotecommand.StreamProtocolV5Name}}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the error has been written
	}
	defer conn.Close()
	c.mu.Lock()
	c.asked++
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		defer cancel()
		for { // until the client closes the connection
			if _, _, err := conn.ReadMessage(); err != nil {
				return
			}
		}
	}()
	var mu sync.Mutex // a command may write to both streams at the same time
	channel := func(id byte) io.Writer { return &channel{conn: conn, id: id, mu: &mu} }
	code := p.Run(ctx, r.URL.Query()["command"], channel(remotecommand.StreamStdOut), channel(remotecommand.StreamStdErr))
	if code < 0 {
		return
	}
	status := metav1.Status{Status: metav1.StatusSuccess}
	if code > 0 {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(code)}},
		}}
	}
	_ = json.NewEncoder(channel(remotecommand.StreamErr)).Encode(status)
	_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
}

// channel writes a stream's messages.
type channel struct {
	conn *websocket.Conn
	id   byte
	mu   *sync.Mutex // guards conn
}

func (c *channel) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.WriteMessage(websocket.BinaryMessage, append([]byte{c.id}, p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Prints returns a command that prints text if its arguments are `devices -o state`, and otherwise fails.
func Prints(text string) Command {
	return func(_ context.Context, args []string, stdout, stderr io.Writer) int {
		if got := strings.Join(args, " "); got != "accelerator-device-plugin devices -o state" {
			fmt.Fprintf(stderr, "accelerator-device-plugin: unexpected arguments %q\n", got)
			return 2
		}
		_, _ = io.WriteString(stdout, text)
		return 0
	}
}

// Node holds a plugin pod's answer, which can be changed during a test.
type Node struct {
	mu      sync.Mutex
	text    string
	changed chan struct{}
}

// NewNode returns a Node whose answer is text.
func NewNode(text string) *Node { return &Node{text: text, changed: make(chan struct{})} }

// Set changes the answer.
func (n *Node) Set(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text = text
	close(n.changed)
	n.changed = make(chan struct{})
}

// Run is the [Command] for the node's pod. It supports `devices -o state` and `watch -o state`.
func (n *Node) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	got := strings.Join(args, " ")
	follows := strings.HasPrefix(got, "accelerator-device-plugin watch -o state --for ")
	if !follows && got != "accelerator-device-plugin devices -o state" {
		fmt.Fprintf(stderr, "accelerator-device-plugin: unexpected arguments %q\n", got)
		return 2
	}
	for {
		n.mu.Lock()
		text, changed := n.text, n.changed
		n.mu.Unlock()
		if _, err := io.WriteString(stdout, strings.ReplaceAll(text, "\n", " ")+"\n"); err != nil || !follows {
			return 0
		}
		select {
		case <-ctx.Done():
			return 0
		case <-changed:
		}
	}
}
