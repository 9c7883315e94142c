package story

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Expectation is the device state that the expect verb's arguments require.
type Expectation struct {
	Device  string
	Health  string   // healthy, degraded, unhealthy or gone
	Reasons []string // sorted; if More is set, there may be others
	More    bool     // whether the arguments contain "..."
	AFU     string   // the AFU's first digits; any AFU if empty
	Nodes   []string // all device nodes, in this order; any if nil
	Holder  string   // the only holder; any if empty
	// Resource is a prefix of the resource's name. Other resources' lists are ignored, so "gone" means that no resource
	// with this prefix lists the device.
	Resource string
	// Unoffered requires that the daemon knows the device but no resource lists it.
	Unoffered bool
	Members   []string      // the other functions in the device's group, in this order; any if nil
	Within    time.Duration // time limit; 0 means the default for every step
}

// Device is a device in the daemon's response to /devices.
type Device struct {
	ID       string   `json:"id"`
	Resource string   `json:"resource"`
	Health   string   `json:"health"`
	Reasons  []string `json:"reasons"`
	AFU      string   `json:"afuId"`
	Nodes    []string `json:"deviceNodes"`
	Holders  []string `json:"holder"`
	Members  []string `json:"members"`
}

// Sysfs is an argument of the expect verb that stands for all devices: the kubelet's list must contain exactly the
// ports in sysfs, and all of them must be healthy.
const Sysfs = "sysfs"

var healths = []string{"healthy", "degraded", "unhealthy", "gone"}

// ParseExpectation parses the expect verb's arguments: DEVICE HEALTH, followed in any order by reasons, "...",
// afu=DIGITS, node=NAME[,NAME …], holder=NAMESPACE/POD/CONTAINER, resource=PREFIX, unoffered, members=ADDRESS[,ADDRESS
// …] and within=DURATION.
func ParseExpectation(args []string) (Expectation, error) {
	if len(args) < 2 {
		return Expectation{}, fmt.Errorf("found %d arguments, want a device and its health, or %s", len(args), Sysfs)
	}
	e := Expectation{Device: args[0], Health: args[1]}
	if !slices.Contains(healths, e.Health) {
		return Expectation{}, fmt.Errorf("health: found %q, want one of %s", e.Health, strings.Join(healths, ", "))
	}
	for _, word := range args[2:] {
		switch key, value, _ := strings.Cut(word, "="); {
		case word == "...":
			e.More = true
		case word == "unoffered":
			e.Unoffered = true
		case key == "members":
			e.Members = strings.Split(value, ",")
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
				return Expectation{}, fmt.Errorf("within: found %q, want a duration above 0", value)
			}
			e.Within = d
		default:
			e.Reasons = append(e.Reasons, word)
		}
	}
	slices.Sort(e.Reasons)
	if bad := e.Health == "degraded" || e.Health == "unhealthy"; bad != (len(e.Reasons) > 0 || e.More) {
		return Expectation{}, fmt.Errorf("reasons of %s: found %v, want reasons for degraded and unhealthy, and none for healthy and gone", e.Health, e.Reasons)
	}
	return e, nil
}

// Offered reports whether the kubelet's list must contain the device as healthy.
func (e Expectation) Offered() bool { return e.Health == "healthy" || e.Health == "degraded" }

// Met reports whether the devices meet the expectation.
func (e Expectation) Met(devices []Device) bool {
	at := slices.IndexFunc(devices, func(d Device) bool { return d.ID == e.Device && strings.HasPrefix(d.Resource, e.Resource) })
	if at < 0 || e.Health == "gone" {
		return at < 0 && e.Health == "gone"
	}
	d := devices[at]
	return d.Health == e.Health && e.reasonsMet(d.Reasons) &&
		strings.HasPrefix(d.AFU, e.AFU) &&
		(e.Nodes == nil || slices.Equal(d.Nodes, below("/dev/", e.Nodes))) &&
		(!e.Unoffered || d.Resource == "") &&
		(e.Members == nil || slices.Equal(d.Members, e.Members)) &&
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

// below prefixes each name with dir.
func below(dir string, names []string) []string {
	var paths []string
	for _, name := range names {
		paths = append(paths, dir+name)
	}
	return paths
}

func (d Device) String() string {
	return fmt.Sprintf("%s %s%v afu=%.8s nodes=%v holder=%v resource=%s members=%v", d.ID, d.Health, d.Reasons, d.AFU, d.Nodes, d.Holders, d.Resource, d.Members)
}
