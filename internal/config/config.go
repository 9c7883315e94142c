package config

import (
	"time"

	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/server/names"
	"b-com.com/accelerator-device-plugin/server/offer"
	"b-com.com/accelerator-device-plugin/server/prefer"
)

// Config is the daemon's configuration, checked. Paths are absolute, durations
// positive unless said otherwise.
type Config struct {
	SysfsRoot   string
	DevRoot     string
	HostDevRoot string // never empty after Load: DevRoot where it was not set

	Mode              string // one of offer.Modes
	ResourceName      string // in modes single and pool
	ResourceNamespace string // of the resources that the other modes name
	AccelNbUnits      int
	AllocationPolicy  string // one of prefer.Policies
	CDIDir            string // "": off

	// ProgrammingHook is the path of accelerator-fpga on the host, which programs the devices of
	// a container before it starts, in mode region; "": off. It requires CDIDir.
	ProgrammingHook     string
	ProgrammingHookArgs []string // further arguments of its command hook

	NodeName       string // as the API server knows it; "": that is not spoken to
	NodeAnnotation bool   // the node's annotation may overrule the mode, where there is a NodeName
	Events         bool   // Kubernetes Events are written; there is a NodeName then
	Kubeconfig     string // "": the pod's service account

	KubeletDir         string
	PodResourcesSocket string
	HTTPAddress        string // host:port, or "" for off

	ResyncInterval   time.Duration
	HealthInterval   time.Duration
	RecoveryHold     time.Duration // 0: none
	TombstoneGrace   time.Duration // 0: none
	ReprogramTimeout time.Duration
	FlapLimit        int // 0: off
	FlapWindow       time.Duration

	LogLevel  string
	LogFormat string

	// Exclude is what the administrator has taken out: cards as BB:DD.F, or DDDD:BB:DD.F
	// outside domain 0, in lower-case hex, and single ports as the same with -p0 to
	// -p3. nil: nothing. Not to be written to.
	Exclude map[string]bool
	// Severity overrules how bad a reason makes a device: NAME or NAME=VALUE to
	// Fatal, Degraded or Ignored. nil: nothing. Not to be written to.
	Severity map[string]string

	// Resources are the rules by which the administrator names resources otherwise than
	// the mode does; the first that matches counts. nil: none. Not to be written to.
	Resources []offer.Rule

	File string // the YAML file, or ""
}

// Defaults returns the configuration that holds where nothing is said.
func Defaults() Config {
	return Config{
		SysfsRoot:          "/sys",
		DevRoot:            "/dev",
		Mode:               offer.Single,
		ResourceName:       "b-com.com/accelerator",
		ResourceNamespace:  "fpga.intel.com",
		AllocationPolicy:   string(prefer.Packed),
		AccelNbUnits:       40,
		NodeAnnotation:     true,
		KubeletDir:         "/var/lib/kubelet/device-plugins",
		PodResourcesSocket: "/var/lib/kubelet/pod-resources/kubelet.sock",
		HTTPAddress:        "127.0.0.1:9480",
		ResyncInterval:     time.Minute,
		HealthInterval:     5 * time.Second,
		RecoveryHold:       10 * time.Second,
		TombstoneGrace:     5 * time.Minute,
		ReprogramTimeout:   time.Minute,
		FlapLimit:          5,
		FlapWindow:         10 * time.Minute,
		LogLevel:           "info",
		LogFormat:          "json",
	}
}

// Loader fills a [Config] from flags, variables and a file.
type Loader struct {
	Config     Config
	vocabulary Vocabulary
	flags      *pflag.FlagSet // one for each setting, of all commands
	set        map[string]bool
}

// Vocabulary has the names that a file may have.
type Vocabulary struct {
	Families []string // for rules for resources
	Rows     []string // of the families' health tables, NAME or NAME=VALUE, whose severity may be overruled
	Reasons  []string // of the daemon itself, whose severity may not be overruled
}

// configFlag is the flag that has no key: a file does not name another one.
const configFlag = "config"

// New returns a loader that holds the defaults.
func New(v Vocabulary) *Loader {
	l := &Loader{Config: Defaults(), vocabulary: v, set: make(map[string]bool)}
	l.flags = l.settings()
	return l
}

