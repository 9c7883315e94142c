package daemon

import (
	"encoding/json"
	"slices"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/offer"
)

// namingVersion must be incremented when a new version of the program gives devices different ids or names for the same
// settings, or gives containers different device nodes. That keeps the two versions from advertising devices side by
// side during an upgrade.
const namingVersion = 1

// naming holds the settings that determine which devices exist, what names they are advertised under, and which files a
// container gets along with them. New fields must be omitted from the JSON if they have their default values, so that
// upgrading the program doesn't change the naming.
type naming struct {
	Version int
	API     string

	SysfsRoot, DevRoot, HostSysfsRoot, HostDevRoot string

	Mode                    string
	Families                []string
	Units                   int
	VFIOCdev, XRTManagement bool

	CDIDir              string
	ProgrammingHook     string
	ProgrammingHookArgs []string

	ResourceName, ResourceNamespace string // not used with DRA
	Rules                           []string
}

// Naming returns the naming of a daemon with these settings and this API. Two daemons can only advertise a node's
// devices at the same time if they have the same naming.
func Naming(cfg config.Config, api string) owner.Naming {
	n := naming{
		Version: namingVersion, API: api,
		SysfsRoot: cfg.SysfsRoot, DevRoot: cfg.DevRoot, HostSysfsRoot: cfg.HostSysfsRoot, HostDevRoot: cfg.HostDevRoot,
		Mode: cfg.Mode, Families: slices.Sorted(slices.Values(cfg.Families)), Units: cfg.AccelNbUnits, VFIOCdev: cfg.VFIOCdev, XRTManagement: cfg.XRTManagement,
		CDIDir: cfg.CDIDir, ProgrammingHook: cfg.ProgrammingHook, ProgrammingHookArgs: append([]string{}, cfg.ProgrammingHookArgs...),
	}
	if api != control.DRA {
		n.ResourceName, n.ResourceNamespace = cfg.ResourceName, cfg.ResourceNamespace
	}
	for _, rule := range cfg.Resources {
		if api == control.DRA { // with DRA, rules only determine which devices exist
			rule = offer.Rule{Match: rule.Match}
		}
		n.Rules = append(n.Rules, rule.String())
	}
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // strings, numbers and lists of strings can always be marshaled
	}
	return owner.NamingOf(string(text))
}
