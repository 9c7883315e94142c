package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/prometheus"
)

const (
	resource = "example.com/fpga"
	cardA    = "0000:3b:00.0"
	cardB    = "0000:5e:00.0"
	cardC    = "0000:86:00.0"    // plugged in later
	broken   = "0x4000000000000" // port error: AP6
	whole    = "0x0"
)

// rig is a simulated node that has two cards with two ports each, its kubelet, and two Prometheus servers that scrape
// the node's daemons.
type rig struct {
	t       *testing.T
	dir     string
	node    *simnode.Node
	kubelet *simkubelet.Kubelet
	pods    *simkubelet.PodResources
	daemons map[string]*prometheus.Daemon // by pod name
	native  *prometheus.Server            // native histograms, unchanged rules without intervals
	classic *prometheus.Server            // classic buckets, rules with all times divided by 60
}

func newRig(t *testing.T) *rig {
	dir, err := os.MkdirTemp("", "adp") // short, because a Unix socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &rig{t: t, dir: dir, daemons: map[string]*prometheus.Daemon{}}
	r.node, err = simnode.New(dir)
	r.do(err)
	for numa, address := range []string{cardA, cardB} {
		r.plug(address, numa)
	}
	r.startKubelet()
	t.Cleanup(func() { r.kubelet.Stop() })
	r.pods, err = simkubelet.StartPodResources(context.Background(), filepath.Join(dir, "pods.sock"))
	r.do(err)
	r.pods.Join(r.kubelet)
	t.Cleanup(r.pods.Stop)
	t.Cleanup(func() {
		for pod := range r.daemons {
			r.endDaemon(pod)
		}
	})
	r.startDaemon("a")
	frequent := regexp.MustCompile(`(?m)^  interval: .*\n`).ReplaceAllString(read(t, rulesFile), "") // the test is shorter than an interval
	r.native = r.startServer("native", frequent, "--enable-feature=native-histograms")
	r.classic = r.startServer("classic", faster(read(t, rulesFile)))
	return r
}

