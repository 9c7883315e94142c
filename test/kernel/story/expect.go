package story

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Expectation is what expect wants of one device.
type Expectation struct {
	Device  string
	Health  string   // healthy, degraded, unhealthy, gone
	Reasons []string // all of them, sorted, unless More
	More    bool     // "...": there may be more reasons
	AFU     string   // its first digits; "": any
	Nodes   []string // all its nodes, in this order; none: any
	Holder  string   // its only holder, "" any
	// Resource is what the name of its resource begins with. On lists of others the
	// device may be as it likes: "gone" says that it is not on these.
	Resource string
	Within   time.Duration // time limit; 0: that of any step
}

// Device is one device as the daemon shows it at /devices.
type Device struct {
	ID       string   `json:"id"`
	Resource string   `json:"resource"`
	Health   string   `json:"health"`
	Reasons  []string `json:"reasons"`
	AFU      string   `json:"afuId"`
	Nodes    []string `json:"deviceNodes"`
	Holders  []string `json:"holder"`
}

// Sysfs is the only argument of an expect that wants the list of the kubelet to be
// what sysfs shows, and all of it healthy.
const Sysfs = "sysfs"

var healths = []string{"healthy", "degraded", "unhealthy", "gone"}

// ParseExpectation reads the arguments of expect: DEVICE HEALTH, then, in any
// order, reasons, "...", afu=DIGITS, node=NAME[,NAME …], holder=NAMESPACE/POD/CONTAINER,
// resource=BEGINNING and within=DURATION.
func ParseExpectation(args []string) (Expectation, error) {
	if len(args) < 2 {
		return Expectation{}, fmt.Errorf("want a device and its health, or %s", Sysfs)
	}
	e := Expectation{Device: args[0], Health: args[1]}
	if !slices.Contains(healths, e.Health) {
		return Expectation{}, fmt.Errorf("health %q, want one of %s", e.Health, strings.Join(healths, ", "))
	}
	for _, word := range args[2:] {
		switch key, value, _ := strings.Cut(word, "="); {
		case word == "...":
			e.More = true
		case key == "afu":
			e.AFU = value
		case key == "node":
			e.Nodes = strings.Split(value, ",")
		case key == "holder":
			e.Holder = value
		case key == "resource":
			e.Resource = value
		case key == "within":
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 {
				return Expectation{}, fmt.Errorf("within=%s, want a duration above 0", value)
			}
			e.Within = d
		default:
			e.Reasons = append(e.Reasons, word)
		}
	}
	slices.Sort(e.Reasons)
	if bad := e.Health == "degraded" || e.Health == "unhealthy"; bad != (len(e.Reasons) > 0 || e.More) {
		return Expectation{}, fmt.Errorf("%s with the reasons %v", e.Health, e.Reasons)
	}
	return e, nil
}

func checkExpect(args []string) error {
	if len(args) == 1 && args[0] == Sysfs {
		return nil
	}
	_, err := ParseExpectation(args)
	return err
}

// Offered says whether the kubelet must have been told that the device is healthy.
func (e Expectation) Offered() bool { return e.Health == "healthy" || e.Health == "degraded" }

// Met says whether the devices are as expected.
func (e Expectation) Met(devices []Device) bool {
	at := slices.IndexFunc(devices, func(d Device) bool { return d.ID == e.Device && strings.HasPrefix(d.Resource, e.Resource) })
	if at < 0 || e.Health == "gone" {
		return at < 0 && e.Health == "gone"
	}
	d := devices[at]
	return d.Health == e.Health && e.reasonsMet(d.Reasons) &&
		strings.HasPrefix(d.AFU, e.AFU) &&
		(e.Nodes == nil || slices.Equal(d.Nodes, below("/dev/", e.Nodes))) &&
		(e.Holder == "" || slices.Equal(d.Holders, []string{e.Holder}))
}

func (e Expectation) reasonsMet(got []string) bool {
	if !e.More {
		return slices.Equal(slices.Sorted(slices.Values(got)), e.Reasons)
	}
	for _, reason := range e.Reasons {
		if !slices.Contains(got, reason) {
			return false
		}
	}
	return true
}

// below are the paths of these names in a directory.
func below(dir string, names []string) []string {
	var paths []string
	for _, name := range names {
		paths = append(paths, dir+name)
	}
	return paths
}

func (d Device) String() string {
	return fmt.Sprintf("%s %s%v afu=%.8s nodes=%v holder=%v resource=%s", d.ID, d.Health, d.Reasons, d.AFU, d.Nodes, d.Holders, d.Resource)
}