// settings is the table of all settings.
func (l *Loader) settings() *pflag.FlagSet {
	c := &l.Config
	fs := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	fs.Var(path(&c.SysfsRoot), "sysfs-root", "root of the sysfs tree")
	fs.Var(path(&c.DevRoot), "dev-root", "directory of the device nodes, as this program sees it")
	fs.Var(absolute(&c.HostDevRoot), "host-dev-root", "the same directory as the host sees it (default: dev-root)")
	fs.Var(oneOf(&c.Mode, offer.Modes()...), "mode", "what is offered as what: single (ports, under one name), af (ports, by AFU), region (cards, by interface), regiondevel (the same, with the nodes to program them by), pool (numbers)")
	fs.Var(resourceName(&c.ResourceName), "resource-name", "name of the resource, in modes single and pool")
	fs.Var(text(&c.ResourceNamespace, "domain", names.ValidateNamespace), "resource-namespace", "domain of the resources that modes af, region and regiondevel name, and of CDI devices")
	fs.Var(number(&c.AccelNbUnits, 1, 10_000), "accel-nbunits", "number of units, in mode pool")
	fs.Var(oneOf(&c.AllocationPolicy, prefer.Policies()...), "allocation-policy", "which devices a container gets that asks for several: packed (few cards), spread (many)")
	fs.Var(optionalAbsolute(&c.CDIDir, "/var/run/cdi"), "cdi-dir", "directory for a CDI spec, such as /var/run/cdi: containers get their nodes by that; empty: they get them from the kubelet")
	fs.Var(optionalAbsolute(&c.ProgrammingHook, "/opt/accelerator-fpga/bin/accelerator-fpga"), "programming-hook", "path of accelerator-fpga on the host: in mode region it programs the cards of a container before it starts; wants cdi-dir; empty: off")
	fs.Var(arguments(&c.ProgrammingHookArgs), "programming-hook-arg", "further arguments of accelerator-fpga hook, separated by white space; may be given several times")
	fs.Var(nodeName(&c.NodeName), "node-name", "this node, as the API server knows it: for its annotation and events; empty: the API server is not spoken to")
	onOff(fs, &c.NodeAnnotation, "node-annotation", "the node's annotation fpga.intel.com/device-plugin-mode overrules the mode, with node-name")
	onOff(fs, &c.Events, "events", "write Kubernetes Events on the node, and on pods whose device fails or leaves; wants node-name")
	fs.Var(optionalPath(&c.Kubeconfig), "kubeconfig", "file that says how to reach the API server, with node-name; empty: as the pod's service account")
	fs.Var(path(&c.KubeletDir), "kubelet-dir", "the kubelet's directory of device plugin sockets")
	fs.Var(path(&c.PodResourcesSocket), "pod-resources-socket", "the kubelet's socket that tells which container holds what")
	fs.Var(address(&c.HTTPAddress), "http-address", "where /metrics, /healthz, /readyz and /devices are served; empty: nowhere")
	fs.Var(interval(&c.ResyncInterval), "resync-interval", "time between two listings of all cards, with a full reading of each")
	fs.Var(interval(&c.HealthInterval), "health-interval", "time between two checks of the known cards")
	fs.Var(duration(&c.RecoveryHold), "recovery-hold", "how long good news must have held; 0s: not at all")
	fs.Var(duration(&c.TombstoneGrace), "tombstone-grace", "how long a removed device stays listed while nobody can say who holds it; 0s: not at all")
	fs.Var(interval(&c.ReprogramTimeout), "reprogram-timeout", "how long a port may be reprogrammed before it is unhealthy")
	fs.Var(number(&c.FlapLimit, 0, 1000), "flap-limit", "a device whose health turns more often than this within flap-window is quarantined; 0: none is")
	fs.Var(interval(&c.FlapWindow), "flap-window", "see flap-limit; also how long a quarantined device must have been steady")
	fs.Var(oneOf(&c.LogLevel, "debug", "info", "warn", "error"), "log-level", "least severe lines to log: debug, info, warn, error")
	fs.Var(oneOf(&c.LogFormat, "json", "console"), "log-format", "json, or console for people")
	fs.Var(path(&c.File), configFlag, "YAML file with the same settings (resyncInterval: 60s), and with exclude, health.severity and resources")
	return fs
}

// AddFlags gives fs a flag for each setting. Every command takes them all, so that
// a command line can be carried from one to the other.
func (l *Loader) AddFlags(fs *pflag.FlagSet) { fs.AddFlagSet(l.flags) }

// IsSet says whether a setting, by the name of its flag, was given a value.
func (l *Loader) IsSet(name string) bool { return l.set[name] }