// do ends the test if err isn't nil.
func (r *rig) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// step reports the test's progress.
func (r *rig) step(format string, args ...any) {
	fmt.Printf("  %s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

func (r *rig) startKubelet() {
	r.t.Helper()
	var err error
	r.kubelet, err = simkubelet.Start(context.Background(), filepath.Join(r.dir, "kubelet"), simkubelet.Behaviour{})
	r.do(err)
	if r.pods != nil {
		r.pods.Join(r.kubelet)
	}
}

// startDaemon starts another daemon, as the pod with the given name.
func (r *rig) startDaemon(pod string) {
	r.t.Helper()
	settings := filepath.Join(r.dir, "config.yaml")
	write(r.t, settings, "exclude: []\n")
	ctx, cancel := context.WithTimeout(r.t.Context(), awaitTimeout)
	defer cancel()
	d, err := prometheus.StartDaemon(ctx, *binary, filepath.Join(*out, "daemon-"+pod+".log"),
		"--sysfs-root", r.node.Sys, "--dev-root", r.node.Dev, "--host-dev-root", "/dev",
		"--kubelet-dir", filepath.Join(r.dir, "kubelet"), "--pod-resources-socket", filepath.Join(r.dir, "pods.sock"),
		"--cdi-dir", filepath.Join(r.dir, "cdi"), "--state-dir", filepath.Join(r.dir, "state"), "--config", settings,
		"--resource-name", resource, "--recovery-hold", "0s", "--resync-interval", "1s", "--health-interval", "1s", "--sensors", "all", "--sensor-interval", "1s", "--log-level", "debug")
	r.do(err)
	r.daemons[pod] = d
}

func (r *rig) plug(address string, numa int) {
	r.t.Helper()
	r.do(r.node.Plug(simnode.Card{
		Address: address, Ports: 2, NUMANode: numa,
		AFUID: "d8424dc4a4a3c413f89e433683f9040b", InterfaceID: "69528db6eb31577a8c3668f9faa081f6",
	}))
}

func (r *rig) endDaemon(pod string) {
	r.t.Helper()
	if err := r.daemons[pod].End(); err != nil {
		r.t.Errorf("daemon %s: %v", pod, err)
	}
	delete(r.daemons, pod)
}

// startServer starts a Prometheus with the given rules.
func (r *rig) startServer(name, rules string, flags ...string) *prometheus.Server {
	r.t.Helper()
	dir := filepath.Join(*out, name)
	r.do(os.RemoveAll(dir))
	r.do(os.MkdirAll(dir, 0o755))
	write(r.t, filepath.Join(dir, "alerts.yaml"), rules)
	write(r.t, filepath.Join(dir, "prometheus.yml"), r.settings())
	ctx, cancel := context.WithTimeout(r.t.Context(), awaitTimeout)
	defer cancel()
	s, err := prometheus.StartServer(ctx, *server, dir, flags...)
	r.do(err)
	r.t.Cleanup(func() {
		if err := errors.Join(s.End(), os.RemoveAll(filepath.Join(dir, "data"))); err != nil {
			r.t.Errorf("prometheus %s: %v", name, err)
		}
	})
	return s
}

// settings returns the configuration in deploy/prometheus/scrape.yaml, but with an interval of one second and with
// static targets. The targets have the labels that discovery would get from the API server, and are relabeled as in the
// file.
func (r *rig) settings() string {
	r.t.Helper()
	var settings map[string]any
	r.do(yaml.Unmarshal([]byte(read(r.t, "../../deploy/prometheus/scrape.yaml")), &settings))
	settings["global"] = map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
	var pods []any
	for pod, d := range r.daemons {
		pods = append(pods, target(d.Address, pod, "http", "Running"),
			target(d.Address, pod, "other", "Running"), target(d.Address, pod+"-ended", "http", "Succeeded"))
	}
	for _, job := range settings["scrape_configs"].([]any) {
		job := job.(map[string]any)
		job["scrape_interval"] = "1s"
		if _, ok := job["kubernetes_sd_configs"]; ok {
			delete(job, "kubernetes_sd_configs")
			job["static_configs"] = pods
		}
	}
	text, err := yaml.Marshal(settings)
	r.do(err)
	return string(text)
}

// target returns a pod's port, with the labels that Prometheus gets from the API server.
func target(address, pod, port, phase string) map[string]any {
	return map[string]any{
		"targets": []string{address},
		"labels": map[string]string{
			"__meta_kubernetes_pod_label_app_kubernetes_io_name": "accelerator-device-plugin",
			"__meta_kubernetes_pod_container_port_name":          port,
			"__meta_kubernetes_pod_phase":                        phase,
			"__meta_kubernetes_pod_node_name":                    "worker-1",
			"__meta_kubernetes_namespace":                        "kube-system",
			"__meta_kubernetes_pod_name":                         pod,
		},
	}
}

// discover makes both servers scrape the daemons that are currently running.
func (r *rig) discover() {
	r.t.Helper()
	for _, s := range []*prometheus.Server{r.native, r.classic} {
		write(r.t, filepath.Join(s.Dir, "prometheus.yml"), r.settings())
		r.do(s.Reload())
	}
}

// await waits until an expression has the given value: the values of its samples, in the response's order and separated
// by spaces, or "" if there are no samples.
func (r *rig) await(s *prometheus.Server, expr, want string) {
	r.t.Helper()
	var got string
	r.until(func() bool {
		samples, err := s.Query(expr)
		r.do(err)
		var values []string
		for _, sample := range samples {
			values = append(values, sample.Value())
		}
		got = strings.Join(values, " ")
		return got == want
	}, func() string { return fmt.Sprintf("%s: found %q, want %q", expr, got, want) })
}

// awaitBoth is like await but for both servers.
func (r *rig) awaitBoth(expr, want string) {
	r.t.Helper()
	r.await(r.native, expr, want)
	r.await(r.classic, expr, want)
}

// awaitAlert waits until an alert is in the given state, and returns it.
func (r *rig) awaitAlert(s *prometheus.Server, name, state string) prometheus.Alert {
	r.t.Helper()
	var found prometheus.Alert
	var all []prometheus.Alert
	r.until(func() bool {
		var err error
		all, err = s.Alerts()
		r.do(err)
		for _, a := range all {
			if a.Labels["alertname"] == name && a.State == state {
				found = a
				return true
			}
		}
		return false
	}, func() string { return fmt.Sprintf("alerts: found %v, want %s %s", all, name, state) })
	return found
}

// awaitQuiet waits until no alerts are firing.
func (r *rig) awaitQuiet(s *prometheus.Server) {
	r.t.Helper()
	r.await(s, `count(`+firing+`)`, "")
}

// until waits until holds returns true. If it takes too long, the test fails with the problem.
func (r *rig) until(holds func() bool, problem func() string) {
	r.t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > awaitTimeout {
			r.t.Fatalf("after %s: %s", awaitTimeout, problem())
		}
	}
}
