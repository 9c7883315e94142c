package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"b-com.com/accelerator-device-plugin/offer/names"
	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// soakResources lists the values used for the resourceName setting.
var soakResources = []string{"e2e.b-com.com/soak", "e2e.b-com.com/soak-too"}

// naming holds the settings that determine ports' names.
type naming struct {
	API, Mode, Resource string
}

// names returns the names under which pods can get devices.
func (n naming) names() []string {
	switch {
	case n.API == "dra":
		return []string{soak.Claims}
	case n.Mode == "af":
		return []string{afNameOf(afuID), afNameOf(otherAFU)}
	case n.Mode == "region":
		return []string{region}
	}
	return []string{n.Resource}
}

// labels returns the labels of the pods that serve the API. With the device plugin, the DRA driver also runs, but only
// to unprepare claims.
func (n naming) labels() string {
	if n.API == "dra" {
		return draPods
	}
	return pluginPods
}

// of returns a port's name.
func (n naming) of(p port) string {
	all := n.names()
	if n.API != "dra" && n.Mode == "af" {
		return afNameOf(p.AFU)
	}
	return all[0]
}

func afNameOf(afu string) string {
	name, _ := names.AF(interfaceID, afu)
	return domain + name
}

// values returns the chart values for a naming.
func (n naming) values() []string {
	values := []string{"api=" + n.API, "config.mode=" + n.Mode, "config.resourceName=" + n.Resource, "config.cdiDir=" + specs,
		"config.flapLimit=0", "minReadySeconds=2", "events=true", "dra.finishClaims=true"}
	if n.API == "dra" || n.Mode == "region" {
		return append(values, programmingValues...)
	}
	return append(values, "programming.enabled=false")
}

var settingOperations = map[string]operation{
	"upgrade": {weight: 5, disturbs: true, choose: func(s *soaking, random *rand.Rand) (string, []string, bool) {
		to := s.present()
		change := random.IntN(8)
		if to.API == "dra" && random.IntN(2) == 0 {
			change = 7 // claims have only one name, so the device plugin is more interesting
		}
		switch change {
		case 0: // keep the names
		case 1, 2:
			to.Mode = another(random, to.Mode, "single", "af", "region")
		case 3, 4, 5:
			to.Mode, to.Resource = "single", another(random, to.Resource, soakResources...)
		default:
			to.API = another(random, to.API, "dra", "devicePlugin")
		}
		if to.API == "dra" && to.Mode == "af" {
			to.Mode = "single" // makes no difference to claims
		}
		return "", []string{to.API, to.Mode, to.Resource, []string{"info", "debug"}[random.IntN(2)]}, true
	}, run: func(a act, _ string, args []string) {
		a.upgradeNaming(naming{args[0], args[1], args[2]}, "config.logLevel="+args[3], "podAnnotations.soak=n"+fmt.Sprint(time.Now().UnixNano()))
	}},
	"rollback": {weight: 1, disturbs: true, choose: func(*soaking, *rand.Rand) (string, []string, bool) { return "", nil, true },
		run: func(a act, _ string, _ []string) {
			_, err := a.helm("rollback")
			a.readNaming()
			a.check(err)
			a.rolledToNaming()
		}},
}

// another returns a random value other than present.
func another(random *rand.Rand, present string, all ...string) string {
	all = slices.DeleteFunc(slices.Clone(all), func(v string) bool { return v == present })
	return all[random.IntN(len(all))]
}

// upgradeNaming changes the settings, and waits until the daemon has been replaced.
func (a act) upgradeNaming(to naming, values ...string) {
	a.setNaming(to)
	a.changing.Store(true)
	defer a.changing.Store(false)
	args := a.settings(append(to.values(), values...)...)
	for i, arg := range args {
		if arg == "--wait" {
			args = append(args[:i:i], args[i+1:]...)
			break
		}
	}
	_, err := a.helm("upgrade", args...)
	if err != nil {
		a.readNaming()
	}
	a.check(err)
	// Wait for only 30 s. A fault may delay the change for minutes, so the next change may come before this one is
	// complete.
	a.check(a.within(30*time.Second, func(own act) { own.rolledToNaming() }))
}

// present returns the release's current naming.
func (s *soaking) present() naming {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.naming
}

func (s *soaking) setNaming(to naming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to != s.naming {
		s.former, s.naming = s.naming, to
	}
}

// readNaming reads the current naming from the release's values.
func (a act) readNaming() {
	out := a.must("helm", "get", "values", release, "--namespace", namespace, "--output", "json")
	var values struct {
		API    string
		Config struct{ Mode, ResourceName string }
	}
	a.check(json.Unmarshal([]byte(out), &values))
	a.setNaming(naming{values.API, values.Config.Mode, values.Config.ResourceName})
}

// rolledToNaming waits until there is only one daemon, which is ready and uses the current settings.
func (a act) rolledToNaming() {
	labels, name := a.present().labels(), release+"-accelerator-device-plugin"
	if labels == draPods {
		name += "-dra"
	}
	await(a.scene, "daemons", func() (string, error) {
		set, err := a.Client.AppsV1().DaemonSets(namespace).Get(a.ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		pods, err := a.daemonsOf(labels)
		found := fmt.Sprintf("%d pods, %d updated, %d ready, %d changes not seen", len(pods),
			set.Status.UpdatedNumberScheduled, set.Status.NumberReady, set.Generation-set.Status.ObservedGeneration)
		return found, err
	}, "1 pods, 1 updated, 1 ready, 0 changes not seen")
}
