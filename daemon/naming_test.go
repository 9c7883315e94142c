package daemon_test

import (
	"fmt"
	"reflect"
	"testing"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// decisions lists all fields of the settings. If changing a field gives devices different IDs, names or nodes, or adds
// or removes devices, the field is part of the naming. Two daemons that differ in such a field never advertise devices
// at the same time. Changing any other field doesn't cause a gap in an upgrade.
var decisions = map[string]struct{ plugin, driver bool }{
	"SysfsRoot": {true, true}, "DevRoot": {true, true}, "HostSysfsRoot": {true, true}, "HostDevRoot": {true, true},
	"Families": {true, true}, "VFIOCdev": {true, true}, "XRTManagement": {true, true},
	"Mode": {true, true}, "AccelNbUnits": {true, true},
	"ResourceName": {true, false}, "ResourceNamespace": {true, false}, // the driver's names are fixed
	"Resources": {true, true},
	// Both daemons would write the file, each with different content.
	"CDIDir": {true, true}, "ProgrammingHook": {true, true}, "ProgrammingHookArgs": {true, true},

	"AllocationPolicy": {},                                                                                // only a preference
	"NodeName":         {}, "NodeAnnotation": {}, "Kubeconfig": {}, "Events": {}, "NodeConditionType": {}, // only the mode counts, wherever it comes from
	"KubeletDir": {}, "PodResourcesSocket": {}, "CgroupRoot": {}, "HTTPAddress": {}, "Socket": {}, "HolderMetrics": {},
	"StateDir":       {}, // contains the lock
	"ResyncInterval": {}, "HealthInterval": {}, "RecoveryHold": {}, "TombstoneGrace": {}, "ReprogramTimeout": {},
	"FlapLimit": {}, "FlapWindow": {}, "Exclude": {}, "Severity": {}, // health may differ between two daemons
	"Sensors": {}, "SensorInterval": {}, "LogLevel": {}, "LogFormat": {},
	"File": {}, "Overrides": {}, "NodesUnused": {}, // where settings come from
}

// There must be a decision for every field of the settings, and it must hold for both the device plugin and the DRA
// driver.
func TestNaming(t *testing.T) {
	base := config.Defaults()
	fields := reflect.TypeFor[config.Config]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		want, ok := decisions[name]
		if !ok {
			t.Errorf("%s: decide whether devices have other names after a change of this field: then add it to the naming", name)
			continue
		}
		changed := config.Defaults()
		switch f := reflect.ValueOf(&changed).Elem().Field(i); v := f.Interface().(type) {
		case string:
			f.SetString(v + "x")
		case bool:
			f.SetBool(!v)
		case []string:
			f.Set(reflect.ValueOf(append([]string{"x"}, v...)))
		case map[string]bool:
			f.Set(reflect.ValueOf(map[string]bool{"3b:00.0": true}))
		case map[string]string:
			f.Set(reflect.ValueOf(map[string]string{"power-throttled": config.Fatal}))
		case []offer.Rule:
			f.Set(reflect.ValueOf([]offer.Rule{{Resource: "x/y", Match: offer.Match{Family: "vfio"}}}))
		default:
			f.SetInt(f.Int() + 1)
		}
		for api, want := range map[string]bool{control.DevicePlugin: want.plugin, control.DRA: want.driver} {
			compare.Equal(t, fmt.Sprintf("%s, %s: another naming", name, api), want, daemon.Naming(changed, api) != daemon.Naming(base, api))
		}
	}
}

// The names in rules don't matter to the driver, but the matches do.
func TestNamingOfRules(t *testing.T) {
	naming := func(api, resource string, match offer.Match) any {
		cfg := config.Defaults()
		cfg.Resources = []offer.Rule{{Resource: resource, Match: match}}
		return daemon.Naming(cfg, api)
	}
	vfio, dfl := offer.Match{Family: "vfio"}, offer.Match{Family: "dfl"}
	if naming(control.DevicePlugin, "x/a", vfio) == naming(control.DevicePlugin, "x/b", vfio) {
		t.Error("device plugin: one naming for two names")
	}
	if naming(control.DRA, "x/a", vfio) != naming(control.DRA, "x/b", vfio) || naming(control.DRA, "x/a", vfio) == naming(control.DRA, "x/a", dfl) {
		t.Error("driver: want the same naming for other names, and another one for other matches")
	}
}

// If settings don't change, their naming stays the same in the next version, so that an upgrade to it doesn't cause a
// gap. A different number here means that free devices disappear for a moment during that upgrade, so change it only if
// a version names devices differently.
func TestNamingStays(t *testing.T) {
	for api, want := range map[string]int64{control.DevicePlugin: 1535571262202147606, control.DRA: 746610574976487500} {
		compare.Equal(t, api, want, int64(daemon.Naming(config.Defaults(), api)))
	}
}
