package config

import (
	"time"

	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/offer/names"
)

// Config is the daemon's configuration after validation. Paths are absolute. Durations are positive unless noted
// otherwise.
type Config struct {
	SysfsRoot     string
	DevRoot       string
	CgroupRoot    string
	HostSysfsRoot string // never empty after Load; defaults to SysfsRoot
	HostDevRoot   string // never empty after Load; defaults to DevRoot

	Families []string // names of the families whose cards are read, in the daemon's order; not used in pool mode
	VFIOCdev bool     // vfio devices also include their functions' character devices

	XRTManagement bool // xrt devices also include their management function's device node

	Mode              string // one of offer.Modes
	ResourceName      string // in single and pool modes
	ResourceNamespace string // in the other modes
	AccelNbUnits      int
	AllocationPolicy  string // packed or spread
	CDIDir            string // "" means off

	// ProgrammingHook is the path of accelerator-fpga on the host. In region mode, this is the hook that programs a
	// container's devices before the container starts. "" means off. ProgrammingHook requires CDIDir.
	ProgrammingHook     string
	ProgrammingHookArgs []string // additional arguments for ProgrammingHook's hook command

	NodeName          string // the node's name in the API server; if it is "", the API server isn't used
	NodeAnnotation    bool   // the node's annotation can override the mode, if NodeName is set
	Events            bool   // Kubernetes Events are written; requires NodeName
	NodeConditionType string // type of the Node condition; "" means off; requires NodeName
	Kubeconfig        string // if it is "", the pod's service account is used

	KubeletDir         string
	PodResourcesSocket string
	HTTPAddress        string // host:port, or "" for off
	Socket             string // the local socket for commands; "" means off
	StateDir           string // directory for the cordons and the node lock; "" if there is none
	HolderMetrics      bool   // the metrics include the names of containers that hold devices

	ResyncInterval   time.Duration
	HealthInterval   time.Duration
	RecoveryHold     time.Duration // 0 means none
	TombstoneGrace   time.Duration // 0 means none
	ReprogramTimeout time.Duration
	FlapLimit        int // 0 means off
	FlapWindow       time.Duration

	Sensors        string        // one of the values defined in package daemon/sensors
	SensorInterval time.Duration // 0 means off

	LogLevel  string
	LogFormat string

	// Exclude lists the cards and ports that the administrator has excluded, in lower-case hex. A card is BB:DD.F, or
	// DDDD:BB:DD.F outside domain 0; a port is the same followed by -p0 to -p3. Exclude may be nil and is read-only.
	Exclude map[string]bool
	// Severity maps reasons, in the form NAME or NAME=VALUE, to the severities that the administrator has set for them:
	// Fatal, Degraded or Ignored. It may be nil and is read-only.
	Severity map[string]string
	// Resources lists the administrator's rules for resource names, which take precedence over the mode's names. The
	// first rule that matches a device applies. Resources may be nil and is read-only.
	Resources []offer.Rule

	File      string // the YAML file, or ""
	Overrides string // the YAML file that takes precedence over File, or ""

	// NodesUnused means that the overrides' entries for individual nodes have no effect because NodeName is empty.
	NodesUnused bool
}

// Severities for [Config.Severity].
const (
	Fatal    = "fatal"    // the device is not advertised
	Degraded = "degraded" // the device is advertised and shown as degraded
	Ignored  = "ignored"  // the reason has no effect
)

// Defaults returns the configuration that applies without any flags, variables or files.
func Defaults() (c Config) {
	settings(&c, nil)
	return c
}

// Flags that have no key in the file, because a file can't refer to another file.
const (
	configFlag    = "config"
	overridesFlag = "overrides"
)

