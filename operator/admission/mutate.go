package admission

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"b-com.com/accelerator-device-plugin/operator/mapping"
)

// Prefixes of the variables that the hook reads. All names with these prefixes are reserved.
const (
	varRegion = "FPGA_REGION"
	varAFU    = "FPGA_AFU"
)

// maxDevices limits how many devices a pod's containers can request in total, and thereby the size of the patch. No
// node has that many cards.
const maxDevices = 1024

// maxVariables limits how many variables are removed from a container, because the API server moves all later variables
// for each one that is removed.
const maxVariables = 2 * maxDevices

// Mutate returns a copy of the pod with names replaced by resources and with the variables that tell the hook how to
// program the cards. If it returns an error, the pod must be denied; the error mentions the container and the resource.
//
// Mutate is idempotent.
func Mutate(pod *Pod, table *mapping.Table) (*Pod, error) {
	pod = pod.clone()
	devices := int64(0)
	for _, list := range pod.lists() {
		for i := range list.containers {
			c := &list.containers[i]
			n, err := mutate(c, table)
			if err != nil {
				return nil, fmt.Errorf("%s %.63q: %w", list.kind, c.Name, err)
			}
			if devices += n; devices > maxDevices {
				return nil, fmt.Errorf("%s %.63q: found %d units of %s/ in the containers so far, want at most %d", list.kind, c.Name, devices, table.Domain(), maxDevices)
			}
		}
	}
	return pod, nil
}

// pair is a card's interface and the AFU that the card is programmed with.
type pair struct{ iface, afu string }

// mutate replaces the names in a container with resources, sets its variables, and returns the number of devices that
// the container requests.
func mutate(c *Container, table *mapping.Table) (total int64, err error) {
	requested, err := requestedDevices(c, table.Domain())
	if err != nil {
		return 0, err
	}
	ours := 0
	for _, v := range c.Env {
		if reserved(v.Name) {
			ours++
		}
	}
	if ours > maxVariables {
		return 0, fmt.Errorf("found %d variables %s… and %s…, want at most %d", ours, varRegion, varAFU, maxVariables)
	}
	var (
		modes  mapping.Modes        // modes in which nodes advertise all of the names so far
		first  string               // the first name
		wanted = map[string]int64{} // devices by resource
		free   = map[string]int64{} // how many of these devices the container requests by resource name
		pairs  []pair
	)
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		n := requested[name]
		target, err := table.Find(strings.TrimPrefix(name, table.Domain()+"/"))
		if err != nil {
			return 0, fmt.Errorf("resource %.317q: %w", name, err)
		}
		if first == "" {
			first, modes = name, target.Modes
		} else if modes&target.Modes == 0 {
			return 0, fmt.Errorf("resource %.317q: found mode %s, and mode %s for resource %.317q, want one mode in a container", name, target.Modes, modes, first)
		}
		modes &= target.Modes
		if total += n; total > maxDevices {
			return 0, fmt.Errorf("resource %.317q: found %d units together with other names, want at most %d", name, total, maxDevices)
		}
		wanted[target.Resource] += n
		if target.Real {
			free[target.Resource] += n
		}
		if target.Function != nil {
			pairs = append(pairs, slices.Repeat([]pair{{target.Function.Interface, target.Function.AFU}}, int(n))...)
		}
	}
	replace(c.Resources.Limits, requested, wanted)
	replace(c.Resources.Requests, requested, wanted)
	setPairs(c, append(kept(c.Env, table, free), pairs...))
	return total, nil
}

// requestedDevices returns how many devices in the domain a container requests, keyed by name.
func requestedDevices(c *Container, domain string) (map[string]int64, error) {
	found := map[string]int64{}
	for _, in := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for name, quantity := range in {
			if !inDomain(name, domain) {
				continue
			}
			limit, hasLimit := c.Resources.Limits[name]
			request, hasRequest := c.Resources.Requests[name]
			switch n := quantity.Value(); {
			case !hasLimit || !hasRequest || limit.Cmp(request) != 0:
				return nil, fmt.Errorf("resource %.317q: found %s in limits and %s in requests, want the same number in both", name, shown(limit, hasLimit), shown(request, hasRequest))
			case quantity.CmpInt64(maxDevices) > 0: // checked first, because Value rounds
				return nil, fmt.Errorf("resource %.317q: found %s units, want at most %d", name, quantity.String(), maxDevices)
			case quantity.Sign() < 0 || quantity.CmpInt64(n) != 0:
				return nil, fmt.Errorf("resource %.317q: found %s units, want a whole number", name, quantity.String())
			default:
				found[string(name)] = n
			}
		}
	}
	return found, nil
}

// shown formats a quantity, or returns "none".
func shown(q resource.Quantity, has bool) string {
	if !has {
		return "none"
	}
	return q.String()
}

// inDomain reports whether a resource is in the domain.
func inDomain(name corev1.ResourceName, domain string) bool {
	rest, ok := strings.CutPrefix(string(name), domain)
	return ok && strings.HasPrefix(rest, "/")
}

// replace replaces the names requested in the list with the wanted resources.
func replace(list corev1.ResourceList, requested, wanted map[string]int64) {
	for name := range requested {
		if _, stays := wanted[name]; !stays {
			delete(list, corev1.ResourceName(name))
		}
	}
	for name, n := range wanted {
		if q, ok := list[corev1.ResourceName(name)]; !ok || q.CmpInt64(n) != 0 {
			list[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
}

// reserved reports whether a variable's name starts with one of the reserved prefixes.
func reserved(name string) bool {
	return strings.HasPrefix(name, varRegion) || strings.HasPrefix(name, varAFU)
}

// kept returns, in order, the pairs to keep for a container: those that select one of the namespace's functions for
// which the container requests a device by resource name.
func kept(env []corev1.EnvVar, table *mapping.Table, free map[string]int64) []pair {
	afus := map[string]string{}
	for _, v := range env {
		if n, ok := strings.CutPrefix(v.Name, varAFU+"_"); ok {
			afus[n] = v.Value
		}
	}
	var pairs []pair
	for _, v := range env {
		n, ok := strings.CutPrefix(v.Name, varRegion+"_")
		resource := table.Domain() + "/region-" + v.Value
		if ok && free[resource] > 0 && table.Allows(v.Value, afus[n]) {
			free[resource]--
			pairs = append(pairs, pair{v.Value, afus[n]})
		}
	}
	return pairs
}

// setPairs replaces the reserved variables with numbered pairs. The other variables stay in order, because variables
// can refer to earlier ones.
func setPairs(c *Container, pairs []pair) {
	var env []corev1.EnvVar
	for _, v := range c.Env {
		if !reserved(v.Name) {
			env = append(env, v)
		}
	}
	for i, p := range pairs {
		n := strconv.Itoa(i + 1)
		env = append(env, corev1.EnvVar{Name: varRegion + "_" + n, Value: p.iface}, corev1.EnvVar{Name: varAFU + "_" + n, Value: p.afu})
	}
	c.Env = env
}
