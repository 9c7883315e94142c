package deviceplugin_test

import (
	"encoding/binary"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/cmd/internal/cmdtest"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// holdsPort returns the kubelet's answer that container main of default/pod holds a device: a
// ListPodResourcesResponse.
func holdsPort(id string) []byte {
	devices := append(field(1, []byte(testResource)), field(2, []byte(id))...)
	container := append(field(1, []byte("main")), field(2, devices)...)
	pod := append(field(1, []byte("pod")), field(2, []byte("default"))...)
	return field(1, append(pod, field(3, container)...))
}

// field returns a protobuf field of fewer than 128 bytes.
func field(number byte, content []byte) []byte {
	return append([]byte{number<<3 | 2, byte(len(content))}, content...)
}

// servePodResources answers every call with one message, in the protocol of gRPC, because only
// server may import the library. Without a message it never answers.
func servePodResources(t *testing.T, message []byte) (socket string) {
	t.Helper()
	socket = filepath.Join(cmdtest.ShortDir(t), "kubelet.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if message == nil {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))))
		w.Write(message)
		w.Header().Set("Grpc-Status", "0")
	})}
	s.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan struct{})
	go func() { defer close(ended); s.Serve(listener) }()
	t.Cleanup(func() { s.Close(); <-ended })
	return socket
}

func TestHoldersOverHTTP(t *testing.T) {
	for _, test := range []struct {
		name   string
		socket string
		want   string
	}{
		{"held", servePodResources(t, holdsPort("5e:00.0")), "default/pod/main"},
		{"kubelet hangs", servePodResources(t, nil), ""},
		{"no socket", "/nonexistent", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, node, _ := cmdtest.Serve(t, "--pod-resources-socket", test.socket)
			address := "http://" + r.Await("http.served")["address"].(string)
			if err := node.Plug(cardB); err != nil {
				t.Fatal(err)
			}
			r.Await("stream.opened")
			begin := time.Now()
			text, code := cmdtest.Get(t, address+"/devices")
			if got := cmdtest.HoldersIn(t, text); got != test.want || code != 200 {
				t.Errorf("/devices = %d, held by %q, want 200, %q", code, got, test.want)
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("/devices took %s, want about half a second at most", took)
			}
		})
	}
}

func TestHoldersOfDevicesCommand(t *testing.T) {
	node, err := simnode.New(cmdtest.ShortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Plug(cardB); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		socket string
		want   string
		says   string // on stderr
	}{
		{"held", servePodResources(t, holdsPort("5e:00.0")), "default/pod/main", ""},
		{"kubelet hangs", servePodResources(t, nil), "", "accelerator-device-plugin: the holders of devices are not known: "},
		{"no socket", "/nonexistent", "", "accelerator-device-plugin: the holders of devices are not known: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, code := cmdtest.Output(t, "devices", "--scan", "-o", "json", "--sysfs-root", node.Sys, "--dev-root", node.Dev, "--pod-resources-socket", test.socket)
			if got := cmdtest.HoldersIn(t, stdout); got != test.want || code != 0 {
				t.Errorf("exit code %d, held by %q, want 0, %q", code, got, test.want)
			}
			if !strings.HasPrefix(stderr, scanLine+"\n"+test.says) || (test.says == "") != (strings.Count(stderr, "\n") == 1) {
				t.Errorf("stderr = %q, want %q in it", stderr, test.says)
			}
		})
	}
}

// A scan finds the holders of claims on the DRA driver.
func TestHoldersOfClaims(t *testing.T) {
	node, err := simnode.New(cmdtest.ShortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Plug(cardB); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(cmdtest.ShortDir(t), "kubelet.sock")
	pods, err := simkubelet.StartPodResources(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	pods.HoldClaim("default", "pod", "main", "fpga", draname.Driver, draname.Device("5e:00.0"), "other")
	pods.HoldClaim("default", "gpu", "main", "gpu", "gpu.example.com", draname.Device("5e:00.0"))
	stdout, stderr, code := cmdtest.Output(t, "devices", "--scan", "-o", "json", "--sysfs-root", node.Sys, "--dev-root", node.Dev, "--pod-resources-socket", socket)
	if got := cmdtest.HoldersIn(t, stdout); got != "default/pod/main" || code != 0 {
		t.Errorf("exit code %d, held by %q, want 0, default/pod/main\n%s", code, got, stderr)
	}
}

// Control characters in an answer of the kubelet are escaped on the terminal.
func TestHoldersWithControlCharacters(t *testing.T) {
	node, err := simnode.New(cmdtest.ShortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Plug(cardB); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(cmdtest.ShortDir(t), "kubelet.sock")
	pods, err := simkubelet.StartPodResources(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	pods.Hold("default", "\x1b[31mpod", "main\u009b2J", testResource, "5e:00.0")
	roots := []string{"--sysfs-root", node.Sys, "--dev-root", node.Dev, "--pod-resources-socket", socket}
	for _, behaviour := range []simkubelet.PodBehaviour{{}, {Fail: "\x1b[31mpod main\u009b2J"}} {
		pods.Behave(behaviour)
		stdout, stderr, code := cmdtest.Output(t, append([]string{"devices", "--scan"}, roots...)...)
		all := stdout + stderr
		if strings.ContainsAny(all, "\x1b\u009b") || !strings.Contains(all, `\x1b[31mpod`) || !strings.Contains(all, `main\u009b2J`) || code != 0 {
			t.Errorf("%+v: exit code %d, printed %q, want the names escaped", behaviour, code, all)
		}
	}
}
