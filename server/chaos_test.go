package server_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
)

var histories = flag.Int("histories", 1, "number of random histories of TestChaos, with the seeds 0, 1, 2 …")

// After any sequence of faults, the last list that the kubelet received contains the last snapshot's devices.
func TestChaos(t *testing.T) {
	for seed := range uint64(*histories) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func chaos(t *testing.T, random *rand.Rand) {
	const steps = 2000
	r := newRig(t, func(c *server.Config) {
		c.BackoffMin, c.BackoffMax = time.Microsecond, 5*time.Millisecond
		c.RegisterTimeout, c.StreamTimeout = 500*time.Millisecond, 500*time.Millisecond
	})
	k := r.kubelet(simkubelet.Behaviour{})
	r.run()
	pool := ports(32)
	for range steps {
		switch n := random.IntN(100); {
		case n < 90:
			r.devices.set(some(random, pool)...)
		case n < 92:
			k.CutStream(resource)
		case n < 94:
			for _, path := range r.sockets() {
				_ = os.Remove(path) // the server may have been faster
			}
		case n < 95:
			k.Stop()
			k = r.kubelet(simkubelet.Behaviour{})
		case n < 96:
			k.Kill()
			k = r.kubelet(simkubelet.Behaviour{Refuse: "no"})
		case n < 97:
			r.Reregister()
		case n < 98:
			k.Behave(simkubelet.Behaviour{HangRegister: true})
		default:
			k.Behave(simkubelet.Behaviour{})
		}
		if random.IntN(20) == 0 {
			pause(r, k)
		}
	}
	// The kubelet works again, and gets the right list without a restart.
	k.Behave(simkubelet.Behaviour{})
	converge(r, k, random, pool)
	k.Stop()
	k = r.kubelet(simkubelet.Behaviour{})
	converge(r, k, random, pool)
	compare.Equal(t, "registrations after the faults", 1, k.Registrations(resource))
}

// converge checks that the kubelet gets each snapshot.
func converge(r *rig, k *simkubelet.Kubelet, random *rand.Rand, pool []*inventory.Device) {
	r.Helper()
	r.devices.set(pool[:7]...)
	r.awaitService(k)
	for range 20 {
		r.devices.set(append(some(random, pool[:31]), pool[31])...)
		r.awaitList(k)
	}
}

// pause waits until the kubelet has the latest list, or for 10 ms.
func pause(r *rig, k *simkubelet.Kubelet) {
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Millisecond)
	defer cancel()
	snapshot, _ := r.devices.Latest()
	_, _ = k.AwaitList(ctx, resource, func(l simkubelet.List) bool { return same(l, snapshot) })
}

// some returns a random subset of the pool, in which some devices are unhealthy.
func some(random *rand.Rand, pool []*inventory.Device) []*inventory.Device {
	var list []*inventory.Device
	for _, d := range pool {
		switch random.IntN(4) {
		case 0:
		case 1:
			list = append(list, sick(d.ID, "afu-dead"))
		default:
			list = append(list, d)
		}
	}
	return list
}
