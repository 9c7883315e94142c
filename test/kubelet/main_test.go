package kubelet_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/klog/v2"

	"b-com.com/accelerator-device-plugin/test/kubelet"
)

var (
	binary = flag.String("daemon", "../../bin/accelerator-device-plugin", "binary under test, built by make build")
	out    = flag.String("out", "../../bin/test-kubelet/logs", "directory for logs")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	klog.Flush()
	timings.print()
	os.Exit(status)
}

// prepare creates the directory for logs, and makes the kubelet log to a file there.
func prepare() error {
	var err error
	if *binary, err = filepath.Abs(*binary); err != nil {
		return err
	}
	if _, err = os.Stat(*binary); err != nil {
		return fmt.Errorf("-daemon: run make build first: %w", err)
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(*out, "kubelet.log"))
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	klog.SetOutput(log)
	return flags.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL", "-v=2"})
}

// timings contains the times measured in all tests. TestMain prints them.
var timings table

// table holds measured times, by the measurement's name.
type table struct {
	mu   sync.Mutex
	took map[string][]time.Duration
}

func (t *table) add(name string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.took == nil {
		t.took = map[string][]time.Duration{}
	}
	t.took[name] = append(t.took[name], took)
}

func (t *table) print() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.took) == 0 {
		return
	}
	var names []string
	for name, took := range t.took {
		slices.Sort(took)
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(t.took[a][len(t.took[a])/2], t.took[b][len(t.took[b])/2]), cmp.Compare(a, b))
	})
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nKubernetes %s: from the change to the device manager's allocatable\ttimes\tmedian\tworst\n", kubelet.Version)
	for _, name := range names {
		took := t.took[name]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", name, len(took), milli(took[len(took)/2]), milli(took[len(took)-1]))
	}
	_ = w.Flush()
}

func milli(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