// settings sets c to the defaults and returns the table of all settings, each of which is a flag that sets a field of
// c. known lists the names of all families.
func settings(c *Config, known []string) *pflag.FlagSet {
	fs := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	fs.Var(of(&c.SysfsRoot, "/sys", path), "sysfs-root", "mount point of sysfs")
	fs.Var(of(&c.DevRoot, "/dev", path), "dev-root", "device node directory, as seen by this program")
	fs.Var(of(&c.HostDevRoot, "", absolute("/dev")), "host-dev-root",
		"device node directory, as seen by the host (default: the value of --dev-root)")
	fs.Var(of(&c.HostSysfsRoot, "", absolute("/sys")), "host-sysfs-root",
		"mount point of sysfs, as seen by the host, used for sysfs files given to containers (default: the value of --sysfs-root)")
	fs.Var(of(&c.CgroupRoot, "/sys/fs/cgroup", path), "cgroup-root",
		"mount point of the host's cgroups, which show whether a force-deleted pod still has processes")
	fs.Var(of((*familyNames)(&c.Families), familyNames{"dfl", "opae"}, familiesOf(known)), "families",
		"card families to read and advertise, separated by commas; ignored in pool mode")
	fs.Var(of(&c.VFIOCdev, false, onOff), "vfio-cdev",
		"also give containers the character devices of vfio-pci functions (iommu, vfio/devices/vfioM), if the kernel has them")
	fs.Var(of(&c.XRTManagement, false, onOff), "xrt-management",
		"also give containers the device node of an XRT card's management function (xclmgmtN), with which they can reset the card and change its shell")
	fs.Var(of(&c.Mode, offer.Single, oneOf(offer.Modes()...)), "mode",
		"devices and their resources: single (ports, one resource), af (ports, one resource per AFU), "+
			"region (cards, one resource per interface), regiondevel (like region, plus the FME's device node), pool (numbers without hardware)")
	fs.Var(of(&c.ResourceName, names.DefaultResource, resourceName), "resource-name",
		"resource name in the single and pool modes")
	domain := name("domain", "a domain", names.ValidateNamespace)
	fs.Var(of(&c.ResourceNamespace, names.DefaultDomain, domain), "resource-namespace",
		"domain of CDI devices, and of the resources in the af, region and regiondevel modes")
	fs.Var(of(&c.AccelNbUnits, 40, number(1, 10_000)), "accel-nbunits", "number of units in pool mode")
	fs.Var(of(&c.AllocationPolicy, "packed", oneOf("packed", "spread")), "allocation-policy",
		"how to choose devices for a container that requests several: packed (on as few cards as possible) or spread (on as many as possible)")
	fs.Var(of(&c.CDIDir, "", optional(absolute("/var/run/cdi"))), "cdi-dir",
		"directory for the CDI spec, such as /var/run/cdi, if containers should get their device nodes through CDI; "+
			"if empty, they get them from the kubelet")
	hook := optional(absolute("/opt/accelerator-fpga/bin/accelerator-fpga"))
	fs.Var(of(&c.ProgrammingHook, "", hook), "programming-hook",
		"path of accelerator-fpga on the host, which programs a container's cards in region mode before the container starts; "+
			"requires --cdi-dir; if empty, programming is off")
	fs.Var(of((*words)(&c.ProgrammingHookArgs), nil, arguments(&c.ProgrammingHookArgs)), "programming-hook-arg",
		"additional arguments for accelerator-fpga hook, separated by whitespace; repeatable")
	fs.Var(of(&c.NodeName, "", optional(nodeName)), "node-name",
		"name of this node in the API server, used for its annotation, condition, Events and entries in --overrides; "+
			"if empty, the API server is not used")
	fs.Var(of(&c.NodeAnnotation, true, onOff), "node-annotation",
		"let the node's annotation fpga.intel.com/device-plugin-mode override --mode, if --node-name is set")
	fs.Var(of(&c.Events, false, onOff), "events",
		"create Kubernetes Events for the node, and for pods whose device fails or is removed; requires --node-name")
	fs.Var(of(&c.NodeConditionType, "", optional(conditionType)), "node-condition-type",
		"type of the Node condition that reports whether the node's cards need attention, such as accelerator.b-com.com/CardsHealthy; "+
			"requires --node-name; if empty, no condition is set")
	fs.Var(of(&c.Kubeconfig, "", optional(path)), "kubeconfig",
		"kubeconfig file for the API server, if --node-name is set; if empty, the pod's service account is used")
	fs.Var(of(&c.KubeletDir, "/var/lib/kubelet/device-plugins", path), "kubelet-dir",
		"directory of the kubelet's device plugin sockets")
	fs.Var(of(&c.PodResourcesSocket, "/var/lib/kubelet/pod-resources/kubelet.sock", path), "pod-resources-socket",
		"socket of the kubelet's pod-resources API, which shows which containers use which devices")
	fs.Var(of(&c.HTTPAddress, "127.0.0.1:9480", optional(hostPort)), "http-address",
		"address to serve /metrics, /healthz, /readyz and /devices on; if empty, they are not served")
	fs.Var(of(&c.Socket, "/run/accelerator-device-plugin/daemon.sock", optional(socketPath)), "socket",
		"local socket for this program's commands, which only root can use; if empty, there is none")
	fs.Var(of(&c.StateDir, "/var/lib/accelerator-device-plugin", optional(path)), "state-dir",
		"directory for the node's lock, its cordons and its cards' history; if empty, devices can't be cordoned, and "+
			"a device plugin and a DRA driver could advertise the same devices")
	fs.Var(of(&c.HolderMetrics, true, onOff), "holder-metrics",
		"show which containers use devices in /metrics")
	fs.Var(of(&c.ResyncInterval, time.Minute, duration(leastInterval)), "resync-interval",
		"time between two resyncs; each resync lists and reads all cards")
	fs.Var(of(&c.HealthInterval, 5*time.Second, duration(leastInterval)), "health-interval",
		"time between two health checks of the known cards")
	fs.Var(of(&c.RecoveryHold, 10*time.Second, duration(0)), "recovery-hold",
		"how long a device must stay healthy before it is advertised again; with 0s, it is advertised immediately")
	fs.Var(of(&c.TombstoneGrace, 5*time.Minute, duration(0)), "tombstone-grace",
		"how long a removed device stays listed if it isn't known which containers use it; with 0s, it isn't listed")
	fs.Var(of(&c.ReprogramTimeout, time.Minute, duration(leastInterval)), "reprogram-timeout",
		"how long reprogramming a port can take before the port becomes unhealthy, and how long resetting a card with XRT can take before it counts as a fault")
	fs.Var(of(&c.FlapLimit, 5, number(0, 1000)), "flap-limit",
		"how often a device can change between healthy and unhealthy within --flap-window before it is quarantined; 0 means no limit")
	fs.Var(of(&c.FlapWindow, 10*time.Minute, duration(leastInterval)), "flap-window",
		"time window for --flap-limit, and how long a quarantined device must be stable before it is advertised again")
	fs.Var(of(&c.Sensors, "main", oneOf("none", "main", "all")), "sensors",
		"sensors to read: none, main (the temperatures of the FPGA and of the board's hottest point, and the board's power), or "+
			"all (every sensor on every card, including the ones behind an XRT card's management function)")
	fs.Var(of(&c.SensorInterval, 15*time.Second, offOr(time.Second)), "sensor-interval",
		"time between two sensor readings; with 0s, the sensors are not read")
	fs.Var(of(&c.LogLevel, "info", oneOf("debug", "info", "warn", "error")), "log-level",
		"lowest level that is logged: debug, info, warn or error")
	fs.Var(of(&c.LogFormat, "json", oneOf("json", "console")), "log-format", "log format: json, or console for text")
	fs.Var(of(&c.File, "", path), configFlag,
		"YAML file with settings (such as resyncInterval: 60s), exclude, health.severity and resources")
	fs.Var(of(&c.Overrides, "", path), overridesFlag,
		"YAML file with additional exclude, health.severity and resources settings, for all nodes or for individual nodes; "+
			"the file doesn't have to exist")
	for _, name := range []string{"vfio-cdev", "xrt-management", "node-annotation", "events", "holder-metrics"} {
		fs.Lookup(name).NoOptDefVal = "true" // the value if the flag is given without one
	}
	return fs
}
